"""NIP-50 over the store's text index, where it is on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.codecs.filters import Filter
from nostr_client.errors import InvalidFilter
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW, make, pubkey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TEXTS = [
    "Bitcoin is for everyone",
    "the bitcoins of yesterday",
    "东京的天气很好",
    "今天东京下雨",
    "a\x00hidden word after a NUL",
    'quotes " and ) OR ( * NEAR everywhere',
    "100% sure_thing \\ backslash",
    "see https://example.com/path and Москва",
    "std::vector and mailto:a@b.example at 3:4",
    "",
]


@pytest.fixture(params=["file", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqliteStore]:
    path = ":memory:" if request.param == "memory" else str(tmp_path / "s.db")
    async with await SqliteStore.open(path, search=True, clock=lambda: NOW) as opened:
        await opened.save([make(n, at=100 + n, content=text) for n, text in enumerate(TEXTS)])
        yield opened
        assert (await opened.verify()).problems == ()


async def found(store: SqliteStore, text: str, **more: Any) -> list[int]:
    """Numbers of the texts that a search finds, newest first."""
    events = await store.query([Filter(search=text, **more)])
    return [event.created_at - 100 for event in events]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("bitcoin", [1, 0]),
        ("BITCOIN everyone", [0]),
        ("itcoi", [1, 0]),
        ("东京的", [2]),
        ("东京", [3, 2]),
        ("京 天气", [2]),
        ("москва", [7]),
        ("МО", [7]),
        ("hidden", [4]),
        ("en", [4]),
        ("NU", [4]),
        ('"', [5]),
        ('" and', [5]),
        (") OR (", [5]),
        ("NEAR", [5]),
        ("quotes OR bitcoin", []),
        ("0%", [6]),
        ("e_", [6]),
        ("e%", []),
        ("\\", [6]),
        ("https://example.com", [7]),
        ("bitcoin language:en domain:x.example", [1, 0]),
        ("nowhere", []),
        ("bitcoin nowhere", []),
        ("std::vector", [8]),
        ("foo::bar", []),
        ("mailto:a@b", [8]),
        ("3:4", [8]),
        ("nsfw:false include:spam sentiment:positive bitcoin", [1, 0]),
        ("language: bitcoin", []),
        ("language:en", [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        ("  ", [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
    ],
)
async def test_what_is_found(store: SqliteStore, text: str, numbers: list[int]) -> None:
    assert await found(store, text) == numbers
    assert await store.count([Filter(search=text)]) == len(numbers)


async def test_a_search_is_one_condition_among_others(store: SqliteStore) -> None:
    assert await found(store, "bitcoin", limit=1) == [1]
    assert await found(store, "bitcoin", authors=[pubkey(0)]) == [0]
    assert await found(store, "bitcoin", since=101, kinds=[1]) == [1]
    assert await found(store, "东京", limit=1) == [3]
    assert await found(store, "bitcoin", kinds=[7]) == []


async def test_what_goes_is_found_no_more(store: SqliteStore) -> None:
    await store.delete([Filter(authors=[pubkey(0)])])
    assert await found(store, "bitcoin") == [1]
    await store.save([make(50, kind=0, at=1, content="profile one")])
    await store.save([make(50, kind=0, at=2, content="profile two")])
    assert await store.count([Filter(search="profile")]) == 1


async def test_encrypted_contents_are_not_indexed(store: SqliteStore) -> None:
    await store.save([make(60, kind=kind, content="bitcoin xy") for kind in (4, 13, 1059)])
    assert await found(store, "bitcoin") == [1, 0]
    assert await found(store, "xy") == []
    await store.delete([Filter(kinds=[4, 13, 1059])])


async def test_search_is_off_unless_asked_for() -> None:
    async with await SqliteStore.open(":memory:") as store:
        await store.save([make(content="bitcoin")])
        with pytest.raises(InvalidFilter, match="without search"):
            await store.query([Filter(search="bitcoin")])
        assert not (await store.stats()).search


async def test_a_store_can_be_made_searchable_later_and_stays_so(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        await store.save([make(content="\x00 bitcoin before"), make(kind=4, content="bitcoin")])
    async with await SqliteStore.open(path, search=True, clock=lambda: NOW) as store:
        assert await store.count([Filter(search="bitcoin")]) == 1
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        await store.save([make(1, content="bitcoin after")])
        assert await store.count([Filter(search="bitcoin")]) == 2
        assert (await store.stats()).search
        assert (await store.verify()).problems == ()
