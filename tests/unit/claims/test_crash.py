"""Killed at any moment of reading: after that nothing is lost, and nothing counts twice.

A kill is a copy of the files as they lie on the disk at that moment, between two questions, before
or after a commit, or in the middle of a statement; what the dying program still held is gone.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from nostr_client import hll
from nostr_client.codecs.filters import Filter
from nostr_client.count.claims.book import CLAIMS
from nostr_client.count.claims.coverage import holds
from nostr_client.count.claims.held import HeldRows
from nostr_client.count.reading.rounds import AskCount, ReadPage, ReadRound
from nostr_client.protocol import SMALL
from nostr_client.store.file.migrate import create
from tests.simulation import SimRelay, event

if TYPE_CHECKING:
    from nostr_client.count.claims import HeldEvent, ReadCoverage

NOW = 1_700_000_000
OFFSET = 9
REACTIONS = Filter(kinds=[7])
STATEMENT_STEPS = 5


class Killed(BaseException):
    """The process is gone."""


class Life:
    """One process: a connection to the file, killed after so many steps (None: never)."""

    def __init__(self, folder: Path, steps: int | None) -> None:
        self.folder = folder
        self.steps = steps
        self.seen: tuple[ReadCoverage, int] | None = None
        self.conn = sqlite3.connect(folder / "store.db", isolation_level=None)
        self.conn.execute("PRAGMA journal_mode = WAL")
        if steps is not None:
            self.conn.set_progress_handler(self._inside_statement, STATEMENT_STEPS)

    def tick(self) -> None:
        """A moment between statements."""
        if self.steps is None:
            return
        self.steps -= 1
        if self.steps < 0:
            raise Killed

    def _inside_statement(self) -> int:
        assert self.steps is not None
        self.steps -= 1
        return self.steps < 0

    def advance(self, reading: ReadRound) -> bool:
        """One transaction, as the store runs it."""
        try:
            self.conn.execute("BEGIN IMMEDIATE")
            memory = HeldRows(self.conn, 1, 1, OFFSET)
            more = reading.advance(memory)
            memory.flush()
            seen = (memory.mark, memory.count(0, None))
            self.tick()
            self.conn.execute("COMMIT")
            self.seen = seen
        except sqlite3.OperationalError as error:
            raise Killed from error
        self.tick()
        return more

    def read(self, relay: SimRelay, clock: int, counts: bool) -> None:
        """A round, to its end or to death."""
        told = relay.count(REACTIONS) if counts else None
        reading = ReadRound([REACTIONS], clock=clock, reported=told, page=relay.cap)
        begun = self.seen is not None and reading.begin(*self.seen)
        while begun or self.advance(reading):
            begun = False
            while (question := reading.question) is not None:
                self.tick()
                match question:
                    case ReadPage(asked):
                        reading.page(*relay.answer(asked))
                    case AskCount(asked):
                        reading.count(relay.count(asked))

    def bury(self, grave: Path) -> None:
        """What lies on the disk now, without the rest of this process."""
        grave.mkdir()
        for file in self.folder.iterdir():
            shutil.copy(file, grave / file.name)
        self.conn.close()


class Found:
    """What a fresh process finds in the file."""

    def __init__(self, folder: Path) -> None:
        conn = sqlite3.connect(folder / "store.db")
        rows = HeldRows(conn, 1, 1, OFFSET)
        self.events: list[HeldEvent] = list(rows.events())
        self.mark: ReadCoverage = rows.mark
        self.registers = rows.registers()
        conn.close()


def check_whole(found: Found, relay: SimRelay) -> None:
    """Marks promise nothing that is not held, and the registers are those of what is held."""
    held = {one.id for one in found.events}
    assert len(held) == len(found.events)
    assert held <= set(relay.events)
    for one in relay.events.values():
        promised = holds(found.mark.covered, one.created_at)
        assert one.id in held or not promised or one.created_at in found.mark.holes
    if found.registers is not None:
        authors = {one.author for one in found.events}
        assert found.registers == hll.from_pubkeys(authors, OFFSET)


LIVES = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30)), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(LIVES, st.integers(SMALL, 20), st.booleans(), st.booleans())
def test_no_kill_loses_an_event_or_counts_one_twice(
    lives: list[tuple[int, int]], cap: int, counts: bool, stale: bool
) -> None:
    """`stale`: each round begins from what an earlier one saw, which may not hold any more."""
    seen: tuple[ReadCoverage, int] | None = None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "0"
        folder.mkdir()
        conn = sqlite3.connect(folder / "store.db")
        create(conn, [CLAIMS])
        conn.commit()
        conn.close()
        relay, clock, people = SimRelay(cap=cap), NOW, 0
        for number, (steps, arrivals) in enumerate(lives, 1):
            for _ in range(arrivals):
                people += 1
                relay.add(event(clock + 1 + people % 50, people % 20, people))
            clock += 60
            life = Life(folder, steps)
            life.seen = seen
            with contextlib.suppress(Killed):
                life.read(relay, clock, counts)
            seen = (seen or life.seen) if stale else None
            grave = Path(name) / str(number)
            life.bury(grave)
            folder = grave
            check_whole(Found(folder), relay)
        last = Life(folder, None)
        last.read(relay, clock + 60, counts)
        last.conn.close()
        found = Found(folder)
        check_whole(found, relay)
        missing = set(relay.events) - {one.id for one in found.events}
        assert {relay.events[id].created_at for id in missing} <= set(found.mark.holes)
        assert found.mark.last_read == clock + 60
