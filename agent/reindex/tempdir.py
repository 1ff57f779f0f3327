"""Makes temporary folders, removed with their process or after it.

The next process of its kind removes what a killed process left.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nostr_client.errors import StoreError, StoreLocked
from nostr_client.store.file.connect import WriterLock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

PREFIX: Final = "scratch-"
TRIES: Final = 10


@contextmanager
def scratch(parent: Path, prefix: str = PREFIX) -> Iterator[Path]:
    """A new folder in `parent`, removed after the block; those of dead processes are removed first.

    `prefix`: the beginning of the names of this kind of folder.

    Raises StoreError where nothing can be written.
    """
    parent.mkdir(parents=True, exist_ok=True)
    leftovers(parent, prefix)
    folder, lock = _owned(parent, prefix)
    try:
        yield folder
    finally:
        lock.release()
        shutil.rmtree(folder, ignore_errors=True)


def temporary(prefix: str) -> AbstractContextManager[Path]:
    """The same among the system's temporary files."""
    return scratch(Path(tempfile.gettempdir()), prefix)


def leftovers(parent: Path, prefix: str = PREFIX) -> None:
    """Remove the folders in `parent` whose owners are dead: a lock dies with its process."""
    for folder in parent.glob(f"{prefix}*"):
        if not _is_own(folder):
            continue
        try:
            lock = _lock(folder)
        except StoreError:
            continue  # its owner lives, or another start removes it
        lock.release()
        shutil.rmtree(folder, ignore_errors=True)


def _is_own(folder: Path) -> bool:
    """Whether it is a folder of this user: among temporary files another one may lay a trap, such
    as a link to what a lock would empty."""
    try:
        about = folder.lstat()
    except OSError:
        return False
    mine = sys.platform == "win32" or about.st_uid == os.geteuid()
    return mine and stat.S_ISDIR(about.st_mode)


def _owned(parent: Path, prefix: str) -> tuple[Path, WriterLock]:
    """A folder and its lock; another start may take a folder for dead before it is locked."""
    for _ in range(TRIES):
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            return folder, _lock(folder)
        except StoreLocked:
            continue
        except StoreError:
            if folder.exists():
                raise
    raise StoreError(f"no folder of {parent} could be locked")


def _lock(folder: Path) -> WriterLock:
    return WriterLock(folder / "owner")


def flush(path: Path) -> None:
    """Have the disk hold what was written to a file, or to a folder's list of names."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
