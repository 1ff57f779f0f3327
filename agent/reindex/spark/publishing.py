"""Writes an index while later stages still run.

Spark has nothing to do with it: one thread of the driver reads what is staged and writes SQLite, on
the core that small tables leave idle. It waits for each table that it comes to. The file gets its
final name in `finish`.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from agent.reindex.single import publish_index
from agent.reindex.spark.tables import PLACES, StagedTables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from types import TracebackType

    from agent.reindex.protocol import Job
    from agent.reindex.publish import Numbers, PublishedIndex
    from agent.reindex.reporter import Reporter
    from nostr_client.store.index.schema import IndexedState

FIRST: Final = PLACES["hot_author"]
"""The stage and table after which writing begins: it is the largest."""

AGAIN_S: Final = 1.0
"""Seconds between two checks of a waiting thread whether the job still runs."""


class Abandoned(Exception):
    """The rebuild ended without this index."""


class IndexPublisher:
    """Writes one job's index beside its stages; leaving the block without `finish` removes it.

    `mark` is called after the first written stage is done.
    """

    def __init__(
        self, job: Job, name: str, root: str, mark: Callable[[], IndexedState], reporter: Reporter
    ) -> None:
        self._job, self._name = job, name
        self._tables = StagedTables(root)
        self._mark = mark
        self._reporter = reporter
        self._changed = threading.Condition()
        self._done: set[tuple[str, str]] = set()
        self._wanted = True
        self._last = False
        self._pool = ThreadPoolExecutor(1, "publishing", initializer=self._begin)
        self._clock: int | None = None
        self._written: Future[PublishedIndex] | None = None

    def __enter__(self) -> IndexPublisher:
        self._reporter.aside = self.cpu
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._wanted = False
            self._changed.notify_all()
        self._reporter.aside = None
        self._pool.shutdown()

    def staged(self, stage: str, table: str) -> None:
        """Announce that a table is staged. Raises the error of the writing thread, if any."""
        with self._changed:
            self._done.add((stage, table))
            self._changed.notify_all()
        if self._written is None and (stage, table) == FIRST:
            self._written = self._pool.submit(self._write)
        if self._written is not None and self._written.done():
            self._written.result()

    def finish(self) -> PublishedIndex:
        """Wait until the index has its name. Raises StoreError and its kinds."""
        assert self._written is not None
        with self._changed:
            self._last = True
            self._changed.notify_all()
        return self._written.result()

    def cpu(self) -> float:
        """CPU seconds that writing took so far; 0 where the system does not report it."""
        return 0.0 if self._clock is None else time.clock_gettime(self._clock)

    def _begin(self) -> None:
        if hasattr(time, "pthread_getcpuclockid"):
            self._clock = time.pthread_getcpuclockid(threading.get_ident())

    def _write(self) -> PublishedIndex:
        return publish_index(
            self._job, self._name, self._mark(), self._rows, self._progress, self._may_be_named
        )

    def _rows(self, table: str, numbers: Numbers) -> Iterator[tuple[Any, ...]]:
        """The rows of a table, once it is staged."""
        self._wait(lambda: PLACES[table] in self._done)
        yield from self._tables.rows(table, numbers)

    def _progress(self, rows: int) -> None:
        if not self._wanted:
            raise Abandoned
        if self._last:
            self._reporter.running("publish", rows)

    def _may_be_named(self) -> None:
        self._wait(lambda: self._last)

    def _wait(self, ready: Callable[[], bool]) -> None:
        with self._changed:
            while self._wanted and not ready():
                self._changed.wait(AGAIN_S)
            if not self._wanted:
                raise Abandoned
