"""Defines the tables of a rebuild as functions of DataFrames: what is computed, not when or where.

`events` is the input schema of `columns`, living events alone. No function acts: nothing runs
until a stage writes what they give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from agent.reindex.parquet import MOST_MSATS
from agent.reindex.spark import counts, days, groups, numeric
from nostr_client.codecs import kinds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def tags(events: DataFrame) -> DataFrame:
    """Who names each tracked target in each chunk: `target`, `kind`, `events`, `authors`."""
    rows = events.where("targets <> X'' OR others <> X''")
    return rows.select(*groups.TAKEN).mapInArrow(groups.grouped, groups.TAGS)


def authors_of_days(events: DataFrame) -> DataFrame:
    """Who wrote on each day, by kind, in each chunk: `t` (a day and kind), `events`, `authors`."""
    return events.select(*days.TAKEN).mapInArrow(days.grouped, days.DAYS)


def sums(events: DataFrame) -> DataFrame:
    """Events and the sum of their ids of each day, in each batch."""
    return events.select(*numeric.TAKEN).mapInArrow(numeric.summed, numeric.SUMS)


def counts_of(tags: DataFrame) -> DataFrame:
    """How many events each target has in each chunk, packed as `counts.COUNTS`."""
    return tags.select(*counts.TAKEN).mapInArrow(counts.counts, counts.COUNTS)


def hot_targets(packed: DataFrame, hot: int) -> DataFrame:
    """Targets with `hot` events or more, of `counts_of`: `t`, `target`, `kind`, `events`.

    Stage the result: each computation gives other numbers `t`.
    """
    one_place = packed.repartition("bucket").sortWithinPartitions("bucket", "width")
    kept = one_place.mapInArrow(counts.hot_targets(hot), counts.TARGETS)
    return kept.select(f.monotonically_increasing_id().alias("t"), "target", "kind", "events")


def hot_groups(tags: DataFrame, hot: DataFrame, split: int = groups.SPLIT) -> DataFrame:
    """Authors, how often each, and registers of each hot target, or of each part of one."""
    place = hot.withColumnRenamed("events", "all")
    return _merged(tags.join(place, ["target", "kind"]), split)


def _merged(rows: DataFrame, split: int) -> DataFrame:
    """Rows `t`, `target`, `all` (events that `t` has), `authors` to groups.GROUPS."""
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


def daily_groups(found: DataFrame, split: int = groups.SPLIT) -> DataFrame:
    """Authors of each day and kind, or of each part of one, and how often each; `found` are
    `authors_of_days`."""
    rows = found.join(_events_of_days(found), "t").withColumn("target", f.lit(b""))
    return _merged(rows, split)


def _events_of_days(found: DataFrame) -> DataFrame:
    return found.groupBy("t").agg(f.sum("events").alias("all"))


def daily(found: DataFrame, merged: DataFrame) -> DataFrame:
    """`tables.COLUMNS["daily"]`, of `authors_of_days` and `daily_groups`."""
    authors = merged.groupBy("t").agg(f.sum("n").alias("authors"))
    rows = _events_of_days(found).withColumnRenamed("all", "events").join(authors, "t")
    return rows.select(days.day_column(), days.kind_column(), "events", "authors")


def daily_authors(merged: DataFrame) -> DataFrame:
    """`tables.COLUMNS["daily_author"]`, of `daily_groups`."""
    rows = merged.select("t", "keys", "counts").mapInArrow(groups.pairs, groups.PAIRS)
    return rows.select(days.day_column(), days.kind_column(), "pubkey", "n")


def kinds_table(daily: DataFrame) -> DataFrame:
    """`tables.COLUMNS["kinds"]`, of `daily`."""
    return daily.groupBy("kind").agg(f.sum("events").alias("events"))


def zaps(events: DataFrame) -> DataFrame:
    """`tables.COLUMNS["zap"]`, of receipts whose `tags` say what was paid for what."""
    tag = f.explode(f.from_json("tags", "array<array<string>>")).alias("tag")
    one = events.where(f.col("kind") == kinds.ZAP).select(tag)
    name, value, msats = (f.get("tag", f.lit(at)) for at in range(3))
    total = f.sum(msats.cast("decimal(20,0)"))
    return one.groupBy(name.alias("name"), value.alias("value")).agg(
        f.count("*").alias("receipts"),
        f.least(total, f.lit(MOST_MSATS)).cast("long").alias("msats"),
    )
