"""Finding relay lists through a callable: authors, batches, hints and what is kept."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs import nip19
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner, VerifiedEvent
from nostr_client.errors import InvalidIdentifier
from nostr_client.network.outbox import OutboxTarget, RelayChoice, RelayFinder, read_target
from nostr_client.network.outbox.finding import NoAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.filters import Filter

A, B, C, INDEX = (f"wss://{x}.example.com" for x in ("a", "b", "c", "index"))
ALICE = KeySigner(sha256(b"alice").digest())
BOB = KeySigner(sha256(b"bob").digest())


def listed(signer: KeySigner, at: int, *urls: str) -> VerifiedEvent:
    tags = tuple(("r", url) for url in urls)
    return signer.sign_now(EventTemplate(kind=10002, tags=tags, created_at=at))


class Relays:
    """Events by relay, and every question that was asked."""

    def __init__(self, **events: Sequence[VerifiedEvent]) -> None:
        self.events = {f"wss://{name}.example.com": found for name, found in events.items()}
        self.asked: list[tuple[tuple[str, ...], Filter]] = []

    async def __call__(
        self, relays: Sequence[str], filters: Sequence[Filter]
    ) -> list[VerifiedEvent]:
        self.asked += [(tuple(relays), f) for f in filters]
        held = [e for url in relays for e in self.events.get(url, ())]
        return [e for e in held if any(f.matches(e.event) for f in filters)]


class Down(Relays):
    """Relays of which none answers while `down`."""

    down = True

    async def __call__(
        self, relays: Sequence[str], filters: Sequence[Filter]
    ) -> list[VerifiedEvent]:
        if self.down:
            raise NoAnswer
        return await super().__call__(relays, filters)


def finder(
    fetch: Relays, clock: list[float], *, defaults: tuple[str, ...] = (), most: int = 4
) -> RelayFinder:
    choice = RelayChoice(indexers=(INDEX,), defaults=defaults, most=most)
    return RelayFinder(fetch, choice, now=lambda: clock[0])


async def test_the_newest_list_of_the_author_counts_and_is_kept() -> None:
    fetch = Relays(index=[listed(ALICE, 5, A, B), listed(ALICE, 3, C)])
    clock = [0.0]
    found = finder(fetch, clock)
    target = OutboxTarget(author=ALICE.pubkey)
    assert (await found.relays_for(target)).relays == (A, B)
    assert (await found.relays_for(target)).relays == (A, B)
    assert len(fetch.asked) == 1
    clock[0] = 7 * 3600.0
    await found.relays_for(target)
    assert len(fetch.asked) == 2


async def test_a_list_that_is_not_there_gives_the_defaults_and_is_not_asked_for_again() -> None:
    fetch = Relays()
    found = finder(fetch, [0.0], defaults=(C,))
    target = OutboxTarget(author=BOB.pubkey)
    assert (await found.relays_for(target)).relays == (C,)
    assert (await found.relays_for(target)).relays == (C,)
    assert len(fetch.asked) == 1


async def test_the_author_of_an_event_is_found_by_its_id_and_by_the_hint() -> None:
    note = ALICE.sign_now(EventTemplate(kind=1, created_at=1))
    fetch = Relays(index=[listed(ALICE, 5, A)], b=[note])
    found = finder(fetch, [0.0])
    pointer = nip19.EventPointer(note.event.id, relays=(B, "ws://127.0.0.1:1", "junk"))
    chosen = await found.relays_for(read_target(pointer.encode()))
    assert chosen.relays == (A,)
    assert fetch.asked[0][0] == (INDEX, B)


async def test_an_event_that_nobody_has_gives_the_defaults() -> None:
    found = finder(Relays(), [0.0], defaults=(C,))
    assert (await found.relays_for(OutboxTarget(event_id="ab" * 32))).relays == (C,)


async def test_many_targets_are_asked_for_in_batches_and_covered_together() -> None:
    people = [KeySigner(sha256(b"%d" % i).digest()) for i in range(450)]
    fetch = Relays(
        index=[listed(one, 1, f"wss://own{i}.example.com", B) for i, one in enumerate(people)]
    )
    found = finder(fetch, [0.0], most=1)
    chosen = await found.relays_for_many({p.pubkey: OutboxTarget(author=p.pubkey) for p in people})
    assert {c.relays for c in chosen.values()} == {(B,)}
    assert [len(f.authors or ()) for _, f in fetch.asked] == [200, 200, 50]


async def test_a_list_that_came_by_itself_is_taken_in_when_it_is_newer() -> None:
    fetch = Relays(index=[listed(ALICE, 5, A)])
    found = finder(fetch, [0.0])
    await found.relays_for(OutboxTarget(author=ALICE.pubkey))
    found.learn(listed(ALICE, 4, C).event)
    assert (await found.relays_for(OutboxTarget(author=ALICE.pubkey))).relays == (A,)
    found.learn(listed(ALICE, 6, B).event)
    assert (await found.relays_for(OutboxTarget(author=ALICE.pubkey))).relays == (B,)
    assert len(fetch.asked) == 1


def test_targets_are_read_from_what_people_copy() -> None:
    hexed = "ab" * 32
    assert read_target(hexed) == OutboxTarget(event_id=hexed)
    assert read_target(nip19.PublicKey(hexed).encode()) == OutboxTarget(author=hexed)
    assert read_target(f"30023:{hexed}:a:b") == OutboxTarget(author=hexed)
    pointer = nip19.EventPointer(hexed, author="cd" * 32)
    assert read_target("nostr:" + pointer.encode()).author == "cd" * 32
    with pytest.raises(InvalidIdentifier):
        read_target("nobody")


async def test_each_failure_has_a_sentence_of_its_own() -> None:
    private = listed(ALICE, 1, "ws://127.0.0.1:7777", "wss://10.0.0.1")
    nothing = listed(BOB, 1)
    fetch = Relays(index=[private, nothing])
    found = finder(fetch, [0.0])
    targets = {
        "the event was not found": OutboxTarget(event_id="ab" * 32),
        "no relay list (NIP-65) of": OutboxTarget(author="cd" * 32),
        "only relays that are not asked": OutboxTarget(author=ALICE.pubkey),
        "names no relay to read from": OutboxTarget(author=BOB.pubkey),
        "names no event or person": OutboxTarget(),
    }
    chosen = await found.relays_for_many(targets)
    for words, one in chosen.items():
        assert not one.relays
        assert words in one.why
    assert "127.0.0.1" in chosen["only relays that are not asked"].why


async def test_an_indexer_that_is_down_is_said_and_asked_again() -> None:
    fetch = Down(index=[listed(ALICE, 1, A)])
    found = finder(fetch, [0.0])
    for target in (OutboxTarget(author=ALICE.pubkey), OutboxTarget(event_id="ab" * 32)):
        down = await found.relays_for(target)
        assert not down.relays
        assert down.why == f"no indexer answered ({INDEX})"
    fetch.down = False
    assert (await found.relays_for(OutboxTarget(author=ALICE.pubkey))).relays == (A,)
