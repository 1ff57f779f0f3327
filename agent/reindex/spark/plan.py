"""The tables of a rebuild as functions of DataFrames: what is done, not when or where.

`events` is the input schema of `columns`, living events alone. No function acts: nothing runs
until a stage writes what they give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from agent.reindex.spark import groups
from agent.reindex.spark.dead import TAGS
from agent.reindex.tables import MOST_MSATS
from nostr_client import kinds
from nostr_client.store.index_schema import DAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def tags(events: DataFrame) -> DataFrame:
    """Who names each tracked target in each chunk: `target`, `kind`, `events`, `authors`."""
    rows = events.where("targets <> X'' OR others <> X''")
    return rows.select(*groups.TAKEN).mapInArrow(groups.grouped, groups.TAGS)


def hot_targets(tags: DataFrame, hot: int) -> DataFrame:
    """Targets with `hot` events or more: `t`, `target`, `kind`, `events`. Stage it: `t` is given
    anew each time that this is computed."""
    counted = tags.groupBy("target", "kind").agg(f.sum("events").alias("events"))
    kept = counted.where(f.col("events") >= hot)
    return kept.select(f.monotonically_increasing_id().alias("t"), "target", "kind", "events")


def hot_groups(tags: DataFrame, hot: DataFrame, split: int = groups.SPLIT) -> DataFrame:
    """Authors, how often each, and registers of each hot target, or of each part of one."""
    place = hot.withColumnRenamed("events", "all")
    joined = tags.join(place, ["target", "kind"])
    small = joined.where(f.col("all") < split)
    big = joined.where(f.col("all") >= split).select("t", "target", "all", "authors")
    rows = small.select("t", f.lit(0).alias("part"), "target", "authors").unionByName(
        big.mapInArrow(groups.spread(split), groups.SPREAD)
    )
    one_place = rows.repartition("t", "part").sortWithinPartitions("t", "part")
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
    """`tables.COLUMNS["daily_author"]`."""
    day = f.expr(f"created_at div {DAY}").alias("day")
    return events.groupBy(day, "kind", "pubkey").agg(f.count("*").alias("n"))


def daily(authors: DataFrame) -> DataFrame:
    """`tables.COLUMNS["daily"]`, of `daily_authors`."""
    return authors.groupBy("day", "kind").agg(
        f.sum("n").alias("events"), f.count("*").alias("authors")
    )


def kinds_table(daily: DataFrame) -> DataFrame:
    """`tables.COLUMNS["kinds"]`, of `daily`."""
    return daily.groupBy("kind").agg(f.sum("events").alias("events"))


def zaps(events: DataFrame) -> DataFrame:
    """`tables.COLUMNS["zap"]`, of receipts whose `tags` say what was paid for what."""
    tag = f.explode(f.from_json("tags", TAGS)).alias("tag")
    one = events.where(f.col("kind") == kinds.ZAP).select(tag)
    name, value, msats = (f.get("tag", f.lit(at)) for at in range(3))
    total = f.sum(msats.cast("decimal(20,0)"))
    return one.groupBy(name.alias("name"), value.alias("value")).agg(
        f.count("*").alias("receipts"),
        f.least(total, f.lit(MOST_MSATS)).cast("long").alias("msats"),
    )
