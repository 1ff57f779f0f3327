"""The reference engine gives what a store's own index gives, from the store and from archives."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from agent.reindex import event_rows, inputs, reference
from agent.reindex.inputs import Settings
from nostr_client.codecs.event import parse_event
from nostr_client.store.index import update as index_update
from nostr_client.store.index.keeper import Index
from nostr_client.store.index.schema import IndexedState
from nostr_client.store.tombstones import from_store, row_of
from tests.agent.reindex import looking
from tests.agent.reindex.nasty import HOT, NOW, URLS, fill, nasty, opened, write_archive
from tests.conftest import shared_path

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.event import Event

SETTINGS = Settings(now=NOW, urls=URLS, hot=HOT)


@pytest.fixture(autouse=True)
def _few_are_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_update, "HOT", HOT)


def shared_events() -> list[Event]:
    lines = shared_path("data/events.jsonl").read_bytes().splitlines()
    return [parse_event(line) for line in lines]


@pytest.fixture(params=["nasty", "shared"])
def events(request: pytest.FixtureRequest) -> list[Event]:
    return nasty() if request.param == "nasty" else shared_events()


async def live_tables(path: Path, events: list[Event]) -> looking.Shown:
    """What the index that followed along says."""
    async with await opened(path) as store:
        index = await Index.open(store)
        await fill(store, events)
        await index.refresh(10_000)
        live = index.path(0)
    assert live is not None
    return looking.of_file(live, looking.people_of(path))


def test_there_are_three_hundred_nasty_events() -> None:
    assert len(nasty()) >= 300


async def test_a_store_gives_what_its_index_holds(tmp_path: Path, events: list[Event]) -> None:
    path = tmp_path / "store.db"
    live = await live_tables(path, events)
    with closing(inputs.open_store(path)) as conn:
        made = reference.from_store_rows(
            from_store(conn, IndexedState.of_store(conn).next_seq), SETTINGS
        )
    assert looking.of_tables(made) == live
    assert all(live.values())


async def test_an_archive_gives_what_a_store_would_hold(
    tmp_path: Path, events: list[Event]
) -> None:
    live = await live_tables(tmp_path / "store.db", events)
    archive = inputs.archive("jsonl", [str(write_archive(tmp_path / "a.jsonl", events))])
    rejects = event_rows.Rejects()
    found = [row_of(event) for event in event_rows.events_of(archive, True, rejects)]
    made = reference.from_archive(lambda: found, SETTINGS)
    assert looking.of_tables(made) == live
    assert not rejects.reasons
    assert made.statuses["duplicate"] == len(events)
    assert made.statuses.total() == 2 * len(events)


async def test_kinds_and_fingerprints_are_those_of_what_is_stored(
    tmp_path: Path, events: list[Event]
) -> None:
    path = tmp_path / "store.db"
    await live_tables(path, events)
    with closing(inputs.open_store(path)) as conn:
        made = reference.from_store_rows(
            from_store(conn, IndexedState.of_store(conn).next_seq), SETTINGS
        )
        kinds = conn.execute("SELECT kind, count(*) FROM event GROUP BY 1 ORDER BY 1").fetchall()
        ids = conn.execute("SELECT created_at, id FROM event").fetchall()
    assert sorted(made.rows("kinds")) == kinds
    sums: dict[int, int] = {}
    for at, id_ in ids:
        sums[at // 86_400] = (sums.get(at // 86_400, 0) + int.from_bytes(id_, "little")) % 2**256
    found = {day: int.from_bytes(total, "little") for day, _, total in made.rows("fingerprint")}
    assert found == sums
