"""Run writes on one connection. Many calls share a transaction, each with its own savepoint.

A thread does the writes. A small write may run in the calling thread while the writer thread is
idle, because the handover to a thread costs more than such a write.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import TYPE_CHECKING, Any

from nostr_client.errors import StoreError, StoreFull, StoreLocked
from nostr_client.store.file.faults import Capture

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    Work = Callable[[sqlite3.Connection], Any]
    AfterCommit = Callable[[sqlite3.Connection, bool], None]


HERE_LIMIT = 500
"""Most small writes in calling threads before the writer thread must do one.

Only the writer thread checkpoints the log into the file, which waits for the disk.
"""


class WriteJob:
    """One call: the function to run, and the future on which its caller waits.

    `alone`: run it outside any transaction, without other jobs.
    """

    __slots__ = ("alone", "error", "future", "loop", "result", "work")

    def __init__(self, work: Work, *, alone: bool = False) -> None:
        self.work = work
        self.alone = alone
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self, conn: sqlite3.Connection) -> None:
        """Call the function and keep its result or error."""
        with Capture() as caught:
            self.result = self.work(conn)
        self.error = caught.error

    def value(self) -> Any:
        """Return the function's result or raise its error."""
        if self.error is not None:
            raise self.error
        return self.result

    def settle(self) -> None:
        """Set the future's result on the event loop.

        Does nothing if the caller was cancelled.
        """
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class LockWait:
    """Switches whether a connection waits for locks and checkpoints a long log."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        self._has = True
        self._kept = {name: _pragma(conn, name) for name in ("busy_timeout", "wal_autocheckpoint")}

    def lose(self) -> None:
        """Fail at once if another program locks the file, and run no checkpoint."""
        self._set(False)

    def regain(self) -> None:
        """Wait and checkpoint according to the options."""
        self._set(True)

    def _set(self, wanted: bool) -> None:
        if self._has is wanted:
            return
        self._has = wanted
        for name, value in self._kept.items():
            self._conn.execute(f"PRAGMA {name} = {value if wanted else 0}").fetchall()


def _pragma(conn: sqlite3.Connection, name: str) -> int:
    value: int = conn.execute(f"PRAGMA {name}").fetchone()[0]
    return value


class Writer:
    """Runs jobs in its own thread in the order of `submit`. Results are set after the commit."""

    def __init__(self, conn: sqlite3.Connection, *, group_limit: int, name: str) -> None:
        self._conn = conn
        self._group_limit = group_limit
        self._queue: queue.SimpleQueue[WriteJob | None] = queue.SimpleQueue()
        self._turn = threading.Lock()
        self._patience = LockWait(conn)
        self._here = 0
        self.full = ""
        """Why the newest write found no space, or "".

        The text stays until `Database.found_room`.
        """
        self.after_commit: list[AfterCommit] = []
        """Functions to call with the connection after a commit, before its callers resume.

        The second argument is true outside the writer thread, where a function must not take long.
        """
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: WriteJob) -> None:
        self._queue.put(job)

    def run_here(self, job: WriteJob) -> bool:
        """Run a job in the calling thread if no other job waits or runs.

        Returns False if nothing was done. The job waits neither for another program's lock nor for
        a checkpoint.
        """
        if self._here >= HERE_LIMIT or not self._queue.empty():
            return False
        if not self._turn.acquire(blocking=False):
            return False
        try:
            self._here += 1
            self._patience.lose()
            self._commit([job], here=True)
        finally:
            self._turn.release()
        return not isinstance(job.error, StoreLocked)

    def stop(self) -> None:
        """Finish the queued jobs, then end the thread. Blocks until the thread has ended."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        more = True
        while more:
            jobs, more = self._take()
            for group in _groups(jobs):
                self._run_group(group)
                _settle(group)

    def _run_group(self, group: Sequence[WriteJob]) -> None:
        with self._turn:
            self._here = 0
            self._patience.regain()
            if group[0].alone:
                run_alone(self._conn, group[0])
            else:
                self._commit(group, here=False)

    def _commit(self, jobs: Sequence[WriteJob], *, here: bool) -> None:
        committed = commit_together(self._conn, jobs)
        for job in jobs:
            if isinstance(job.error, StoreFull):
                self.full = str(job.error)
        if not committed:
            return
        for call in self.after_commit:
            with Capture() as caught:
                call(self._conn, here)
            _roll_back(self._conn)
            if caught.error is not None:
                _fail_all(jobs, caught.error)

    def _take(self) -> tuple[list[WriteJob], bool]:
        """Wait for one job, then take further queued jobs up to the limit of a group."""
        jobs: list[WriteJob] = []
        while len(jobs) < self._group_limit:
            try:
                job = self._queue.get(block=not jobs)
            except queue.Empty:
                break
            if job is None:
                return jobs, False
            if not job.future.cancelled():
                jobs.append(job)
        return jobs, True


def _groups(jobs: Sequence[WriteJob]) -> list[list[WriteJob]]:
    """Group neighbouring jobs that may share a transaction.

    A job that runs alone is its own group.
    """
    groups: list[list[WriteJob]] = []
    for job in jobs:
        if groups and not job.alone and not groups[-1][0].alone:
            groups[-1].append(job)
        else:
            groups.append([job])
    return groups


def run_alone(conn: sqlite3.Connection, job: WriteJob) -> None:
    """Run a job outside any transaction: VACUUM, a checkpoint, or a read of a store in memory."""
    job.run(conn)
    _roll_back(conn)


def commit_together(conn: sqlite3.Connection, jobs: Sequence[WriteJob]) -> bool:
    """Run jobs in one transaction. Return whether it was committed.

    If a job raises, only its own changes are undone. If the commit fails, all jobs fail.
    """
    is_ending = False
    with Capture() as shared:
        conn.execute("BEGIN IMMEDIATE")
        for job in jobs:
            _run_one(conn, job, savepoint=len(jobs) > 1)
        is_ending = conn.in_transaction
        if is_ending:
            conn.execute("COMMIT")
    _roll_back(conn)
    if shared.error is not None:
        if is_ending:
            _overwrite_lost_commit(conn)
        _fail_all(jobs, shared.error)
    return shared.error is None


def _overwrite_lost_commit(conn: sqlite3.Connection) -> None:
    """Overwrite a failed commit with an empty one before the error is raised.

    If only the last step of a commit fails, such as the sync, the log may contain the whole commit.
    SQLite ignores it in this process, and the next commit overwrites it. But after a kill, the next
    process would read it, and refused changes would be stored.

    One frame is enough, even without a sync, because the checksum of each frame depends on the
    frame before it.
    """
    with Capture():
        version = _pragma(conn, "user_version")
        conn.execute("BEGIN IMMEDIATE")
        conn.execute(f"PRAGMA user_version = {version}")
        conn.execute("COMMIT")
    _roll_back(conn)


def _run_one(conn: sqlite3.Connection, job: WriteJob, *, savepoint: bool) -> None:
    if savepoint:
        conn.execute("SAVEPOINT job")
    job.run(conn)
    if not conn.in_transaction:  # SQLite undoes the whole transaction on a full disk
        raise job.error or StoreError("a write ended the transaction that it shares")
    if not savepoint:
        if job.error is not None:
            conn.execute("ROLLBACK")
        return
    if job.error is not None:
        conn.execute("ROLLBACK TO job")
    conn.execute("RELEASE job")


def _roll_back(conn: sqlite3.Connection) -> None:
    """Leave no transaction open. Ignores errors here, because they follow from an earlier error."""
    with Capture():
        if conn.in_transaction:
            conn.execute("ROLLBACK")


def _fail_all(jobs: Sequence[WriteJob], lost: BaseException) -> None:
    """Fail all jobs of a lost transaction.

    No caller may assume that its changes are stored.
    """
    for job in jobs:
        if job.error is None:
            job.error = _copy(lost)


def _copy(error: BaseException) -> BaseException:
    """Return a copy for each caller, because callers would share the traceback of one exception."""
    if not isinstance(error, StoreError):
        return error
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy


def _settle(jobs: Sequence[WriteJob]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[WriteJob]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_here, group)
        except RuntimeError:
            continue  # the loop is closed, so no caller waits


def _settle_here(jobs: Sequence[WriteJob]) -> None:
    for job in jobs:
        job.settle()
