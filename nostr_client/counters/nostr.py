"""A stream's values as an event: kind 30078 (NIP-78), `d` = the stream, its content JSON.

A replaceable event is a stream that lost its history, which is what the delta rule is made for.
Pure: signing, relays and encryption are the caller's.

    {"v": 1, "store": "…", "epoch": "…", "seq": 17, "runs": [["…", 12]], "lineage": [["app@…"]],
     "values": {"app.hits": "42"}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from nostr_client.codecs import kinds
from nostr_client.codecs.event import EventTemplate, nip01_order
from nostr_client.codecs.filters import Filter
from nostr_client.counters import lineage
from nostr_client.counters.engine.take import Batch, check_batch
from nostr_client.counters.lineage import KEPT_RUNS, Arrival, StreamHead
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nostr_client.codecs.event import Event
    from nostr_client.counters.sqlite.remotes import Values

MOST_EVENT: Final = 64_000
"""Characters of an event as JSON: what relays of every family take (strfry: 65,536)."""

MOST_CONTENT: Final = 1_000_000
"""Characters of a content that is read at all: a relay with wider limits, and no bomb."""

AHEAD_S: Final = 900
"""Seconds that a writer's clock may be ahead: relays refuse more, too."""

_Id = Annotated[str, Meta(min_length=1, max_length=64)]
_Seq = Annotated[int, Meta(ge=0, le=2**53)]


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in the content; fields of later versions are ignored."""

    v: Annotated[int, Meta(ge=1, le=1)] = 1
    store: _Id
    epoch: _Id
    seq: _Seq
    runs: Annotated[tuple[tuple[_Id, _Seq], ...], Meta(max_length=KEPT_RUNS)] = ()
    lineage: Annotated[tuple[tuple[str, ...], ...], Meta(max_length=lineage.MOST_WAYS)] = ()
    values: dict[str, str]


_decode: Final = msgspec.json.Decoder(Content)


def address(pubkey: str, stream: str) -> Filter:
    """The filter for the values that a key publishes of a stream."""
    return Filter(kinds=[kinds.APP_DATA], authors=[pubkey], tags={"#d": [stream]})


def render(found: Values) -> str:
    """The content of an event that is not encrypted."""
    head = found.head
    content = Content(
        store=head.store,
        epoch=head.epoch,
        seq=head.last_seq,
        runs=head.runs,
        lineage=found.ways,
        values=found.values,
    )
    return msgspec.json.encode(content).decode()


def next_time(now: float, last: int) -> int:
    """Return the date of the next event in Unix seconds, later than `last` whatever the clock says.

    Of two events of one second, relays keep the one with the lower id, which may be the older.
    """
    return max(int(now), last + 1)


def template(stream: str, content: str, created_at: int) -> EventTemplate:
    """Make the event of a stream, to be signed."""
    tags = (("d", stream),)
    return EventTemplate(kind=kinds.APP_DATA, created_at=created_at, tags=tags, content=content)


def parse(content: str, stream: str, event: Event) -> Batch:
    """What an event says of a stream, once its content is readable. Raises InvalidInput."""
    if len(content) > MOST_CONTENT:
        raise InvalidInput(f"its content has more than {MOST_CONTENT} characters")
    try:
        found = _decode.decode(content)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(f"its content cannot be read: {error}") from error
    head = StreamHead(found.store, found.epoch, 1, found.seq, found.runs)
    ways = lineage.checked(found.lineage, lineage.node(stream, found.store))
    arrivals = tuple(Arrival(found.seq, name, value) for name, value in found.values.items())
    version = (event.created_at, event.id)
    batch = Batch(head, arrivals, found.seq, True, ways, version=version)
    check_batch(batch)
    return batch


def newest(events: Iterable[Event], asked: Filter, now: float) -> Event | None:
    """The version that counts, by NIP-01, of those that came from wherever.

    One dated more than AHEAD_S after `now` does not, until then.
    """
    good = [one for one in events if asked.matches(one) and one.created_at <= now + AHEAD_S]
    return min(good, key=nip01_order, default=None)
