"""A subset of the Parquet tables of a rebuild as an index file of its own, that can be asked.

The tables of a cluster are too many for one machine; what somebody wants of them is a few targets:
their own, or the people they follow. The file stands beside no store: its people have numbers of
its own, and no live count reads it, as it says what was true of the archives and no more.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agent.reindex import inputs
from agent.reindex.parquet import DONE
from agent.reindex.publish import NewNumbers, of_keys, publish
from agent.reindex.single import ARCHIVED
from agent.reindex.tables import COLUMNS
from nostr_client import hll
from nostr_client.errors import InvalidInput, StoreCorrupt
from nostr_client.extras import optional
from nostr_client.store import index_schema
from nostr_client.store.connect import file_uri
from nostr_client.store.faults import store_error
from nostr_client.store.index_update import Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LOADED: Final = ("hot", "hot_author", "zap")
"""Tables that say something of a target; the days are of all events, and no subset of them is."""


class Asked(NamedTuple):
    """A target as it is in a loaded file: exact but for the estimate; zaps are of the target in
    all kinds."""

    target: Target
    events: int
    authors: int
    registers: bytes
    receipts: int
    msats: int


class About(NamedTuple):
    """What a loaded file is of: when the archives were judged (Unix seconds), and from how many
    events on a target was kept. A target that is not in it may have up to that many."""

    as_of: int
    hot: int


def load(tables: str, values: Sequence[str], out: Path) -> dict[str, int]:
    """Write the targets `values` (ids, pubkeys, addresses) into the index file `out`; the rows.

    `tables` is a folder or URL that a rebuild had as `--out`. Raises InvalidInput where they are
    not there or half written, StoreCorrupt where they do not fit each other, StoreError.
    """
    if out.exists():
        raise InvalidInput(f"{out} is there; choose another name or remove it")
    if not out.parent.is_dir():
        raise InvalidInput(f"{out.parent} is no folder")
    found = Subset(tables, values)
    about = found.about._asdict()
    done = publish(of_keys(found), out, ARCHIVED, NewNumbers(), lambda rows: None, about)
    return {table: done.rows[table] for table in LOADED}


class Subset:
    """`agent.reindex.tables.Tables`, of some targets alone."""

    def __init__(self, tables: str, values: Sequence[str]) -> None:
        self._values = sorted(set(values))
        self._datasets = {name: _dataset(tables, name) for name in (*LOADED, "about")}
        self.about = self._about()
        self._hot = list(self._of("hot", "value", self._values))
        self._authors = list(self._of("hot_author", "t", [row[0] for row in self._hot]))
        _must_fit(self._hot, self._authors)

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table of COLUMNS; none of those that are of no target."""
        if table == "hot":
            return iter(self._hot)
        if table == "hot_author":
            return iter(self._authors)
        return self._of(table, "value", self._values) if table in LOADED else iter(())

    def _about(self) -> About:
        rows = self._datasets["about"].to_table(columns=list(About._fields)).to_pylist()
        if len(rows) != 1:
            raise StoreCorrupt("the table about does not have its one row")
        return About(**rows[0])

    def _of(self, table: str, column: str, wanted: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        import pyarrow.dataset as ds

        columns = list(COLUMNS[table])
        if not wanted:
            return
        where = ds.field(column).isin(wanted)
        for batch in self._datasets[table].to_batches(columns=columns, filter=where):
            yield from zip(*(one.to_pylist() for one in batch.columns), strict=True)


def _dataset(tables: str, name: str) -> Any:
    """One table. Raises InvalidInput for what is none, or is not whole, MissingExtra."""
    with optional("reading Parquet"):
        import pyarrow as pa
        import pyarrow.dataset as ds
        from pyarrow import fs
    where = tables.rstrip("/")
    try:
        here = inputs.local(where)
        if here is None:
            files, base = fs.FileSystem.from_uri(_scheme(where))
        else:
            files, base = fs.LocalFileSystem(), str(here.absolute())
        folder = f"{base}/tables/{name}"
        if files.get_file_info(f"{folder}/{DONE}").type != fs.FileType.File:
            raise InvalidInput(f"{where} has no finished table {name}: {_why(here)}")
        found = ds.dataset(folder, filesystem=files, format="parquet")
    except (pa.ArrowException, OSError) as error:
        raise InvalidInput(f"{where}: {error}") from error
    missing = set(COLUMNS.get(name, About._fields)) - set(found.schema.names)
    if missing:
        raise InvalidInput(f"{where}: the table {name} has no {', '.join(sorted(missing))}")
    return found


def _why(here: Path | None) -> str:
    if here is not None and (here / "index.db").is_file() and not (here / "tables").exists():
        return "where it was rebuilt was no pyarrow; pip install 'nostr-tally[parquet]' and rebuild"
    return "is it what --out named?"


def _scheme(url: str) -> str:
    """Hadoop's name of S3 is not that of all others."""
    return f"s3://{url[6:]}" if url.startswith("s3a://") else url


def _must_fit(hot: Sequence[tuple[Any, ...]], authors: Sequence[tuple[Any, ...]]) -> None:
    """Raise StoreCorrupt unless each target's counts and registers are those of its authors."""
    found: dict[int, dict[bytes, int]] = {row[0]: {} for row in hot}
    for t, pubkey, n in authors:
        found[t][pubkey] = n
    for t, name, value, kind, events, number, registers in hot:
        of = found[t]
        offset = hll.offset({f"#{name}": [value]})
        right = bytes(hll.M) if offset is None else hll.from_raw(b"".join(of), offset)
        if (len(of), sum(of.values()), right) != (number, events, registers):
            raise StoreCorrupt(f"{name} {value}, kind {kind}: the tables do not fit each other")


def ask(file: Path, values: Sequence[str] = ()) -> tuple[About, list[Asked]]:
    """What a loaded file says of `values`, or of all, most events first.

    Raises InvalidInput for what is no such file, StoreError.
    """
    sql = (
        "SELECT h.name, h.value, h.kind, events, authors, registers,"
        " ifnull(receipts, 0), ifnull(msats, 0)"
        " FROM hot h LEFT JOIN zap z ON z.name = h.name AND z.value = h.value"
        " ORDER BY events DESC, h.name, h.value, h.kind"
    )
    with _opened(file) as (conn, about):
        rows = conn.execute(sql).fetchall()
    wanted = set(values)
    asked = [Asked(Target(*row[:3]), *row[3:]) for row in rows]
    return about, [one for one in asked if not wanted or one.target.value in wanted]


def authors(file: Path, target: Target) -> list[tuple[str, int]]:
    """The pubkeys behind a target and how many events of each. Raises StoreError."""
    sql = (
        "SELECT lower(hex(pubkey)), n FROM hot JOIN hot_author USING (t) JOIN author USING (a)"
        " WHERE name = ? AND value = ? AND kind = ? ORDER BY n DESC, pubkey"
    )
    with _opened(file) as (conn, _):
        return conn.execute(sql, target).fetchall()


@contextmanager
def _opened(file: Path) -> Iterator[tuple[sqlite3.Connection, About]]:
    """A file of tables that have people of their own, and what it is of."""
    if not file.is_file():
        raise InvalidInput(f"{file} is not there")
    try:
        with closing(sqlite3.connect(file_uri(file, "ro"), uri=True)) as conn:
            about = index_schema.about(conn)
            if about.get("version") != index_schema.VERSION or "as_of" not in about:
                raise InvalidInput(f"{file} holds no tables of archives of this version")
            yield conn, About(about["as_of"], about["hot"])
    except sqlite3.Error as error:
        raise store_error(error) from error
