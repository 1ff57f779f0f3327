"""The stage `dead`: what a store would say to each event of an archive, as relations.

The same rules as `agent.reindex.dead`, which are those of `store.rules`: requests to vanish come
first, then requests for deletion, then the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as f

from nostr_client import kinds
from nostr_client.event import Event
from nostr_client.store.base import Status
from nostr_client.store.rows import decode_tags
from nostr_client.store.rules import vanishes_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column, DataFrame

    from agent.reindex.inputs import Settings

TAGS: Final = "array<array<string>>"
_ID: Final = r"\A[0-9a-f]{64}\z"
_ADDRESS: Final = r"(?s)\A([0-9]{1,5}):([0-9a-f]{64})(?::(.*))?\z"


def with_status(events: DataFrame, settings: Settings) -> DataFrame:
    """Events with a column `status`; one that is STORED is alive."""
    vanished = vanishing(events, settings)
    judged = _with_vanished(events, vanished)
    asked = deletions(judged, settings)
    judged = _with_deleted(judged, asked)
    return _with_rank(judged.withColumn("status", _refused(settings)))


def vanishing(events: DataFrame, settings: Settings) -> DataFrame:
    """Who vanished until when: `who`, `until`."""
    asked = events.where((f.col("kind") == kinds.VANISH) & ~_expired(settings))
    rows = asked.select("pubkey", "created_at", "tags")
    here = rows.mapInArrow(_speaks_to(settings.urls), "who binary, at long")
    return here.groupBy("who").agg(f.max("at").alias("until"))


def deletions(judged: DataFrame, settings: Settings) -> DataFrame:
    """The tags of deletion requests that count: `who`, `at`, `name`, `value`."""
    live = ~_expired(settings) & f.col("vanished_until").isNull()
    asked = judged.where((f.col("kind") == kinds.DELETION) & live)
    return _tags_of(asked).where("name IN ('e', 'a')")


def _tags_of(events: DataFrame) -> DataFrame:
    """Exploded tags of events: `id`, `who`, `at`, `name`, `value`."""
    one = f.explode(f.from_json("tags", TAGS)).alias("tag")
    rows = events.select("id", f.col("pubkey").alias("who"), f.col("created_at").alias("at"), one)
    return rows.where(f.size("tag") > 1).select(
        "id",
        "who",
        "at",
        f.get("tag", f.lit(0)).alias("name"),
        f.get("tag", f.lit(1)).alias("value"),
    )


def _with_vanished(events: DataFrame, vanished: DataFrame) -> DataFrame:
    """Adds `vanished_until`, where it is not before the event."""
    by_author = events.join(
        vanished.select(f.col("who").alias("pubkey"), f.col("until").alias("by_author")),
        "pubkey",
        "left",
    )
    receivers = _receivers(events).join(vanished, "who")
    by_receiver = receivers.groupBy("id").agg(f.max("until").alias("by_receiver"))
    both = by_author.join(by_receiver, "id", "left")
    until = f.greatest("by_author", "by_receiver")
    return both.withColumn("vanished_until", f.when(until >= f.col("created_at"), until)).drop(
        "by_author", "by_receiver"
    )


def _receivers(events: DataFrame) -> DataFrame:
    """Whom gift wraps are for: `id`, `who`."""
    wraps = _tags_of(events.where(f.col("kind") == kinds.GIFT_WRAP))
    named = wraps.where((f.col("name") == "p") & f.col("value").rlike(_ID))
    return named.select("id", f.unhex("value").alias("who"))


def _with_deleted(judged: DataFrame, asked: DataFrame) -> DataFrame:
    """Adds `by_id` and `deleted_until`."""
    ids = asked.where((f.col("name") == "e") & f.col("value").rlike(_ID))
    ids = ids.select(f.unhex("value").alias("id"), "who").distinct()
    # An event's owners are its author and, of a gift wrap, its recipients.
    owners = judged.select("id", f.col("pubkey").alias("who")).unionByName(_receivers(judged))
    by_id = owners.join(ids, ["id", "who"]).select("id", f.lit(True).alias("by_id")).distinct()
    found = judged.join(by_id, "id", "left")
    return found.join(_addresses(asked), ["pubkey", "kind", "d"], "left")


def _addresses(asked: DataFrame) -> DataFrame:
    """Until when versions of an address are deleted: `pubkey`, `kind`, `d`, `deleted_until`."""
    part = [f.regexp_extract("value", _ADDRESS, n) for n in (1, 2, 3)]
    rows = asked.where((f.col("name") == "a") & f.col("value").rlike(_ADDRESS)).select(
        part[0].cast("int").alias("kind"),
        f.unhex(part[1]).alias("pubkey"),
        part[2].alias("d"),
        "who",
        "at",
    )
    kept = _is_addressable() | (_is_replaceable() & (f.col("d") == ""))
    own = rows.where((f.col("who") == f.col("pubkey")) & kept)
    return own.groupBy("pubkey", "kind", "d").agg(f.max("at").alias("deleted_until"))


def _refused(settings: Settings) -> Column:
    """The status that needs no other version of the event."""
    kind = f.col("kind")
    ephemeral = kind.between(20_000, 29_999)
    vanished = f.col("vanished_until").isNotNull() & (kind != kinds.VANISH)
    deletable = ~kind.isin(kinds.DELETION, kinds.VANISH)
    deleted = f.col("by_id").isNotNull() | (f.col("deleted_until") >= f.col("created_at"))
    return (
        f.when(ephemeral & ~_expired(settings), Status.EPHEMERAL.value)
        .when(ephemeral, Status.EXPIRED.value)
        .when(vanished, Status.VANISHED.value)
        .when(deletable & f.coalesce(deleted, f.lit(False)), Status.DELETED.value)
        .when(_expired(settings), Status.EXPIRED.value)
        .otherwise(Status.STORED.value)
    )


def _with_rank(judged: DataFrame) -> DataFrame:
    """Of the living versions of an address the newest stays, of equals the lowest id."""
    living = f.col("status") == Status.STORED.value
    versions = judged.where(living & f.col("d").isNotNull())
    order = Window.partitionBy("pubkey", "kind", "d").orderBy(f.desc("created_at"), f.asc("id"))
    ranked = versions.withColumn("rank", f.row_number().over(order))
    old = ranked.where("rank > 1").select("id", f.lit(True).alias("is_old"))
    joined = judged.join(old, "id", "left")
    status = f.when(f.col("is_old"), Status.SUPERSEDED.value).otherwise(f.col("status"))
    return joined.withColumn("status", status).drop(
        "is_old", "by_id", "deleted_until", "vanished_until"
    )


def _expired(settings: Settings) -> Column:
    return f.coalesce(f.col("exp") <= settings.now, f.lit(False))


def _is_addressable() -> Column:
    return f.col("kind").between(30_000, 39_999)


def _is_replaceable() -> Column:
    return f.col("kind").isin(kinds.METADATA, kinds.CONTACTS) | f.col("kind").between(
        10_000, 19_999
    )


def _speaks_to(
    urls: tuple[str, ...],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Those requests to vanish that speak to all or to `urls`: a URL has many spellings, which
    no SQL knows; the requests are few."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [
                (who, at)
                for who, at, tags in zip(*(c.to_pylist() for c in batch.columns), strict=True)
                if vanishes_here(_request(tags), urls)
            ]
            yield pa.RecordBatch.from_pydict(
                {
                    "who": pa.array([who for who, _ in found], pa.binary()),
                    "at": pa.array([at for _, at in found], pa.int64()),
                }
            )

    return run


def _request(tags: str) -> Event:
    return Event("", "", 0, kinds.VANISH, decode_tags(tags.encode()), "", "")
