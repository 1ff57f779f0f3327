"""Keep coverages in a store's file: the newest runs of each name, without ids.

All functions take a connection in the caller's transaction. The agent writes runs, and commands
read them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.store.file.migrate import Schema, run_script
from nostr_client.sync.coverage.matrix import share
from nostr_client.sync.coverage_report import (
    CoverageRun,
    HeldKind,
    KnownKind,
    RelayCoverage,
    RepairedRelay,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from nostr_client.sync.coverage.matrix import Coverage
    from nostr_client.sync.coverage.repair import RepairReport

MOST_RUNS: Final = 400
"""Most runs of one name: a year of days, about 1 MB with five relays and twelve kinds."""

_TABLE: Final = (
    "CREATE TABLE coverage_run (name TEXT NOT NULL, at REAL NOT NULL, question TEXT NOT NULL,"
    " run TEXT NOT NULL, PRIMARY KEY (name, at)) STRICT, WITHOUT ROWID"
)
COVERAGES: Final = Schema("nostr_tally.coverages", partial(run_script, script=_TABLE))


def run_of(coverage: Coverage, at: float, report: RepairReport | None = None) -> CoverageRun:
    """Return the short form of a coverage, and of the repair that followed it."""
    kinds = [kind for kind in coverage.kinds if coverage.union(kind)]
    known = frozenset().union(*(coverage.union(kind) for kind in kinds))
    return CoverageRun(
        at=at,
        author=coverage.author,
        kinds=tuple(
            KnownKind(kind=kind, known=len(coverage.union(kind)), stored=coverage.stored(kind))
            for kind in kinds
        ),
        relays=tuple(_relay(coverage, relay, kinds) for relay in coverage.relays),
        repaired=None if report is None else _repaired(report),
        protected=len(known & coverage.protected),
        expired=len(known & coverage.expired),
    )


def _relay(coverage: Coverage, relay: str, kinds: list[int]) -> RelayCoverage:
    return RelayCoverage(
        relay=relay,
        share=share(coverage, relay),
        kinds=tuple(_held(coverage, relay, kind) for kind in kinds),
        undeleted=len(coverage.undeleted(relay)),
        why=next((one.why for one in coverage.cells[relay].values() if one.why), ""),
        unconfirmed=sum(coverage.alone(relay, kind) for kind in coverage.kinds),
    )


def _held(coverage: Coverage, relay: str, kind: int) -> HeldKind:
    missing = coverage.missing(relay, kind)
    return HeldKind(
        kind=kind,
        held=coverage.held(relay, kind),
        whole=coverage.cell(relay, kind).whole,
        missing=None if missing is None else len(missing),
    )


def _repaired(report: RepairReport) -> tuple[RepairedRelay, ...]:
    return tuple(
        RepairedRelay(
            relay=one.relay,
            planned=one.planned,
            taken=one.taken,
            had=one.had,
            refused=sum(one.refused.values()),
            unsent=one.unsent,
        )
        for one in report.relays
    )


def add(conn: sqlite3.Connection, name: str, run: CoverageRun, question: str) -> None:
    """Store a run with its question. Remove the oldest runs of its name beyond `MOST_RUNS`."""
    row = (name, run.at, question, msgspec.json.encode(run).decode())
    conn.execute("INSERT OR REPLACE INTO coverage_run VALUES (?, ?, ?, ?)", row)
    conn.execute(
        "DELETE FROM coverage_run WHERE name = ? AND at <= (SELECT at FROM coverage_run"
        " WHERE name = ? ORDER BY at DESC LIMIT 1 OFFSET ?)",
        (name, name, MOST_RUNS),
    )


def runs(
    conn: sqlite3.Connection, name: str, since: float = 0.0, most: int = MOST_RUNS
) -> list[CoverageRun]:
    """Return the newest runs of a name from a time on, oldest first."""
    sql = "SELECT run FROM coverage_run WHERE name = ? AND at >= ? ORDER BY at DESC LIMIT ?"
    rows = conn.execute(sql, (name, since, most)).fetchall()
    return [msgspec.json.decode(text, type=CoverageRun) for (text,) in reversed(rows)]


def last(conn: sqlite3.Connection) -> dict[str, CoverageRun]:
    """Return the newest run of each name, by name, or nothing if no agent kept a coverage."""
    table = "SELECT 1 FROM sqlite_schema WHERE name = 'coverage_run'"
    if conn.execute(table).fetchone() is None:
        return {}
    sql = (
        "SELECT name, run FROM coverage_run AS one WHERE at ="
        " (SELECT max(at) FROM coverage_run WHERE name = one.name) ORDER BY name"
    )
    return {name: msgspec.json.decode(text, type=CoverageRun) for name, text in conn.execute(sql)}


def last_of(conn: sqlite3.Connection, questions: Mapping[str, str]) -> dict[str, CoverageRun]:
    """Return the newest run of each name that compared the given question."""
    sql = "SELECT run FROM coverage_run WHERE name = ? AND question = ? ORDER BY at DESC LIMIT 1"
    rows = {name: conn.execute(sql, (name, key)).fetchone() for name, key in questions.items()}
    return {
        name: msgspec.json.decode(row[0], type=CoverageRun)
        for name, row in rows.items()
        if row is not None
    }
