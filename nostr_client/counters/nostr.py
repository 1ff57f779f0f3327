"""Convert a stream's values to an event and back.

The event has kind 30078 (NIP-78). Its `d` is the stream, and its content is JSON. A replaceable
event has no history, so readers apply the delta rule to the values. This module is pure: the caller
signs, encrypts and sends the event.

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
"""Most characters of an event as JSON.

Relays of every implementation accept it (strfry: 65,536).
"""

MOST_CONTENT: Final = 1_000_000
"""Most characters of a content that is parsed. Some relays have wider limits."""

AHEAD_S: Final = 900
"""Seconds that a writer's clock may be ahead. Relays refuse events that are further ahead."""

_Id = Annotated[str, Meta(min_length=1, max_length=64)]
_Seq = Annotated[int, Meta(ge=0, le=2**53)]


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the event. Fields of later versions are ignored."""

    v: Annotated[int, Meta(ge=1, le=1)] = 1
    store: _Id
    epoch: _Id
    seq: _Seq
    runs: Annotated[tuple[tuple[_Id, _Seq], ...], Meta(max_length=KEPT_RUNS)] = ()
    lineage: Annotated[tuple[tuple[str, ...], ...], Meta(max_length=lineage.MOST_WAYS)] = ()
    values: dict[str, str]


_decode: Final = msgspec.json.Decoder(Content)


def address(pubkey: str, stream: str) -> Filter:
    """Return the filter for the values that a key publishes for a stream."""
    return Filter(kinds=[kinds.APP_DATA], authors=[pubkey], tags={"#d": [stream]})


def render(found: Values) -> str:
    """Return the content of an event that is not encrypted."""
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
    """Return the date of the next event in Unix seconds, which is always later than `last`.

    Of two events of one second, relays keep the one with the lower id, which may be the older one.
    """
    return max(int(now), last + 1)


def template(stream: str, content: str, created_at: int) -> EventTemplate:
    """Return the unsigned event of a stream."""
    tags = (("d", stream),)
    return EventTemplate(kind=kinds.APP_DATA, created_at=created_at, tags=tags, content=content)


def parse(content: str, stream: str, event: Event) -> Batch:
    """Return the values of a stream in an event with decrypted content. Raises InvalidInput."""
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
    """Return the valid version by NIP-01 among events from any relay.

    Ignores events that are dated more than AHEAD_S after `now`.
    """
    good = [one for one in events if asked.matches(one) and one.created_at <= now + AHEAD_S]
    return min(good, key=nip01_order, default=None)
