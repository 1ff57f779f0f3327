"""Sets of events that requests to delete, to vanish and expirations bear on, drawn from a seed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.agent.reindex.nasty import URLS, make
from tests.conformance.store_events import NOW, pubkey

if TYPE_CHECKING:
    from nostr_client.codecs.event import Event

KINDS = (0, 1, 3, 5, 62, 1059, 10_002, 19_999, 20_000, 29_999, 30_000, 30_023, 39_999, 40_000)
DS = ("", "x", "a:b", "Ω\n", "ſ")
TIMES = tuple(range(NOW - 4, NOW))
ENDS = (str(NOW - 1), str(NOW), str(NOW + 1), "soon", "")
PLACES = ("ALL_RELAYS", *URLS, "WSS://Ours.example:443/", "wss://another.example", "no url")


def drawn(seed: int, events: int, authors: int) -> list[Event]:
    """So many events of few authors; each names events and addresses of the ones before it."""
    rng = random.Random(seed)
    made: list[Event] = []
    for n in range(events):
        kind = rng.choice(KINDS)
        tags = [tag for tag in _tags(rng, kind, made, authors) if rng.random() < 0.9]
        if rng.random() < 0.2:
            tags.append(("expiration", rng.choice(ENDS)))
        rng.shuffle(tags)
        made.append(
            make(
                rng.randrange(authors), kind, at=rng.choice(TIMES), tags=tuple(tags), content=f"{n}"
            )
        )
    return list({event.id: event for event in made}.values())


def _tags(rng: random.Random, kind: int, made: list[Event], authors: int) -> list[tuple[str, ...]]:
    if kind == 5:
        named = [("e", rng.choice(made).id) for _ in range(rng.randrange(4)) if made]
        return [*named, *(_address(rng, authors) for _ in range(rng.randrange(3))), ("e",)]
    if kind == 62:
        return [("relay", rng.choice(PLACES))] if rng.random() < 0.4 else []
    if kind == 1059:
        return [("p", pubkey(rng.randrange(authors))), ("p", "nobody"), ("p",)]
    return [("d", rng.choice(DS)), ("d", "second")]


def _address(rng: random.Random, authors: int) -> tuple[str, ...]:
    kind, author, d = rng.choice(KINDS), pubkey(rng.randrange(authors)), rng.choice(DS)
    form = rng.choice(("{kind}:{author}:{d}", "{kind}:{author}:", "{kind}:{author}", "0{kind}:{d}"))
    return ("a", form.format(kind=kind, author=author, d=d))
