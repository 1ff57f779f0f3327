"""Defines the tables that numpy makes of Spark's rows; all others are in `queries.sql`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from agent.reindex.spark import groups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def grouped(events: DataFrame) -> DataFrame:
    """The authors of each target and kind, as groups.TAGS; a target is in many rows."""
    return events.select(*groups.TAKEN).mapInArrow(groups.grouped, groups.TAGS)


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
