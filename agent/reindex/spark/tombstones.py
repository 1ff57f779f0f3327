"""The stage `dead`: what a store would say to each event of an archive, on narrow rows.

Requests are few: `store.rules` itself reads in Python what they ask for. What follows for all
events is stated by `store.tombstones`; the statement `judged` is tested against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agent.reindex.parquet import arrow
from agent.reindex.spark.groups import rows as rows_of
from agent.reindex.spark.queries import query
from nostr_client.codecs import kinds
from nostr_client.codecs.event import Event
from nostr_client.store import rules
from nostr_client.store.rows import decode_tags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from agent.reindex.inputs import Settings

    Batches = Iterator[pa.RecordBatch]

ASKED: Final = "what string, who binary, at long, author binary, id binary, kind int, d string"
_ASKED_ARROW: Final = arrow(ASKED)


def requests(events: DataFrame, settings: Settings) -> DataFrame:
    """What is asked for, a row for each thing, as ASKED: `vanish`, `delete` an id or an address;
    `wrap` says for whom a gift wrap of `author` is. Expired requests ask for nothing."""
    rows = query(events.sparkSession, "asking", events=events, now=settings.now)
    return rows.mapInArrow(_reader(settings.urls), ASKED)


def judged(events: DataFrame, asked: DataFrame, settings: Settings) -> DataFrame:
    """Every event once; one whose `status` is STORED is alive.

    `asked` are the staged `requests` of the same events.
    """
    spark = events.sparkSession
    deletions = query(spark, "deletions", asked=asked)
    return query(spark, "judged", events=events, asked=asked, deletions=deletions, now=settings.now)


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
