"""A tag asked for without kinds: its range is split by kind, and sorted where there are many."""

from __future__ import annotations

import random
from hashlib import sha256

import pytest

from nostr_client.codecs.event import Event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.store.query import select
from nostr_client.store.query.select import MANY_KINDS
from nostr_client.store.sqlite import SqliteStore

START = 1_700_000_000


def event(number: int, kind: int, at: int, topics: tuple[str, ...]) -> VerifiedEvent:
    key = sha256(f"{number}".encode()).hexdigest()
    tags = tuple(("t", topic) for topic in topics)
    return VerifiedEvent(Event(key, "ab" * 32, at, kind, tags, "", "0" * 128))


@pytest.mark.parametrize("kinds", [3, MANY_KINDS + 10])
async def test_the_newest_are_found_whatever_their_kind(kinds: int) -> None:
    chance = random.Random(kinds)
    saved = [
        event(n, 1_000 + n % kinds, START + chance.randint(0, 300), chance.choice(_TOPICS))
        for n in range(500)
    ]
    async with await SqliteStore.open(":memory:", clock=lambda: START) as store:
        await store.save(saved)
        for filter in _FILTERS:
            real = [one.event for one in saved if filter.matches(one.event)]
            real.sort(key=lambda one: (-one.created_at, one.id))
            assert await store.query([filter]) == real[: filter.limit]
            assert await store.count([filter]) == len(real)


async def test_a_few_kinds_are_ranges_and_many_are_one() -> None:
    async with await SqliteStore.open(":memory:", clock=lambda: START) as store:
        few = [event(n, 1_000 + n % 3, START, ("few",)) for n in range(9)]
        many = [event(99 + n, 1_000 + n, START, ("many",)) for n in range(MANY_KINDS + 1)]
        await store.save([*few, *many])
        prefixes = {}
        for topic in ("few", "many", "none"):
            filter = Filter(tags={"#t": [topic]}, limit=5)
            chosen = await store.database.read(
                lambda conn, filter=filter: select.plan(conn, store._context(), filter)
            )
            prefixes[topic] = [column for column, _ in chosen.prefix]
        assert prefixes == {"few": ["k.h", "k.kind"], "many": ["k.h"], "none": ["k.h"]}


_TOPICS = [("a",), ("b",), ("a", "b"), ("c",)]
_FILTERS = [
    Filter(tags={"#t": ["a"]}, limit=7),
    Filter(tags={"#t": ["a", "b"]}, limit=40),
    Filter(tags={"#t": ["a", "b"]}, since=START + 50, until=START + 60),
    Filter(tags={"#t": ["c"]}, until=START + 100, limit=3),
    Filter(tags={"#t": ["none"]}, limit=3),
    Filter(tags={"#t": ["a"]}, kinds=[1_000, 1_001], limit=9),
]
