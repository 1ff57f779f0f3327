"""Defines the tables of a rebuild as functions of DataFrames: what is computed, not when or where.

`events` is the input schema of `columns`, living events alone. No function acts: nothing runs
until a stage writes what they give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from agent.reindex.parquet import MOST_MSATS
from agent.reindex.spark import groups
from nostr_client.codecs import kinds
from nostr_client.codecs.zaps import TARGET_TAGS
from nostr_client.store.index.schema import DAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def kept_bitmaps(stored: DataFrame) -> DataFrame:
    """Which rows of an archive are alive, a bit each: 4 KB for 32,768 rows, so that every worker
    may hold those of a whole archive, and no row with its targets is shuffled to drop others."""
    bucket = f.bitmap_bucket_number("seq").alias("bucket")
    bits = f.bitmap_construct_agg(f.bitmap_bit_position("seq")).alias("bits")
    return stored.groupBy(bucket).agg(bits)


def living(events: DataFrame, bitmaps: DataFrame) -> DataFrame:
    """The events whose bits are set."""
    bucketed = events.withColumn("bucket", f.bitmap_bucket_number("seq"))
    place = "bitmap_bit_position(seq)"
    byte = f"int(conv(hex(substring(bits, int({place} DIV 8) + 1, 1)), 16, 10))"
    found = bucketed.join(f.broadcast(bitmaps), "bucket")
    return found.where(f"getbit({byte}, int({place} % 8)) = 1").drop("bucket", "bits")


def grouped(events: DataFrame) -> DataFrame:
    """The authors of each target and kind, as groups.TAGS; a target is in many rows."""
    return events.select(*groups.TAKEN).mapInArrow(groups.grouped, groups.TAGS)


def hot_targets(tags: DataFrame, hot: int) -> DataFrame:
    """Targets with `hot` events or more, of the staged `grouped`: `t`, `target`, `kind`, `events`.

    Stage the result: each computation gives other numbers `t`.
    """
    sums = tags.groupBy("target", "kind").agg(f.sum("events").alias("events"))
    number = f.monotonically_increasing_id().alias("t")
    return sums.where(f.col("events") >= hot).select(number, "target", "kind", "events")


def hot_groups(tags: DataFrame, hot: DataFrame, split: int = groups.SPLIT) -> DataFrame:
    """Authors, how often each, and registers of each hot target, or of each part of one."""
    rows = tags.join(hot.withColumnRenamed("events", "all"), ["target", "kind"])
    small = rows.where(f.col("all") < split)
    big = rows.where(f.col("all") >= split).select("t", "target", "all", "authors")
    parts = small.select("t", f.lit(0).alias("part"), "target", "authors").unionByName(
        big.mapInArrow(groups.spread(split), groups.SPREAD)
    )
    one_place = parts.repartition("t", "part").sortWithinPartitions("t", "part")
    return one_place.mapInArrow(groups.merged, groups.GROUPS)


def hot_table(hot: DataFrame, found: DataFrame) -> DataFrame:
    """`tables.COLUMNS["hot"]`, with the name apart from the value; `found` are `hot_groups`."""
    whole = found.groupBy("t").agg(
        f.sum("n").alias("authors"), f.collect_list("registers").alias("parts")
    )
    rows = hot.join(whole, "t").select("t", "target", "kind", "events", "authors", "parts")
    return rows.mapInArrow(groups.hot_rows, groups.HOT)


def hot_authors(found: DataFrame) -> DataFrame:
    """`tables.COLUMNS["hot_author"]`, of `hot_groups`."""
    return found.select("t", "keys", "counts").mapInArrow(groups.pairs, groups.PAIRS)


def daily_authors(events: DataFrame) -> DataFrame:
    """`tables.COLUMNS["daily_author"]`, sorted in each file as an index has them."""
    day = f.expr(f"created_at DIV {DAY}").alias("day")
    counted = events.groupBy(day, "kind", "pubkey").agg(f.count("*").alias("n"))
    return counted.sortWithinPartitions("day", "kind", "pubkey")


def daily(authors: DataFrame) -> DataFrame:
    """`tables.COLUMNS["daily"]`, of the staged `daily_authors`."""
    return authors.groupBy("day", "kind").agg(
        f.sum("n").alias("events"), f.count("*").alias("authors")
    )


def kinds_table(daily: DataFrame) -> DataFrame:
    """`tables.COLUMNS["kinds"]`, of `daily`."""
    return daily.groupBy("kind").agg(f.sum("events").alias("events"))


def zaps(events: DataFrame) -> DataFrame:
    """`tables.COLUMNS["zap"]`, of receipts whose `tags` say what was paid for what."""
    tag = f.explode(f.from_json("tags", "array<array<string>>")).alias("tag")
    one = events.where(f.col("kind") == kinds.ZAP).select(tag)
    one = one.where(f.get("tag", f.lit(0)).isin(*TARGET_TAGS))
    name, value, msats = (f.get("tag", f.lit(at)) for at in range(3))
    total = f.sum(msats.cast("decimal(20,0)"))
    return one.groupBy(name.alias("name"), value.alias("value")).agg(
        f.count("*").alias("receipts"),
        f.least(total, f.lit(MOST_MSATS)).cast("long").alias("msats"),
    )
