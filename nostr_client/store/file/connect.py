"""Open SQLite connections with the settings of the store."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from nostr_client.errors import StoreError, StoreLocked
from nostr_client.store.file.faults import making_error, may, opening_error, store_error
from nostr_client.store.file.migrate import check_current, migrate
from nostr_client.store.file.readers import reattach
from nostr_client.store.query.search import add_functions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.store.file.migrate import Schema
    from nostr_client.store.options import StoreOptions


def _same(value: bytes | None) -> bytes | None:
    return value


for _type in (bytes, type(None)):
    # The module looks for an adapter of every such value, which takes as long as to bind four.
    if (_type, sqlite3.PrepareProtocol) not in sqlite3.adapters:
        sqlite3.register_adapter(_type, _same)

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30
    """Offset of the locked byte, far behind the pid.

    msvcrt also blocks reads of the locked byte.
    """

    def _try_lock(fd: int) -> None:
        os.lseek(fd, _FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        os.lseek(fd, 0, os.SEEK_SET)
else:
    import fcntl

    def _try_lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_path(database: Path) -> Path:
    """Return the path of a database's lock file: `<file>.lock`, with links resolved."""
    real = database.resolve()
    return real.with_name(real.name + ".lock")


class WriterLock:
    """Advisory lock that ends with its process, so a kill -9 never leaves the lock behind.

    Raises StoreLocked with the holder's pid if another process, or another Database of this
    process, has the lock. Raises StoreError if the folder cannot be written.

    Every program that can read the lock file can hold the lock. A new lock file is therefore
    readable only by those who can read the database.
    """

    def __init__(self, database: Path) -> None:
        self._path = lock_path(database)
        try:
            mode = database.stat().st_mode & 0o666 if database.exists() else 0o600
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
        except OSError as error:
            raise making_error(self._path, error) from error
        try:
            _try_lock(self._fd)
        except OSError as error:
            pid = _holder(self._fd)
            os.close(self._fd)
            raise StoreLocked(_message(database, pid), pid=pid) from error
        with suppress(OSError):  # the lock holds, but on a full disk the file names no holder
            os.ftruncate(self._fd, 0)
            os.write(self._fd, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Release the lock.

        The file stays, because its removal would race with the next holder.
        """
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _holder(fd: int) -> int | None:
    text = os.pread(fd, 32, 0) if hasattr(os, "pread") else os.read(fd, 32)
    digits = text.strip()
    return int(digits) if digits.isdigit() else None


def _message(database: Path, pid: int | None) -> str:
    who = f"process {pid}" if pid is not None else "another process"
    return f"{database} is being written by {who}"


_WAL_LIMIT = 64 * 1024 * 1024
"""Bytes that the log file keeps after a checkpoint. SQLite returns the other bytes to the disk."""


@dataclass(frozen=True, slots=True)
class DatabaseConnections:
    """Connections of one database. Without readers, the writer's connection also reads."""

    writer: sqlite3.Connection | None
    readers: tuple[sqlite3.Connection, ...] = ()
    here: sqlite3.Connection | None = None
    """Reader that never waits for a lock. It serves reads that run without a thread."""
    lock: WriterLock | None = None


def open_memory(migrations: Sequence[Schema], options: StoreOptions) -> DatabaseConnections:
    """Open a database in memory, which exists as long as its one connection."""
    with ExitStack() as undo:
        conn = _connect(":memory:", options, undo)
        _migrate(conn, migrations)
        undo.pop_all()
        return DatabaseConnections(conn)


def open_file(
    path: Path, migrations: Sequence[Schema], options: StoreOptions
) -> DatabaseConnections:
    """Lock a file, create or migrate it, and open readers beside the writer."""
    check_file(path)
    with ExitStack() as undo:
        make_folder(path)
        lock = WriterLock(path)
        undo.callback(lock.release)
        make_private(path)
        writer = _connect(file_uri(path, "rwc"), options, undo)
        _set_up_writer(writer, options)
        _migrate(writer, migrations)
        readers = tuple(_reader(path, "rw", options, undo) for _ in range(options.readers))
        here = _impatient(_reader(path, "rw", options, undo))
        undo.pop_all()
        return DatabaseConnections(writer, readers, here, lock)


def open_read_only(
    path: Path, migrations: Sequence[Schema], options: StoreOptions
) -> DatabaseConnections:
    """Open readers only, also while another process writes.

    Raises StoreError if the file does not exist.
    """
    check_file(path)
    if not path.exists() or not path.stat().st_size:
        raise StoreError(f"no store at {path}")
    with ExitStack() as undo:
        readers = tuple(_reader(path, "ro", options, undo) for _ in range(options.readers))
        try:
            check_current(readers[0], migrations)
        except sqlite3.Error as error:
            raise opening_error(path, error) from error
        here = _impatient(_reader(path, "ro", options, undo))
        undo.pop_all()
        return DatabaseConnections(None, readers, here)


def attach_writer(conn: sqlite3.Connection, alias: str, has: dict[str, str], target: str) -> None:
    """Attach a database for writing, in WAL mode.

    If SQLite refuses, restore the database that had the alias before, and raise sqlite3.Error.
    """
    if target.startswith("file:"):
        make_private(_file(target))
    try:
        reattach(conn, has, {alias: target})
        conn.execute(f"PRAGMA {alias}.journal_mode = WAL").fetchall()
        conn.execute(f"PRAGMA {alias}.synchronous = NORMAL")
    except sqlite3.Error:
        _put_back(conn, alias, has.get(alias))
        raise


def _put_back(conn: sqlite3.Connection, alias: str, before: str | None) -> None:
    if any(name == alias for _, name, _ in conn.execute("PRAGMA database_list").fetchall()):
        conn.execute(f"DETACH {alias}")
    if before is not None:
        conn.execute(f"ATTACH ? AS {alias}", (before,))


def check_file(path: Path) -> None:
    """Raise StoreError if the path is a folder or a device.

    SQLite's own message does not name the cause. Without this check, the writer's lock file would
    appear beside the folder or device.
    """
    if path.exists() and not path.is_file():
        raise StoreError(f"cannot open {path}: it is no file")


def check_place(path: Path) -> None:
    """Raise StoreError if no store can exist or be created at the path.

    Creates nothing.
    """
    check_file(path)
    folder = path.resolve().parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise StoreError(f"cannot make the store's folder: {folder} is no folder")
    if not may(folder, os.W_OK | os.X_OK):
        raise StoreError(f"the folder {folder} cannot be written: a store has files beside it")
    if path.exists() and not may(path, os.R_OK | os.W_OK):
        raise StoreError(f"{path} cannot be read and written")


def make_private(path: Path) -> None:
    """Create a missing file with access for its owner only.

    A file that SQLite creates could be readable by others. SQLite gives the files beside a database
    the mode of the database.

    An existing file keeps its mode. The function does not open an existing file, because closing it
    would release this process's locks on it.
    """
    if not path.exists():
        with suppress(OSError):  # SQLite then reports the cause
            create_private(path)


def create_private(path: Path) -> None:
    """Create an empty file with access for its owner only.

    An existing file stays as it is. Raises OSError.
    """
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def file_uri(path: Path, mode: str) -> str:
    """Return the path as SQLite's URI, with special characters escaped.

    `mode` is ro, rw or rwc.
    """
    return f"{path.absolute().as_uri()}?mode={mode}"


def make_folder(path: Path) -> None:
    """Create the folder of a store. Raises StoreError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot make the store's folder: {error.filename}: {error.strerror}"
        ) from error


def _connect(target: str, options: StoreOptions, undo: ExitStack) -> sqlite3.Connection:
    try:
        conn = sqlite3.connect(
            target,
            timeout=options.busy_timeout_s,
            isolation_level=None,  # only our code begins and ends transactions
            check_same_thread=False,  # opened here, then used by one thread at a time
            cached_statements=512,
            uri=True,
        )
        undo.callback(conn.close)
        conn.execute(f"PRAGMA cache_size = {-1024 * options.cache_mb}")
        conn.execute("PRAGMA temp_store = MEMORY")
        conn.execute("PRAGMA trusted_schema = OFF")
        add_functions(conn)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise opening_error(_file(target), error) from error
    return conn


def _file(target: str) -> Path:
    """Return the path in a URI of `file_uri`."""
    return Path(unquote(urlsplit(target).path) or target)


def _set_up_writer(conn: sqlite3.Connection, options: StoreOptions) -> None:
    try:
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute(f"PRAGMA synchronous = {options.synchronous.upper()}")
        conn.execute(f"PRAGMA wal_autocheckpoint = {options.wal_autocheckpoint}")
        conn.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT}")
        if options.max_page_count is not None:
            conn.execute(f"PRAGMA max_page_count = {options.max_page_count}")
    except sqlite3.Error as error:
        raise store_error(error) from error


def _migrate(conn: sqlite3.Connection, migrations: Sequence[Schema]) -> None:
    try:
        migrate(conn, migrations)
    except sqlite3.Error as error:
        raise store_error(error) from error


def _impatient(conn: sqlite3.Connection) -> sqlite3.Connection:
    conn.execute("PRAGMA busy_timeout = 0").fetchall()
    return conn


def _reader(path: Path, mode: str, options: StoreOptions, undo: ExitStack) -> sqlite3.Connection:
    conn = _connect(file_uri(path, mode), options, undo)
    try:
        conn.execute(f"PRAGMA cache_size = {-1024 * options.reader_cache_mb}")
        conn.execute("PRAGMA query_only = 1")
    except sqlite3.Error as error:
        raise store_error(error) from error
    return conn
