"""What a place says of the relay's earlier answer: what it retracts, and which events are new."""

from __future__ import annotations

from contextlib import asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from nostr_client.count.claims import ClaimBook, HeldEvent, ListMemory, Memory, StoredQuery
from nostr_client.count.merge import Claim, ClaimStatus, Method, Reading, Retracted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ASKED = StoredQuery(key="k", name="filter", target=None, filters="[]", offset=8)
URL = "wss://r.example"
GONE = sha256(b"gone").digest()
AT = 1000.0


@asynccontextmanager
async def opened() -> AsyncIterator[ClaimBook]:
    book = await ClaimBook.open(":memory:")
    try:
        yield book
    finally:
        await book.close()


def event(n: int) -> HeldEvent:
    return HeldEvent(n, sha256(b"%d" % n).digest(), sha256(b"by %d" % n).digest())


def answer(method: Method, **changes: object) -> Claim:
    reading = Reading(authors=frozenset(), events=frozenset(), complete=True)
    read = reading if method is Method.EVENTS else None
    known = {"method": method, "count": 3, "asked_at": AT, "reading": read}
    return Claim(relay=URL, **{"status": ClaimStatus.OK, **known, **changes})


ANSWERS = {
    "by events": (answer(Method.EVENTS, retracted=Retracted(ids=frozenset([GONE]))), {GONE}),
    "by events, nothing retracted": (answer(Method.EVENTS), set()),
    "by registers": (answer(Method.HLL, registers=bytes(256)), None),
    "by a count": (answer(Method.COUNT), None),
    "a failure": (Claim(relay=URL, status=ClaimStatus.TIMEOUT, asked_at=AT), None),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_only_an_answer_by_these_events_retracts(name: str) -> None:
    claim, expected = ANSWERS[name]
    async with opened() as book:
        place = await book.place(ASKED, URL)
        await book.remember(ASKED, [(URL, claim)])
        found = await place.use(lambda memory: memory.retracted(AT))
        assert (None if found is None else found.all_ids) == expected
        assert await place.use(lambda memory: memory.retracted(AT + 1)) is None


async def test_a_later_failure_leaves_the_answer() -> None:
    claim, expected = ANSWERS["by events"]
    async with opened() as book:
        place = await book.place(ASKED, URL)
        await book.remember(ASKED, [(URL, claim)])
        await book.remember(ASKED, [(URL, ANSWERS["a failure"][0])])
        found = await place.use(lambda memory: memory.retracted(AT))
        assert found is not None
        assert found.all_ids == expected


def added(memory: Memory, *events: HeldEvent) -> set[bytes]:
    memory.add(events, 2000)
    return set(memory.fresh)


async def test_fresh_are_the_events_that_were_unknown_before() -> None:
    one, other = event(1), event(2)
    async with opened() as book:
        place = await book.place(ASKED, URL)
        assert await place.use(lambda memory: added(memory, one)) == {one.id}
        assert await place.use(lambda memory: added(memory, one, other)) == {other.id}
    assert added(ListMemory(), one, one) == {one.id}
