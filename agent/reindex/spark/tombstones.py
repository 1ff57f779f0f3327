"""The stage `dead`: what a store would say to each event of an archive, on narrow rows.

Requests are few: `store.rules` itself reads in Python what they ask for. What follows for all
events is stated by `store.tombstones`; the expressions here are tested against it. All rules but
those of gift wraps speak of one author's events, so the rows are parted by author, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from agent.reindex.spark.groups import arrow
from agent.reindex.spark.groups import rows as rows_of
from nostr_client.codecs import kinds
from nostr_client.codecs.event import Event
from nostr_client.store import rules
from nostr_client.store.base import SaveStatus
from nostr_client.store.rows import decode_tags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from agent.reindex.inputs import Settings

    Batches = Iterator[pa.RecordBatch]

NARROW: Final = ("seq", "id", "pubkey", "created_at", "kind", "d", "exp")
"""The columns by which events are judged."""

JUDGED: Final = ("seq", "id", "pubkey", "created_at", "kind", "status")

ASKED: Final = "what string, who binary, at long, author binary, id binary, kind int, d string"
_ASKED_ARROW: Final = arrow(ASKED)


def requests(events: DataFrame, settings: Settings) -> DataFrame:
    """What is asked for, a row for each thing, as ASKED: `vanish`, `delete` an id or an address;
    `wrap` says for whom a gift wrap of `author` is. Expired requests ask for nothing."""
    kind = f.col("kind")
    asking = kind.isin(kinds.DELETION, kinds.VANISH) & ~_expired(settings)
    rows = events.where(asking | (kind == kinds.GIFT_WRAP))
    taken = rows.select("id", "pubkey", "created_at", "kind", "tags")
    return taken.mapInArrow(_reader(settings.urls), ASKED)


def judged(events: DataFrame, asked: DataFrame, settings: Settings) -> DataFrame:
    """Every event once, as JUDGED; one whose `status` is STORED is alive.

    `asked` are the staged `requests` of the same events.
    """
    vanished = _latest(asked.where("what = 'vanish'"), "who", "until")
    deletions = _of_the_living(asked.where("what = 'delete'"), vanished)
    wraps = asked.where("what = 'wrap'")
    rows = events.select(*NARROW).repartition("pubkey")
    # Equal ids are equal events, as every id was checked.
    once = rows.groupBy("pubkey", "id").agg(
        f.min("seq").alias("seq"), *(f.first(name).alias(name) for name in NARROW[3:])
    )
    by_author = vanished.select(f.col("who").alias("pubkey"), f.col("until").alias("author_until"))
    found = once.join(by_author, "pubkey", "left")
    found = found.join(_named(deletions, wraps, vanished), ["pubkey", "id"], "left")
    found = found.join(_addresses(deletions), ["pubkey", "kind", "d"], "left")
    return _ranked(found.withColumn("status", _refused(settings))).select(*JUDGED)


def _latest(rows: DataFrame, who: str, until: str) -> DataFrame:
    return rows.groupBy(who).agg(f.max("at").alias(until))


def _of_the_living(deletions: DataFrame, vanished: DataFrame) -> DataFrame:
    """Deletions whose author had not vanished."""
    both = deletions.join(vanished, "who", "left")
    return both.where("until IS NULL OR until < at").drop("until")


def _named(deletions: DataFrame, wraps: DataFrame, vanished: DataFrame) -> DataFrame:
    """Events that requests reach by their ids: `pubkey`, `id`, `by_id`, `wrap_until`.

    An event's owners are its author and, of a gift wrap, its recipients.
    """
    nothing = f.lit(None)
    ids = deletions.where("id IS NOT NULL").select("who", "id").distinct()
    own = ids.select(
        f.col("who").alias("pubkey"), "id", f.lit(True).alias("by_id"), nothing.alias("wrap_until")
    )
    wrapped = wraps.select("who", "author", "id")
    by_recipient = wrapped.join(ids, ["who", "id"], "left_semi").select(
        f.col("author").alias("pubkey"), "id", f.lit(True), nothing
    )
    until = wrapped.join(vanished, "who").select("author", "id", f.lit(False), "until")
    reached = own.union(by_recipient).union(until)
    return reached.groupBy("pubkey", "id").agg(
        f.bool_or("by_id").alias("by_id"), f.max("wrap_until").alias("wrap_until")
    )


def _addresses(deletions: DataFrame) -> DataFrame:
    """Until when the versions of an address are deleted."""
    named = deletions.where("kind IS NOT NULL").withColumnRenamed("who", "pubkey")
    return named.groupBy("pubkey", "kind", "d").agg(f.max("at").alias("deleted_until"))


def _refused(settings: Settings) -> Column:
    """The status that needs no other version of the event."""
    kind = f.col("kind")
    ephemeral = kind.between(kinds.EPHEMERAL.start, kinds.EPHEMERAL.stop - 1)
    until = f.greatest("author_until", "wrap_until")
    vanished = (until >= f.col("created_at")) & (kind != kinds.VANISH)
    deletable = ~kind.isin(kinds.DELETION, kinds.VANISH)
    never = f.lit(False)
    deleted = f.coalesce("by_id", never) | (f.col("deleted_until") >= f.col("created_at"))
    return (
        f.when(ephemeral & ~_expired(settings), SaveStatus.EPHEMERAL.value)
        .when(ephemeral, SaveStatus.EXPIRED.value)
        .when(f.coalesce(vanished, never), SaveStatus.VANISHED.value)
        .when(deletable & f.coalesce(deleted, never), SaveStatus.DELETED.value)
        .when(_expired(settings), SaveStatus.EXPIRED.value)
        .otherwise(SaveStatus.STORED.value)
    )


def _ranked(rows: DataFrame) -> DataFrame:
    """Of the living versions of an address the newest stays, of equals the lowest id.

    What has no address is alone in its group, however much its author wrote.
    """
    living = f.col("status") == SaveStatus.STORED.value
    alone = f.when(f.col("d").isNull(), f.col("id"))
    order = Window.partitionBy("pubkey", "kind", "d", alone).orderBy(
        f.desc(living), f.desc("created_at"), f.asc("id")
    )
    old = living & (f.row_number().over(order) > 1)
    ranked = rows.withColumn("old", old)
    return ranked.withColumn(
        "status", f.when(f.col("old"), SaveStatus.SUPERSEDED.value).otherwise(f.col("status"))
    )


def _expired(settings: Settings) -> Column:
    return f.coalesce(f.col("exp") <= settings.now, f.lit(False))


def _reader(urls: tuple[str, ...]) -> Callable[[Batches], Batches]:
    """Reads requests as `store.rules` does: a URL has many spellings, which no SQL knows."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            found: list[tuple[Any, ...]] = []
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                found += _asked(row, urls)
            yield rows_of(_ASKED_ARROW, found)

    return run


def _asked(row: tuple[Any, ...], urls: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    id_, pubkey, at, kind, tags = row
    event = Event("", pubkey.hex(), at, kind, decode_tags(tags.encode()), "", "")
    if kind == kinds.VANISH:
        if rules.vanishes_here(event, urls):
            yield "vanish", pubkey, at, None, None, None, None
    elif kind == kinds.GIFT_WRAP:
        for who in dict.fromkeys(filter(rules.is_id, rules.wrapped_for(event))):
            yield "wrap", bytes.fromhex(who), None, pubkey, id_, None, None
    else:
        wanted = rules.deletion(event)
        for one in wanted.ids:
            yield "delete", pubkey, at, None, bytes.fromhex(one), None, None
        for address in wanted.addresses:
            yield "delete", pubkey, at, None, None, address.kind, address.d
