"""The tables of a rebuild as functions of DataFrames: what is done, not when or where.

`events` is the input schema of `columns`, living events alone. No function acts: nothing runs
until a stage writes what they give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from agent.reindex.spark.dead import TAGS
from agent.reindex.tables import MOST_MSATS
from nostr_client import kinds
from nostr_client.store.index_schema import DAY
from nostr_client.store.zaps import MOST_MSATS as MOST_OF_ONE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_INVOICE: Final = "^ln(?:bcrt|bc|tbs|tb)([1-9][0-9]{0,19})([munp]?)1"
_PER_UNIT: Final = {"": 100_000_000_000, "m": 100_000_000, "u": 100_000, "n": 100}


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
    """`tables.COLUMNS["zap"]`: what receipts claim was paid, each target of a receipt once."""
    receipts = events.where(f.col("kind") == kinds.ZAP).select(
        "id", f.from_json("tags", TAGS).alias("tags")
    )
    one = receipts.select("id", f.posexplode("tags").alias("at", "tag")).where(f.size("tag") > 1)
    named = one.select(
        "id", "at", f.get("tag", f.lit(0)).alias("name"), f.get("tag", f.lit(1)).alias("value")
    )
    invoices = named.where(f.col("name") == "bolt11").groupBy("id")
    amounts = invoices.agg(_msats(f.min_by("value", "at")).alias("msats"))
    wanted = named.where("name IN ('e', 'a', 'p')").select("id", "name", "value").distinct()
    total = f.coalesce(f.sum("msats"), f.lit(0))
    return (
        wanted.join(amounts, "id", "left")
        .groupBy("name", "value")
        .agg(
            f.count("*").alias("receipts"),
            f.least(total, f.lit(MOST_MSATS)).cast("long").alias("msats"),
        )
    )


def _msats(invoice: Column) -> Column:
    """The amount of a BOLT 11 invoice as a decimal; 0 for none, or one beyond belief."""
    text = f.lower(invoice)
    number = f.regexp_extract(text, _INVOICE, 1)
    unit = f.regexp_extract(text, _INVOICE, 2)
    digits = number.try_cast("decimal(20,0)")  # null where there is no invoice
    amount = f.when(unit == "p", f.floor(digits / 10).cast("decimal(38,0)"))
    for name, factor in _PER_UNIT.items():
        scaled = digits * f.lit(factor).cast("decimal(12,0)")
        amount = amount.when(unit == name, scaled.cast("decimal(38,0)"))
    return f.when(amount <= MOST_OF_ONE, amount).otherwise(f.lit(0).cast("decimal(38,0)"))
