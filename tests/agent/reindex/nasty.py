"""Three hundred events that a table could get wrong, and a store that took them in good order."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from nostr_client.codecs.keys import stored_event
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW, pubkey
from tests.conformance.store_events import make as make_verified
from tests.zapping import zap_tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from nostr_client.codecs.event import Event

HOT = 3
"""Events from which a target is kept in these tests."""

NOTE = "ab" * 32
ODD = ("", "x", "Ω≈ç√", "a:b:c", '\x00\x1f"\\', "\u2028", "🤙" * 20, "v" * 500, "ſK", NOTE.upper())
TRACKED = (("e", 7), ("a", 7), ("e", 6), ("q", 1), ("q", 1111), ("e", 1), ("E", 1111), ("p", 3))


def make(
    author: int,
    kind: int,
    *,
    at: int = NOW,
    tags: tuple[tuple[str, ...], ...] = (),
    content: str = "",
) -> Event:
    return make_verified(author, kind, at=at, tags=tags, content=content).event


def nasty(seed: int = 11) -> list[Event]:
    """Events of few authors with odd tags, ties, deletions, expirations, zaps and wraps."""
    rng = random.Random(seed)
    made = [
        *_targets(rng),
        *_versions(rng),
        *_zaps(rng),
        *_expiring(rng),
        *_ephemeral(),
    ]
    made += _deletions(rng, made)
    made += [
        make(7, 62, at=NOW - 500, tags=(("relay", "ALL_RELAYS"),)),
        make(6, 62, at=NOW - 500, tags=(("relay", "wss://another.example"),)),
        make(6, 62, at=NOW - 400, tags=(("relay", "WSS://Ours.example:443/"),)),
        *(make(7, 1, at=NOW - 502 + n, content=f"{n}") for n in range(5)),
        *(make(1, 1059, at=NOW - 502 + n, tags=(("p", pubkey(7)),)) for n in range(5)),
    ]
    return list({event.id: event for event in made}.values())


def _targets(rng: random.Random) -> Iterable[Event]:
    for n in range(190):
        name, kind = rng.choice(TRACKED)
        value = rng.choice((NOTE, pubkey(1), f"30023:{pubkey(2)}:d:d", *ODD))
        others = [(rng.choice("eaqEAp"), rng.choice(ODD)), ("",), ("e",), (name, value), (name,)]
        tags = ((name, value, "more"), *rng.sample(others, rng.randrange(5)))
        yield make(n % 8, kind, at=NOW - 10_000 + n * rng.choice((1, 0, 900)), tags=tags)


def _versions(rng: random.Random) -> Iterable[Event]:
    for n in range(40):
        kind = rng.choice((0, 3, 10_002, 30_023, 39_999))
        d = rng.choice(((), (("d", "x"),), (("d",),), (("d", ""), ("d", "x"))))
        yield make(n % 3, kind, at=NOW - rng.choice((90, 80, 80)), tags=d, content=str(n))


def _zaps(rng: random.Random) -> Iterable[Event]:
    invoices = (
        "lnbc10u1p",
        "lnbc1m1",
        "LNBC20N1Q",
        "lntb9p1x",
        "lnbc99999999999999999999m1",
        "ln",
        "",
    )
    for n, invoice in enumerate((*invoices, "lnbcrt5001", "lntbs1u1", "xlnbc1u1", "lnbc01u1")):
        for value in (NOTE, rng.choice(ODD)):
            tags = (("bolt11", invoice), ("e", value), ("e", value), ("p", pubkey(n % 2)), ("a",))
            yield make(3, 9735, at=NOW - 700 + n, tags=tags)
    for n, amount in enumerate(("10u", "25m", "9p", "100", "101", "")):
        tags = zap_tags(amount, pubkey(n % 2), ("e", NOTE), ("a", f"30023:{pubkey(0)}:x"))
        yield make(3, 9735, at=NOW - 20 + n, tags=tags)
        yield make(3, 9735, at=NOW - 30 + n, tags=(*tags, ("a", "not asked for"), ("e",)))
    yield make(3, 9735, at=NOW, tags=(("bolt11",), ("bolt11", "lnbc7u1"), ("p", "")))


def _expiring(rng: random.Random) -> Iterable[Event]:
    ends = (str(NOW), str(NOW + 1), str(NOW - 1), "soon", "", "9" * 19, "9" * 30, "٣", " 5", "0")
    for n, end in enumerate(ends):
        yield make(n % 3, 7, at=NOW - 50, tags=(("e", NOTE), ("expiration", end)))
    yield make(0, 30_024, at=NOW - 9, tags=(("d", "e"), ("expiration", str(NOW - 1))))
    yield make(0, 30_024, at=NOW - 99, tags=(("d", "e"),), content="older, alive")


def _ephemeral() -> Iterable[Event]:
    yield make(0, 20_000, tags=(("e", NOTE),))
    yield make(0, 29_999)
    for at in (0, 1, 86_399, 86_400, 2**40, 2**62):
        yield make(2, 1, at=at, tags=(("e", NOTE),))
    yield make(2, 65_535)


def _deletions(rng: random.Random, made: Sequence[Event] | list[Event]) -> list[Event]:
    chosen = rng.sample([event for event in made if event.kind != 5], 20)
    asked = []
    for n, event in enumerate(chosen):
        author = next(a for a in range(8) if n % 4 == 0 or pubkey(a) == event.pubkey)
        asked.append(make(author, 5, at=NOW - 300 + n, tags=(("e", event.id), ("e", "x"))))
    address = f"30023:{pubkey(0)}:x"
    wraps = [make(n % 3, 1059, at=NOW - 250 + n, tags=(("p", pubkey(6)),)) for n in range(3)]
    return [
        *asked,
        *wraps,
        make(6, 5, at=NOW - 240, tags=(("e", wraps[0].id), ("e", wraps[1].id))),
        make(5, 5, at=NOW - 239, tags=(("e", wraps[2].id),)),
        make(0, 5, at=NOW - 85, tags=(("a", address), ("a", f"0:{pubkey(0)}:"), ("a", "3:nobody"))),
        make(1, 5, at=NOW, tags=(("a", address), ("a", f"00003:{pubkey(1)}"))),
        make(2, 5, at=NOW, tags=(("e", asked[0].id),)),
        make(2, 5, at=NOW, tags=(("e", made[0].id), ("expiration", str(NOW - 5)))),
    ]


URLS = ("wss://ours.example",)


async def opened(path: Path) -> SqliteStore:
    """A store with the clock and the addresses of these events."""
    return await SqliteStore.open(path, urls=URLS, clock=lambda: NOW)


async def fill(store: SqliteStore, events: Iterable[Event]) -> None:
    """Save events as a set is judged: who vanishes first, what is deleted next, then the rest."""
    order = {62: 0, 5: 1}
    await store.save(
        [stored_event(e) for e in sorted(events, key=lambda one: order.get(one.kind, 2))]
    )


def write_archive(path: Path, events: Iterable[Event]) -> Path:
    """Events as JSONL, each twice."""
    lines = [event.to_json() + "\n" for event in events]
    path.write_text("".join([*lines, *lines]), "utf-8", newline="\n")
    return path
