"""Computes the stage `dead`: what a store would decide about each event, as relations.

Requests are few: `store.rules` itself reads in Python what they ask for. What follows for all
events is stated by `store.tombstones`; the relations here are tested against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as f

from nostr_client.codecs import kinds
from nostr_client.codecs.event import Event
from nostr_client.store import rules
from nostr_client.store.base import SaveStatus
from nostr_client.store.rows import decode_tags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column, DataFrame

    from agent.reindex.inputs import Settings


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
    """What requests for deletion ask for: `who`, `at`, and `id`, or `kind` and `d`."""
    live = ~_expired(settings) & f.col("vanished_until").isNull()
    asked = judged.where((f.col("kind") == kinds.DELETION) & live)
    rows = asked.select("pubkey", "created_at", "tags")
    return rows.mapInArrow(_wanted, "who binary, at long, id binary, kind int, d string")


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
    wraps = events.where(f.col("kind") == kinds.GIFT_WRAP).select("id", "tags")
    return wraps.mapInArrow(_wrapped_for, "id binary, who binary")


def _with_deleted(judged: DataFrame, asked: DataFrame) -> DataFrame:
    """Adds `by_id` and `deleted_until`."""
    ids = asked.where(f.col("id").isNotNull()).select("id", "who").distinct()
    # An event's owners are its author and, of a gift wrap, its recipients.
    owners = judged.select("id", f.col("pubkey").alias("who")).unionByName(_receivers(judged))
    by_id = owners.join(ids, ["id", "who"]).select("id", f.lit(True).alias("by_id")).distinct()
    found = judged.join(by_id, "id", "left")
    addresses = asked.where(f.col("kind").isNotNull()).withColumnRenamed("who", "pubkey")
    until = addresses.groupBy("pubkey", "kind", "d").agg(f.max("at").alias("deleted_until"))
    return found.join(until, ["pubkey", "kind", "d"], "left")


def _refused(settings: Settings) -> Column:
    """The status that needs no other version of the event."""
    kind = f.col("kind")
    ephemeral = kind.between(kinds.EPHEMERAL.start, kinds.EPHEMERAL.stop - 1)
    vanished = f.col("vanished_until").isNotNull() & (kind != kinds.VANISH)
    deletable = ~kind.isin(kinds.DELETION, kinds.VANISH)
    deleted = f.col("by_id").isNotNull() | (f.col("deleted_until") >= f.col("created_at"))
    return (
        f.when(ephemeral & ~_expired(settings), SaveStatus.EPHEMERAL.value)
        .when(ephemeral, SaveStatus.EXPIRED.value)
        .when(vanished, SaveStatus.VANISHED.value)
        .when(deletable & f.coalesce(deleted, f.lit(False)), SaveStatus.DELETED.value)
        .when(_expired(settings), SaveStatus.EXPIRED.value)
        .otherwise(SaveStatus.STORED.value)
    )


def _with_rank(judged: DataFrame) -> DataFrame:
    """Of the living versions of an address the newest stays, of equals the lowest id."""
    living = f.col("status") == SaveStatus.STORED.value
    versions = judged.where(living & f.col("d").isNotNull())
    order = Window.partitionBy("pubkey", "kind", "d").orderBy(f.desc("created_at"), f.asc("id"))
    ranked = versions.withColumn("rank", f.row_number().over(order))
    old = ranked.where("rank > 1").select("id", f.lit(True).alias("is_old"))
    joined = judged.join(old, "id", "left")
    status = f.when(f.col("is_old"), SaveStatus.SUPERSEDED.value).otherwise(f.col("status"))
    return joined.withColumn("status", status).drop(
        "is_old", "by_id", "deleted_until", "vanished_until"
    )


def _expired(settings: Settings) -> Column:
    return f.coalesce(f.col("exp") <= settings.now, f.lit(False))


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
                if rules.vanishes_here(_event(kinds.VANISH, tags), urls)
            ]
            yield _batch(found, _VANISHING)

    return run


def _wanted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What `rules.deletion` reads out of requests, as rows of `deletions`."""
    for batch in batches:
        found: list[tuple[Any, ...]] = []
        for who, at, tags in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            wanted = rules.deletion(_event(kinds.DELETION, tags, who.hex()))
            found += ((who, at, bytes.fromhex(id_), None, None) for id_ in wanted.ids)
            found += ((who, at, None, one.kind, one.d) for one in wanted.addresses)
        yield _batch(found, _WANTED)


def _wrapped_for(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The recipients of gift wraps, as `rules.wrapped_for` reads them, once each."""
    for batch in batches:
        found = []
        for id_, tags in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            named = filter(rules.is_id, rules.wrapped_for(_event(kinds.GIFT_WRAP, tags)))
            found += [(id_, bytes.fromhex(who)) for who in dict.fromkeys(named)]
        yield _batch(found, _RECEIVERS)


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(one, of.type) for one, of in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


_WANTED: Final = pa.schema(
    [
        ("who", pa.binary()),
        ("at", pa.int64()),
        ("id", pa.binary()),
        ("kind", pa.int32()),
        ("d", pa.string()),
    ]
)
_RECEIVERS: Final = pa.schema([("id", pa.binary()), ("who", pa.binary())])
_VANISHING: Final = pa.schema([("who", pa.binary()), ("at", pa.int64())])


def _event(kind: int, tags: str, pubkey: str = "") -> Event:
    return Event("", pubkey, 0, kind, decode_tags(tags.encode()), "", "")
