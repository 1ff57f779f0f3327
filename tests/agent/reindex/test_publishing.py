"""An index that is written beside the stages: it waits for them, and is whole or not there."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agent.reindex.inputs import Settings, archive
from agent.reindex.protocol import Job
from agent.reindex.reporter import Reporter
from agent.reindex.single import ARCHIVED
from agent.reindex.spark import groups
from agent.reindex.spark.publishing import IndexPublisher
from nostr_client.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

DAILY = pa.schema([(name, pa.int64()) for name in ("day", "kind", "events", "authors")])
AUTHORS = groups.arrow("day long, kind int, pubkey binary, n long")
ZAP = pa.schema(
    [("name", pa.string()), ("value", pa.string()), ("receipts", pa.int64()), ("msats", pa.int64())]
)
KEY = b"k" * 32
TWICE = (0, 1, KEY, (2).to_bytes(4, "little"), bytes(256))
TABLES = {
    ("registers", "hot"): (groups.HOT_ARROW, (1, "p", "ab", 3, 2, 1, bytes(256))),
    ("registers", "groups"): (groups.GROUPS_ARROW, (1, *TWICE)),
    ("daily", "daily"): (DAILY, (0, 3, 2, 1)),
    ("daily", "authors"): (AUTHORS, (0, 3, KEY, 2)),
    ("counters", "zap"): (ZAP, ("e", "x", 1, 1000)),
}


@pytest.fixture
def index(tmp_path: Path) -> IndexPublisher:
    for (stage, table), (schema, row) in TABLES.items():
        folder = tmp_path / "staged" / stage / f"table={table}"
        folder.mkdir(parents=True)
        found = pa.Table.from_batches([groups.rows(schema, [row])])
        pq.write_table(found, folder / "part.parquet")
    (tmp_path / "a.jsonl").touch()
    job = Job(
        source=archive("jsonl", [str(tmp_path / "a.jsonl")]),
        settings=Settings(now=0),
        engine="spark",
        work=str(tmp_path),
        out=str(tmp_path / "out"),
    )
    staged = str(tmp_path / "staged")
    return IndexPublisher(job, "name", staged, lambda: ARCHIVED, Reporter(lambda line: None))


def stopped() -> None:
    """Where a signal would be."""
    raise KeyboardInterrupt


def ended(
    index: IndexPublisher, tables: Iterable[tuple[str, str]], how: Callable[[], object]
) -> None:
    with index:
        for stage, table in tables:
            index.staged(stage, table)
        how()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "out").glob("*"))


def test_it_has_its_name_when_it_is_told_to(index: IndexPublisher, tmp_path: Path) -> None:
    with index:
        for stage, table in [*TABLES, *TABLES]:
            index.staged(stage, table)
            assert "index.db" not in files(tmp_path)
        done = index.finish()
    assert files(tmp_path) == ["index.db"]
    assert done.rows == dict.fromkeys(("hot", "hot_author", "daily", "daily_author", "zap"), 1)
    with closing(sqlite3.connect(done.path)) as conn:
        assert conn.execute(
            "SELECT n, pubkey FROM hot_author JOIN author USING (a)"
        ).fetchall() == [(2, KEY)]
        assert conn.execute(
            "SELECT day, kind, n, pubkey FROM daily_author JOIN author USING (a)"
        ).fetchall() == [(0, 3, 2, KEY)]


@pytest.mark.parametrize("tables", [1, 2, len(TABLES)])
def test_a_run_that_ends_before_leaves_nothing(
    index: IndexPublisher, tmp_path: Path, tables: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        ended(index, list(TABLES)[:tables], stopped)
    assert files(tmp_path) == []


def test_what_fails_in_it_fails_the_run(index: IndexPublisher, tmp_path: Path) -> None:
    """A target whose name SQLite does not take twice."""
    one = groups.rows(groups.HOT_ARROW, [(2, "p", "ab", 3, 2, 1, bytes(256))])
    pq.write_table(
        pa.Table.from_batches([one]), tmp_path / "staged/registers/table=hot/other.parquet"
    )
    with pytest.raises(StoreError):
        ended(index, TABLES, index.finish)
    assert files(tmp_path) == []
