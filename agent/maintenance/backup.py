"""Copies a store by SQLite's online backup beside a running agent, and checks the copy.

A backup has its SHA-256 sum beside it, in `<backup>.sha256` as `sha256sum -c` reads it. A restore
compares it, then checks what it copied by every page, id, signature and index row, and by the
store's own rules.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import itertools
import os
import re
import secrets
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

from agent.reindex.tempdir import flush
from nostr_client.counters.engine.read import check_sums
from nostr_client.counters.engine.served import begin_run
from nostr_client.errors import (
    InvalidInput,
    SchemaTooOld,
    StoreCorrupt,
    StoreError,
    StoreLocked,
)
from nostr_client.paths import check_free, new_file, part_of
from nostr_client.store.base import DifferenceLog
from nostr_client.store.file.connect import (
    WriterLock,
    check_file,
    create_private,
    lock_path,
    make_folder,
)
from nostr_client.store.file.faults import making_error, opening_error, store_error
from nostr_client.store.file.migrate import APPLICATION_ID, check_current
from nostr_client.store.fingerprint_tables import FINGERPRINTS
from nostr_client.store.maintain import has_search
from nostr_client.store.query.search import add_functions, check_words
from nostr_client.store.rows import TagHasher
from nostr_client.store.schema import STORE
from nostr_client.store.sqlite import read_hash_key
from nostr_client.store.sync_memory import SYNC
from nostr_client.store.verify import StoreVerifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

PAGES: Final = 2048
"""Pages copied in one step, 8 MB: the writer works between two steps."""


def back_up(store: Path, target: Path, progress: Callable[[int, int], None]) -> int:
    """Copy a store into a new file and check the copy; its bytes.

    Works beside the process that writes. `progress` gets the pages done and the pages in all. The
    target appears whole, or not at all; its sum appears just before it. Nothing that exists is
    replaced. Raises InvalidInput if the target or its sum exists, StoreError.
    """
    with new_file(target) as part:
        check_free(sum_path(target))
        _make(part, target)
        _copy(store, part, progress, named=target)
        check(part, named=store)
        flush(part)
        check_free(target)
        _write_sum(part, target)
    _sync_folder(target)
    return target.stat().st_size


class Restored(NamedTuple):
    """The bytes of a restored store, and the path of the store that it replaced."""

    bytes: int
    kept: Path | None


def restore(backup: Path, store: Path, *, force: bool, sums: bool = True) -> Restored:
    """Replace a store that no process has open by a checked backup.

    Raises StoreLocked when another process writes or reads the store, with its id where the system
    shows it; InvalidInput when a store is there and not `force`; StoreCorrupt for a backup that is
    not whole, or not the one that was made. What was there is kept as `<store>.before`, or
    `.before.1` and so on: what was kept earlier stays. `sums`: False for a backup of an earlier
    version, which has no sum.
    """
    check_file(backup)
    if sums:
        check_sum(backup)
    check_file(store)
    if store.is_symlink():
        store = store.resolve()  # the link stays, and names the new store
    _check_replaceable(store, force=force)
    make_folder(store)
    is_new = not store.exists() and not lock_path(store).exists()
    lock = WriterLock(store)
    try:
        _check_replaceable(store, force=force)
        _check_alone(store)
        with part_of(store) as part:
            _make(part, store)
            _copy(backup, part, lambda done, of: None, named=store)
            check(part, named=backup)
            if sums:
                check_sum(backup)  # it is the file that was copied
            _begin_run(part, named=store)
            flush(part)
            kept = _put_in_place(part, store)
    finally:
        if is_new and not store.exists():
            lock_path(store).unlink(missing_ok=True)  # nothing is there that it could protect
        lock.release()
    return Restored(store.stat().st_size, kept if kept.exists() else None)


def _check_replaceable(store: Path, *, force: bool) -> None:
    if store.exists() and not force:
        raise InvalidInput(f"{store} is there; --force keeps it as {_free(store).name}")


def sum_path(backup: Path) -> Path:
    """The path of a backup's sum."""
    return _beside(backup, ".sha256")


def check_sum(backup: Path) -> None:
    """Raise StoreCorrupt unless a backup is what its sum says, InvalidInput where it has none."""
    path = sum_path(backup)
    try:
        text = path.read_text("utf-8")
        found = _sum(backup)
    except FileNotFoundError as error:
        raise InvalidInput(
            f"{error.filename} is missing; --without-sum restores a backup of an earlier version"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise StoreCorrupt(f"{path} cannot be read: {error}") from error
    written = _SUM.fullmatch(text)
    if written is None or written[1] != found:
        raise StoreCorrupt(f"{backup} is not what was backed up: its SHA-256 is {found}")


_SUM: Final = re.compile(r"([0-9a-f]{64}) [ *][^\n]+\n")
"""One line as `sha256sum` writes it; the name may be another, as a backup may be renamed."""


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_sum(part: Path, target: Path) -> None:
    """Write the sum and sync it to the disk."""
    place = sum_path(target)
    try:
        with new_file(place) as new:
            create_private(new)
            new.write_text(f"{_sum(part)}  {target.name}\n", "utf-8")
            flush(new)
    except OSError as error:
        raise StoreError(f"cannot write {place}: {error.strerror or error}") from error


def check(path: Path, *, named: Path | None = None) -> None:
    """Raise StoreCorrupt unless a file is a whole store of ours, StoreError if unreadable.

    Every page, index, id, signature and derived row is checked, then the store's own rules: which
    events may be held, what blocks them, sums of counters, fingerprints. The file is the caller's
    alone. About 95 s per million events. Errors name the file `named`, of which this is the copy.
    """
    check_file(path)
    shown = named or path
    try:
        with closing(_open(path, "rw")) as conn:
            (mark,) = conn.execute("PRAGMA application_id").fetchone()
            if mark != APPLICATION_ID:
                raise StoreCorrupt(f"{shown} is no store of ours")
            add_functions(conn)
            hasher = TagHasher(read_hash_key(conn))
            conn.execute("BEGIN")
            report = StoreVerifier(conn, hasher).run()
            causes = [problem.what for problem in report.problems] or _other_causes(conn)
            conn.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        raise StoreError(f"{shown}: {error}") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise StoreCorrupt(f"{shown} is damaged: {error}") from error
    if causes:
        causes_shown = "; ".join(list(dict.fromkeys(causes))[:_CAUSES])
        raise StoreCorrupt(f"{shown} is damaged: {causes_shown}")


_CAUSES: Final = 5
"""Causes that the error of a damaged store names."""


def _other_causes(conn: sqlite3.Connection) -> list[str]:
    """Further faults, if pages, events and derived rows are whole: records, words, sums."""
    try:
        check_current(conn, (STORE, SYNC, FINGERPRINTS))
    except SchemaTooOld as error:  # the version record of an existing schema
        return [str(error)]
    if has_search(conn):
        check_words(conn)
    found = DifferenceLog()
    check_sums(conn, found)
    return [one.text for one in found.kept]


def _copy(source: Path, target: Path, progress: Callable[[int, int], None], *, named: Path) -> None:
    """A page by page copy that is one snapshot; begun again by SQLite when the source changes.

    Errors name the file `named`, which the copy becomes.
    """
    if not source.exists():
        raise StoreError(f"no store at {source}")
    check_file(source)
    with _pinned(source) as old:
        try:
            with closing(_open(target, "rwc")) as new:
                old.backup(new, pages=PAGES, progress=lambda _, left, of: progress(of - left, of))
                new.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            raise StoreError(f"cannot copy {source} to {named}: {error}") from error


def _make(part: Path, target: Path) -> None:
    """Create an empty file, so that an error of its folder names the folder, not the source."""
    try:
        create_private(part)
    except OSError as error:
        raise making_error(target, error) from error


@contextlib.contextmanager
def _pinned(source: Path) -> Iterator[sqlite3.Connection]:
    """A store as it is now, whatever is written meanwhile."""
    try:
        old = _open(source, "ro")
    except sqlite3.Error as error:
        raise opening_error(source, error) from error
    with closing(old):
        try:
            old.execute("BEGIN")
            old.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise opening_error(source, error) from error
        yield old


def _begin_run(part: Path, *, named: Path) -> None:
    """Let agents that source its counters see that this store is an older one."""
    try:
        with closing(_open(part, "rw")) as conn:
            conn.execute("BEGIN IMMEDIATE")
            if conn.execute(_HAS_RUNS).fetchone() is not None:
                begin_run(conn, f"restored-{secrets.token_hex(6)}", time.time_ns())
            conn.execute("COMMIT")
    except sqlite3.Error as error:
        raise StoreError(f"cannot write {named}: {error}") from error


_HAS_RUNS: Final = "SELECT 1 FROM sqlite_schema WHERE name = 'counter_run'"


def _open(path: Path, mode: str, wait_s: float = 10.0) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=wait_s, isolation_level=None
    )


def _put_in_place(part: Path, store: Path) -> Path:
    """Replace the store by one rename, so that at each moment the old or the new one is there.

    The old store gets a second name. Its log is folded into it first: SQLite would read an old log
    into the new store, and a removed one would take the newest commits with it. The derived
    tables go too, as they say of which generation and not of which store they are.
    """
    _check_alone(store, fold_log=True)
    for old in store.parent.glob(f"{glob.escape(store.stem)}.index-*.db*"):
        old.unlink(missing_ok=True)
    kept = _free(store)
    names = [(_beside(store, suffix), _beside(kept, suffix)) for suffix in _FILES]
    try:
        for old, new in names:
            if old.exists():
                _name_again(old, new)
        for old, _ in names[1:]:
            old.unlink(missing_ok=True)
        part.replace(store)
    except OSError as error:
        _take_back(names)
        raise StoreError(f"cannot put {store} in its place: {error.strerror or error}") from error
    _sync_folder(store)
    return kept


READERS_S: Final = 2.0
"""Seconds that a restore waits for readers of the store to end."""


def _check_alone(store: Path, *, fold_log: bool = False) -> None:
    """Raise StoreLocked if another connection has a store open, StoreError if it cannot be opened.

    `fold_log`: move the commits of the log into the file itself. A damaged store keeps its log.
    """
    if not store.exists():
        return
    try:
        with closing(_open(store, "rw", READERS_S)) as conn:
            # SQLite then needs the file for itself; a reader of a log holds it while it is open.
            conn.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
            conn.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if fold_log:
                conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except UnicodeDecodeError:  # SQLite quotes a damaged schema
        return
    except sqlite3.Error as error:
        found = store_error(error)
        if isinstance(found, StoreLocked):
            raise _read_by(_process_with(store), store) from error
        if not isinstance(found, StoreCorrupt):
            raise StoreError(f"cannot put away {store}: {found}") from error


def _read_by(pid: int | None, store: Path) -> StoreLocked:
    who = "another process" if pid is None else f"process {pid}"
    return StoreLocked(f"{store} is being read by {who}", pid=pid)


def _process_with(file: Path) -> int | None:
    """Another process that has a file open, where the system shows that (Linux)."""
    real = str(file.resolve())
    for entry in glob.glob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            pid = int(entry.split("/")[2])
            if os.readlink(entry) == real and pid != os.getpid():
                return pid
    return None


def _name_again(old: Path, new: Path) -> None:
    """A second name for a file; a file system without links has it moved."""
    try:
        os.link(old, new)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        old.replace(new)


_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


def _take_back(names: Sequence[tuple[Path, Path]]) -> None:
    """Give a store its own names again."""
    for old, new in names:
        with contextlib.suppress(OSError):
            if old.exists():
                new.unlink(missing_ok=True)
            elif new.exists():
                new.replace(old)


def _sync_folder(path: Path) -> None:
    """Bring a file's name to the disk, where the system can."""
    with contextlib.suppress(OSError):
        flush(path.parent)


def _free(store: Path) -> Path:
    """A free name for the store that is replaced."""
    names = (f".before.{n}" if n else ".before" for n in itertools.count())
    kept = (_beside(store, name) for name in names)
    return next(one for one in kept if not any(_beside(one, s).exists() for s in _FILES))


_FILES: Final = ("", "-wal", "-shm")


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
