"""Convert SQLite's errors to the store's errors by result code.

The original error stays as `__cause__`.
"""

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
    """Return the store's error for an error of SQLite during the first read of a file.

    The error is a UnicodeDecodeError if SQLite quotes a damaged schema that is no text.

    The store does not use SQLite's `immutable` mode for a folder that cannot be written. Another
    process could write the file meanwhile, and the reads would be wrong without an error.
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
    """Return the store's error for a file that cannot be created or opened.

    The error says what the folder does not allow.
    """
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
    """Return whether this process may access a path. `mode` is that of os.access."""
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def store_error(error: sqlite3.Error) -> StoreError:
    """Return the store's error for an error of SQLite. Raise it `from` the original.

    A refused write becomes StoreFull. SQLite reports a quota and a file size limit as a generic
    write error, and nearly every refused write is one of these two.
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
    """Context manager that ends the block at its first error and keeps the error as `error`.

    SQLite's errors become the store's errors. A thread that runs functions of other modules must
    survive their errors. The caller of the function must get the error.
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
        wrapped = RuntimeError("a store function raised StopIteration")  # a future cannot carry it
    else:
        return error
    wrapped.__cause__ = error
    return wrapped
