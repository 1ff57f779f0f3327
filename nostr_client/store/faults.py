"""SQLite's errors as the store's own, by result code; the original stays as `__cause__`."""

from __future__ import annotations

import errno
import os
import sqlite3
from typing import TYPE_CHECKING, Self

from nostr_client.errors import StoreCorrupt, StoreError, StoreFull, StoreLocked, clip

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType


_FULL = frozenset({sqlite3.SQLITE_FULL})
_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NO_RIGHT = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM})
_WRITE_FAILED = frozenset({sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_TRUNCATE})


def opening_error(path: Path, error: sqlite3.Error | UnicodeDecodeError) -> StoreError:
    """The store's error for one of SQLite's on the first look into a file, with what is in the way.

    The error is a UnicodeDecodeError where SQLite quotes a damaged schema that is no text.

    A folder that cannot be written is not read as `immutable`: another process could write it
    meanwhile, and what is read would be wrong without an error.
    """
    if isinstance(error, UnicodeDecodeError):
        return StoreCorrupt(f"not a store, or a damaged one ({path}: its schema is no text)")
    found = store_error(error)
    if type(found) is not StoreError:
        return found
    folder = path.resolve().parent
    if not may(path, os.R_OK):
        return StoreError(f"cannot open {path}: it may not be read")
    if not may(folder, os.W_OK):
        why = f"readers too write beside it (-wal, -shm), and {folder} cannot be written"
        return StoreError(f"cannot open {path}: {why}; copy it to a folder that can")
    return StoreError(f"cannot open {path}: {found}")


def making_error(path: Path, error: OSError) -> StoreError:
    """The store's error for a file that cannot be made or opened, with what its folder forbids."""
    folder = path.parent
    if not folder.exists():
        why = f"there is no folder {folder}"
    elif not folder.is_dir():
        why = f"{folder} is no folder"
    elif path.exists() or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreError(f"cannot open {path}: {error.strerror or error}")
    else:
        why = f"no file can be made in the folder {folder} ({error.strerror})"
    return StoreError(f"cannot make {path}: {why}")


def may(path: Path, mode: int) -> bool:
    """Whether this process may read, write or enter a path, as os.access takes it."""
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def store_error(error: sqlite3.Error) -> StoreError:
    """The store's error for one of SQLite's; raise it `from` the original.

    A refused write is StoreFull: SQLite reports "quota" and "file size limit" by a generic write
    error, and nearly every refused write is one of those two.
    """
    code = getattr(error, "sqlite_errorcode", None)
    text = clip(str(error))
    if code is None:
        return StoreError(text)
    if code & 0xFF in _FULL:
        return StoreFull(f"no room left for the store ({text}); nothing acknowledged is lost")
    if code in _WRITE_FAILED:
        return StoreFull(f"the disk refused a write: quota, file size limit or a fault ({text})")
    if code & 0xFF in _CORRUPT:
        return StoreCorrupt(f"not a store, or a damaged one ({text})")
    if code & 0xFF in _BUSY:
        return StoreLocked(f"another program holds the store's file ({text})")
    if code & 0xFF in _NO_RIGHT:
        why = "the store's file or folder cannot be written; reading needs the folder too"
        return StoreError(f"{why} ({text})")
    return StoreError(text)


class Capture:
    """Ends the block at its first error and keeps it as `error`, SQLite's ones wrapped.

    A thread that runs other people's functions must outlive what they raise, and the one that
    asked is the one that must see it.
    """

    error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.error = _wrapped(error)
        return True


def _wrapped(error: BaseException | None) -> BaseException | None:
    if isinstance(error, sqlite3.Error):
        wrapped: Exception = store_error(error)
    elif isinstance(error, StopIteration):
        wrapped = RuntimeError("a store function raised StopIteration")  # no future may carry it
    else:
        return error
    wrapped.__cause__ = error
    return wrapped
