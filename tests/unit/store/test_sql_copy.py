"""A copy in SQLite: its tables are the views, text is found, nothing private unless named."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from rich.progress import Progress

from nostr_client.cli.app import run
from nostr_client.codecs.private_kinds import is_private
from nostr_client.errors import InvalidInput, StoreError
from nostr_client.store.sql.copy import (
    OWN,
    QUERIES,
    CopySelection,
    export_sqlite,
    metadata,
    read_back,
)
from nostr_client.store.sql.query import SqlReader
from nostr_client.store.sql.views import VIEWS
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.files.jsonl import import_jsonl
from tests.conformance.store_events import make
from tests.conftest import shared_path

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.event import Event

AT = 1_780_000_000
MESSAGE = make(0, 4, content="nobody may find this")
HIDDEN = [
    MESSAGE,
    make(1, 6, content=MESSAGE.event.to_json()),
    make(2, 5001, tags=(("encrypted",),), content="nobody may find this"),
]
"""A message, a repost of it, and an encrypted job (NIP-90)."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copied") / "s.db"


@pytest.fixture(scope="module")
async def held(store: Path) -> list[Event]:
    """The events of a store of all shared ones."""
    async with await SqliteStore.open(store, clock=lambda: AT) as opened:
        with shared_path("data/events.jsonl").open("rb") as file:
            await import_jsonl(opened, file)
        await opened.save([*HIDDEN, make(1, content="a\x00b")])
        return [event async for event in opened.export([])]


@pytest.fixture(scope="module")
def copy(store: Path, held: list[Event]) -> Path:
    target = store.with_name("copy.sqlite")
    private = sum(map(is_private, held))
    assert export_sqlite(store, target, CopySelection(), AT) == (len(held) - private, private)
    return target


def rows(file: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as conn:
        return conn.execute(sql).fetchall()


def test_each_table_is_its_view(store: Path, copy: Path) -> None:
    asking = SqlReader(rows=10**7, seconds=120, now=lambda: AT)
    for view in VIEWS:
        if view in OWN:
            continue
        found = asking.ask(store, f"SELECT * FROM {view.name}")
        names = [row[1] for row in rows(copy, f"PRAGMA table_info({view.name})")]
        assert tuple(names) == found.columns
        assert sorted(rows(copy, f"SELECT * FROM {view.name}"), key=repr) == sorted(
            found.rows, key=repr
        )


def test_text_is_found_and_ciphertext_is_not(store: Path, copy: Path, held: list[Event]) -> None:
    search = (
        "SELECT id FROM events JOIN events_fts f ON f.rowid = events.rowid WHERE f.content MATCH"
    )
    found = {id_ for (id_,) in rows(copy, f"{search} 'nostr'")}
    assert found
    assert found <= {one.id for one in held if "nostr" in one.content.lower()}
    everything = store.with_name("everything.sqlite")
    export_sqlite(store, everything, CopySelection(private=True), AT)
    assert rows(everything, "SELECT count(*) FROM events") == [(len(held),)]
    assert (MESSAGE.event.id,) not in rows(everything, f"{search} 'nobody may find this'")
    assert rows(everything, "SELECT count(*) FROM counters") == [(0,)]


def test_what_is_private_is_in_no_page_of_the_file(copy: Path) -> None:
    assert b"nobody may find this" not in copy.read_bytes()
    tables = {name for (name,) in rows(copy, "SELECT name FROM sqlite_schema")}
    assert not tables & {view.name for view in OWN}


def test_the_command_shows_how_many_tables_there_are(
    store: Path, held: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert held
    shown: list[tuple[float, float | None]] = []
    update = Progress.update

    def watched(self: Progress, *args: Any, **changes: Any) -> None:
        update(self, *args, **changes)
        shown.extend((task.completed, task.total) for task in self.tasks)

    monkeypatch.setattr(Progress, "update", watched)
    target = store.with_name("shown.sqlite")
    assert run(["store", "export", str(target), "--store", str(store)]) == 0
    tables = len(VIEWS) - len(OWN) + 1
    assert shown == [(n, tables) for n in range(1, tables + 1)]


def test_ids_choose_events_and_their_tables(store: Path, held: list[Event]) -> None:
    chosen = [one for one in held if one.kind == 3][:5]
    target = store.with_name("chosen.sqlite")
    number, _ = export_sqlite(
        store, target, CopySelection([bytes.fromhex(one.id) for one in chosen]), AT
    )
    assert number == len(chosen)
    assert rows(target, "SELECT count(DISTINCT event_id) FROM tags WHERE kind = 3") == [
        (sum(bool(one.tags) for one in chosen),)
    ]
    assert len(list(read_back(target))) == len(chosen)


def test_the_file_is_for_its_owner_and_stands_whole_or_not_at_all(
    store: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert copy.stat().st_mode & 0o077 == 0
    with pytest.raises(InvalidInput, match="exists"):
        export_sqlite(store, copy, CopySelection(), AT)
    with pytest.raises(StoreError):
        export_sqlite(copy, store.with_name("never.sqlite"), CopySelection(), AT)
    assert not list(store.parent.glob("never*"))


def test_every_question_for_datasette_can_be_asked(copy: Path) -> None:
    with closing(sqlite3.connect(copy)) as conn:
        for _, sql in QUERIES.values():
            assert conn.execute(sql, {"words": "nostr"}).fetchall() or "zap" in sql
    (described,) = metadata("copy", own=False)["databases"].values()
    for name, table in described["tables"].items():
        columns = {row[1] for row in rows(copy, f"PRAGMA table_info({name})")}
        assert set(table["columns"]) == columns


@pytest.mark.parametrize("words", ["C++", "it's", '"x', "", "nostr:", "a  AND", "*", "NEAR("])
def test_any_words_can_be_searched(copy: Path, words: str) -> None:
    sql = QUERIES["search"][1]
    with closing(sqlite3.connect(copy)) as conn:
        found = conn.execute(sql, {"words": words}).fetchall()
    for word in re.findall(r"\w+", words.lower()):
        assert all(word in content.lower() for _, _, content in found)


def test_another_database_is_read_back_as_an_error(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as conn:
        conn.execute("CREATE TABLE events (id)")
    with pytest.raises(InvalidInput, match="no copy"):
        list(read_back(tmp_path / "x.db"))
