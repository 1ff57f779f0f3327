"""Finding relay lists through a callable: authors, batches, hints and what is kept."""

from __future__ import annotations

import random
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs import nip19
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner, VerifiedEvent
from nostr_client.errors import InvalidIdentifier
from nostr_client.network.outbox import (
    OutboxTarget,
    RelayChoice,
    RelayEvidence,
    RelayFinder,
    parse_relay_list,
    read_target,
)
from nostr_client.network.outbox.finding import NoAnswer

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.network.outbox import RelayList

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


class Known:
    """An experience in memory, and what it was asked."""

    def __init__(
        self, evidence: dict[str, RelayEvidence], lists: Sequence[VerifiedEvent] = ()
    ) -> None:
        self.found = evidence
        self.lists = [parse_relay_list(one.event) for one in lists]
        self.asked: list[tuple[str, tuple[int, ...]]] = []

    async def evidence(self, relays: Collection[str], name: str) -> dict[str, RelayEvidence]:
        return {url: one for url, one in self.found.items() if url in relays}

    async def answerers(self, author: str, kinds: Collection[int]) -> list[RelayList]:
        self.asked.append((author, tuple(kinds)))
        return self.lists


class Turns(random.Random):
    """Draws that say whether it is a turn."""

    def __init__(self, *, turn: bool) -> None:
        super().__init__()
        self.turn = turn

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0 if self.turn else start - 1


def learning(
    fetch: Relays, known: Known, *, most: int = 2, turn: bool = False, monitors: Sequence[str] = ()
) -> RelayFinder:
    choice = RelayChoice(indexers=(INDEX,), most=most, monitors=tuple(monitors))
    return RelayFinder(fetch, choice, now=lambda: NOW, experience=known, rand=Turns(turn=turn))


SHOWN = RelayEvidence(answered=3, served=3, shown=0b1111, registers=4)
NOW = 1_800_000_000.0


async def test_the_relays_of_a_long_list_are_those_that_served_well() -> None:
    fetch = Relays(index=[listed(ALICE, 5, A, B, C)])
    target = OutboxTarget(author=ALICE.pubkey)
    known = Known({A: RelayEvidence(failed=3), C: SHOWN})
    assert (await learning(fetch, known).relays_for(target)).relays == (B, C)
    known = Known({A: SHOWN, C: SHOWN})
    assert (await learning(fetch, known).relays_for(target)).relays == (A, C)
    assert (await learning(fetch, known, turn=True).relays_for(target)).relays == (A, B)


async def test_a_watch_keeps_its_relays_while_they_answer() -> None:
    fetch = Relays(index=[listed(ALICE, 5, A, B, C)])
    targets = {"w": OutboxTarget(author=ALICE.pubkey)}
    weak = RelayEvidence(answered=3, served=3, shown=1, registers=4)
    finder = learning(fetch, Known({A: weak, B: SHOWN, C: SHOWN}), most=1)
    assert (await finder.relays_for_many(targets))["w"].relays == (B,)
    kept = await finder.relays_for_many(targets, current={"w": (A,)})
    assert kept["w"].relays == (A,)


async def test_answers_are_looked_for_where_those_write_who_usually_answer() -> None:
    fetch = Relays(index=[listed(ALICE, 5, A)])
    known = Known({}, [listed(BOB, 5, B)])
    finder = learning(fetch, known)
    replies = OutboxTarget(author=ALICE.pubkey, question="replies", answers=(1,))
    chosen = await finder.relays_for(replies)
    assert chosen.relays == (A, B)
    assert chosen.strangers == {A, B}
    assert known.asked == [(ALICE.pubkey, (1,))]
    assert (await finder.relays_for(OutboxTarget(author=ALICE.pubkey))).relays == (A,)
    _, ranked = await finder.ranked(replies)
    assert [(one.relay, one.evidence.answerers) for one in ranked] == [(A, 0), (B, 1)]
    assert {relays for relays, _ in fetch.asked} == {(INDEX,)}


async def test_monitors_are_read_where_lists_are_and_only_about_relays_of_lists() -> None:
    tags = (("d", f"{C}/"),)
    word = BOB.sign_now(EventTemplate(kind=30166, tags=tags, created_at=int(NOW) - 60))
    fetch = Relays(index=[listed(ALICE, 5, A, B, C), word])
    known = Known({}, [listed(BOB, 5, "wss://mine.example.com")])
    finder = learning(fetch, known, most=1, monitors=[BOB.pubkey])
    target = OutboxTarget(author=ALICE.pubkey, question="replies", answers=(1,))
    assert (await finder.relays_for(target)).relays == (C,)
    assert (await finder.relays_for(target)).relays == (C,)
    (asked,) = [(relays, one) for relays, one in fetch.asked if one.kinds == (30166,)]
    assert asked[0] == (INDEX,)
    assert set(dict(asked[1].tags)["#d"]) == {x for url in (A, B, C) for x in (url, f"{url}/")}


async def test_a_monitor_that_no_relay_has_removes_nothing() -> None:
    class Half(Relays):
        async def __call__(
            self, relays: Sequence[str], filters: Sequence[Filter]
        ) -> list[VerifiedEvent]:
            if filters[0].kinds == (30166,):
                raise NoAnswer
            return await super().__call__(relays, filters)

    fetch = Half(index=[listed(ALICE, 5, A, B)])
    finder = learning(fetch, Known({}), monitors=[BOB.pubkey])
    assert (await finder.relays_for(OutboxTarget(author=ALICE.pubkey))).relays == (A, B)
