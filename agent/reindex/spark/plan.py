"""The tables of a rebuild as functions of DataFrames: what is done, not when or where.

`events` is the input schema of `columns`, living events alone. No function acts: nothing runs
until a stage writes what they give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from agent.reindex.spark.dead import TAGS
from agent.reindex.tables import MOST_MSATS
from nostr_client import kinds
from nostr_client.store.index_schema import DAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def tags(events: DataFrame) -> DataFrame:
    """Each tracked target of each event: `target` (name and value in one), `kind`, `pubkey`."""
    return events.select(f.explode("targets").alias("target"), "kind", "pubkey")


def hot_targets(tags: DataFrame, hot: int) -> DataFrame:
    """Targets with `hot` events or more: `t`, `target`, `kind`, `events`. Stage it: `t` is given
    anew each time that this is computed."""
    counted = tags.groupBy("target", "kind").agg(f.count("*").alias("events"))
    kept = counted.where(f.col("events") >= hot)
    return kept.select(f.monotonically_increasing_id().alias("t"), "target", "kind", "events")


def hot_authors(tags: DataFrame, hot: DataFrame) -> DataFrame:
    """How many events each author has there: `t`, `pubkey`, `n`, a target in one partition."""
    joined = tags.join(hot.select("t", "target", "kind"), ["target", "kind"])
    # By target first: the groups below are then whole, and nothing is shuffled again.
    one_place = joined.select("t", "pubkey").repartition("t")
    grouped = one_place.groupBy("t", "pubkey").agg(f.count("*").alias("n"))
    return grouped.sortWithinPartitions("t", "pubkey")


def hot_table(hot: DataFrame, authors: DataFrame, registers: DataFrame) -> DataFrame:
    """`tables.COLUMNS["hot"]`, with the name apart from the value."""
    counted = authors.groupBy("t").agg(f.count("*").alias("authors"))
    joined = hot.join(counted, "t").join(registers, "t", "left")
    return joined.select(
        "t",
        f.substring("target", 1, 1).alias("name"),
        f.expr("substring(target, 2)").alias("value"),
        "kind",
        "events",
        "authors",
        "registers",
    )


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
