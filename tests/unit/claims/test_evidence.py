"""What stored claims show of relays: how long each fact counts, and what is no failure."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from nostr_client import count, hll
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.count.claims import CLAIMS, ClaimBook, StoredExperience
from nostr_client.count.merge import Claim, ClaimStatus, Method
from nostr_client.count.remembering import asked_of
from nostr_client.network.outbox.evidence import rank
from nostr_client.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nostr_client.codecs.keys import VerifiedEvent

A, B, C = (f"wss://{x}.example.com" for x in "abc")
DAY = 86_400.0
NOW = 1_800_000_000.0
PEOPLE = [sha256(b"person %d" % n).hexdigest() for n in range(200)]


def claim(
    url: str,
    status: ClaimStatus = ClaimStatus.OK,
    ago: float = 0.0,
    *,
    count: int = 5,
    latency_ms: float = 80.0,
    registers: bytes | None = None,
) -> Claim:
    """What a relay answered so many seconds ago."""
    if status is not ClaimStatus.OK:
        return Claim(relay=url, status=status, asked_at=NOW - ago)
    return Claim(
        relay=url,
        status=status,
        method=Method.COUNT if registers is None else Method.HLL,
        count=count,
        registers=registers,
        latency_ms=latency_ms,
        asked_at=NOW - ago,
    )


def shows(url: str, target: str, people: int, ago: float = 0.0) -> Claim:
    offset = count.followers(target).offset
    assert offset is not None
    registers = hll.from_pubkeys(PEOPLE[:people], offset)
    return claim(url, ago=ago, registers=registers)


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    async with await SqliteStore.open(":memory:", migrations=[CLAIMS]) as opened:
        yield opened


def experience(store: SqliteStore) -> StoredExperience:
    return StoredExperience(store.database, store, lambda: NOW)


async def remember(store: SqliteStore, query: count.Query, *claims: Claim) -> None:
    book = ClaimBook(store.database)
    for one in claims:
        await book.remember(asked_of(query), [(one.relay, one)])


async def test_days_of_a_week_are_counted_by_their_last_answer(store: SqliteStore) -> None:
    query = count.followers("01" * 32)
    await remember(
        store,
        query,
        claim(A, ClaimStatus.TIMEOUT, 8 * DAY),
        claim(A, ClaimStatus.TIMEOUT, 3 * DAY),
        claim(A, ClaimStatus.REFUSED, 2 * DAY),
        claim(A, ago=DAY, latency_ms=300.0),
        claim(A, ClaimStatus.UNREACHABLE, 60.0),
        claim(A, ClaimStatus.HELD_BACK, 0.0),
        claim(B, ClaimStatus.HELD_BACK, 0.0),
        claim(C, ClaimStatus.TIMEOUT, 8 * DAY),
    )
    found = await experience(store).evidence([A, B, C], "followers")
    assert set(found) == {A}  # our own budget and old failures say nothing
    assert (found[A].answered, found[A].refused, found[A].failed) == (1, 1, 1)
    assert (found[A].served, found[A].declined) == (1, 1)
    assert found[A].latency_ms == 300.0
    elsewhere = (await experience(store).evidence([A], "zaps"))[A]
    assert (elsewhere.served, elsewhere.declined) == (0, 0)
    assert elsewhere.reliability > found[A].reliability


async def test_a_bare_zero_is_a_refusal(store: SqliteStore) -> None:
    await remember(store, count.followers("01" * 32), claim(A, count=0), claim(B, count=0))
    await remember(store, count.followers("02" * 32), claim(B, count=7))
    found = await experience(store).evidence([A, B], "followers")
    assert (found[A].answered, found[A].refused) == (0, 1)
    assert (found[B].answered, found[B].refused) == (1, 1)


async def test_people_of_a_month_are_compared_over_all_questions(store: SqliteStore) -> None:
    one, other, old = (f"{n:02x}" * 32 for n in (1, 2, 3))
    await remember(store, count.followers(one), shows(A, one, 200, 10 * DAY), shows(B, one, 200))
    reactions = count.reactions(other)
    await remember(store, reactions, shows(A, other, 100), shows(C, other, 200))
    await remember(store, count.followers(old), shows(A, old, 1, 40 * DAY))
    known = experience(store)
    found = await known.evidence([A, B, C], "followers")
    assert found[B].gain(0) == 1.0
    assert found[C].gain(0) == 1.0
    assert found[A].gain(0) == 1.0
    assert found[A].registers == found[B].registers + found[C].registers
    assert found[A].answered == 1  # the other answer is of the week before
    assert await known.relays() == [A, B, C]


async def test_a_removed_question_takes_its_evidence_along(store: SqliteStore) -> None:
    query = count.followers("01" * 32)
    await remember(store, query, claim(A))
    assert await experience(store).evidence([A], "followers")
    await ClaimBook(store.database).forget(asked_of(query))
    assert not await experience(store).evidence([A], "followers")
    assert await experience(store).relays() == []


async def test_those_who_answered_twice_usually_answer(store: SqliteStore) -> None:
    alice, bob, carol = (KeySigner(sha256(name).digest()) for name in (b"a", b"b", b"c"))

    def reply(by: KeySigner, at: int) -> VerifiedEvent:
        tags = (("p", alice.pubkey),)
        return by.sign_now(EventTemplate(kind=1, tags=tags, content=f"{at}", created_at=at))

    def listed(by: KeySigner, url: str) -> VerifiedEvent:
        return by.sign_now(EventTemplate(kind=10002, tags=(("r", url),), created_at=1))

    replies = [reply(bob, 1), reply(bob, 2), reply(carol, 3), reply(alice, 4), reply(alice, 5)]
    await store.save([*replies, listed(bob, B), listed(carol, C), listed(alice, A)])
    (found,) = await experience(store).answerers(alice.pubkey, [1])
    assert (found.author, found.write) == (bob.pubkey, (B,))
    assert await experience(store).answerers(alice.pubkey, [7]) == []
    no_events = StoredExperience(store.database, None, lambda: NOW)
    assert await no_events.answerers(alice.pubkey, [1]) == []


async def test_a_relay_that_refuses_everything_is_not_first_without_a_name(
    store: SqliteStore,
) -> None:
    """Questions of several names: all of them count."""
    for n in range(6):
        for query in (count.followers(f"{n + 1:02x}" * 32), count.reactions(f"{n + 1:02x}" * 32)):
            await remember(
                store,
                query,
                claim(A, ClaimStatus.REFUSED, 60.0),
                claim(B, ago=60.0),
                claim(B, ClaimStatus.TIMEOUT, 1.5 * DAY),
            )
    for name in ("", "followers"):
        found = await experience(store).evidence([A, B], name)
        assert [one.relay for one in rank([A, B], found)] == [B, A]
