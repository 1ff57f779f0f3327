"""Requests for the benchmark of relays: two data sets, each with EVENT, REQ and COUNT frames.

The first set has notes of one length and reactions, and every question is of one form. The second
set has what relays hold (`bench.dataset`) and the shared real events: many kinds, follow lists,
zap receipts and articles, and five forms of questions. So nothing is tuned to the first set.
"""

from __future__ import annotations

import json
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.dataset import cached, shared_lines
from nostr_client.codecs import kinds
from nostr_client.codecs.event import EventTemplate, parse_event
from nostr_client.codecs.keys import KeySigner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nostr_client.codecs.event import Event

SIGNERS = 50
TARGETS = 20
START = 1_750_000_000

Request = tuple[str, str]
"""The id by which the answer names the request, and the frame."""


class RelayLoad(NamedTuple):
    """Requests of one data set. `name` is "" for the first set, else the end of a row's name."""

    name: str
    events: Sequence[Request]
    reqs: Sequence[Request]
    counts: Sequence[Request]


def uniform(size: int) -> RelayLoad:
    """Notes of 200 characters and reactions, half and half; screens of one author's notes."""
    events = list(notes_and_reactions(size))
    authors = [author(n) for n in range(SIGNERS)]
    screens = ({"authors": [one], "kinds": [1], "limit": 20} for one in cycle(authors))
    questions = ({"kinds": [7], "#e": [target(n)]} for n in range(size))
    reqs = _frames("REQ", screens, size // 2)
    return RelayLoad("", events, reqs, _frames("COUNT", questions, size // 5))


def mixed(size: int) -> RelayLoad:
    """Events of `bench.dataset` and real ones; screens, threads, feeds, profiles and articles."""
    real = map(parse_event, shared_lines(size // 2))
    events = [event for event in (*_generated(size), *real) if _stays(event)]
    reqs = _frames("REQ", _questions(events), size // 2)
    counts = _frames("COUNT", _counted(events), size // 5)
    return RelayLoad(", mixed kinds", [_published(event) for event in events], reqs, counts)


def notes_and_reactions(count: int, first: int = 0) -> Iterator[Request]:
    """Id and EVENT frame of signed events, each of a second of its own."""
    signers = [_signer(n) for n in range(SIGNERS)]
    for n in range(first, first + count):
        kind = 7 if n % 2 else 1
        tags = (("e", target(n // 2)),) if n % 2 else (("t", f"topic{n % 7}"),)
        text = "+" if n % 2 else f"note {n} ".ljust(200, ".")
        template = EventTemplate(kind=kind, content=text, tags=tags, created_at=START + n)
        yield _published(signers[n % SIGNERS].sign_now(template).event)


def target(n: int) -> str:
    """One of the ids that reactions are about."""
    return f"{n % TARGETS:064x}"


def author(n: int) -> str:
    """The public key of one of the signers."""
    return _signer(n).pubkey


def _signer(n: int) -> KeySigner:
    return KeySigner(bytes([1]) * 31 + bytes([n % SIGNERS + 1]), rand=bytes)


def _published(event: Event) -> Request:
    return event.id, f'["EVENT",{event.to_json()}]'


def _frames(label: str, filters: Iterable[dict[str, Any]], count: int) -> list[Request]:
    made = zip(range(count), filters, strict=False)
    return [(f"{label}{n}", json.dumps([label, f"{label}{n}", one])) for n, one in made]


def _generated(count: int) -> Iterator[Event]:
    with cached(count).open("rb") as lines:
        yield from map(parse_event, lines)


def _stays(event: Event) -> bool:
    """False for requests that remove events, and for events that a relay may refuse or forget."""
    names = {tag[0] for tag in event.tags}
    removes = event.kind in (kinds.DELETION, kinds.VANISH, kinds.CLIENT_AUTH)
    return not (removes or kinds.is_ephemeral(event.kind) or {"-", "expiration"} & names)


def _questions(events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    """What a client's screens ask, one form after the other, each time about somebody else."""
    authors = list(dict.fromkeys(event.pubkey for event in events))
    noted = [event.id for event in events if event.kind == kinds.TEXT_NOTE]
    for n in range(len(events)):
        one = authors[n % len(authors)]
        feed = [authors[(n + k) % len(authors)] for k in range(50)]
        yield {"authors": [one], "kinds": [1], "limit": 20}
        yield {"#e": [noted[n % len(noted)]], "kinds": [1, 7, 1111], "limit": 50}
        yield {"authors": feed, "kinds": [1, 6, 30023], "limit": 50}
        yield {"authors": [one], "kinds": [0, 3, 10002]}
        yield {"kinds": [30023], "limit": 5, "until": events[-1 - n].created_at}


def _counted(events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    authors = list(dict.fromkeys(event.pubkey for event in events))
    noted = [event.id for event in events if event.kind == kinds.TEXT_NOTE]
    for n in range(len(events)):
        yield {"kinds": [7], "#e": [noted[n % len(noted)]]}
        yield {"kinds": [3], "#p": [authors[n % len(authors)]]}
        yield {"kinds": [1, 6], "authors": [authors[n % len(authors)]]}
