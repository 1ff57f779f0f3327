"""A folder for what a rebuild needs only while it lives: it goes with it, or at the next start."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nostr_client.errors import StoreError, StoreLocked
from nostr_client.store.lock import WriterLock

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX: Final = "scratch-"
TRIES: Final = 10


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A new folder in `parent`, gone after the block; those of processes that died go first.

    Raises StoreError where nothing can be written.
    """
    parent.mkdir(parents=True, exist_ok=True)
    leftovers(parent)
    folder, lock = _owned(parent)
    try:
        yield folder
    finally:
        lock.release()
        shutil.rmtree(folder, ignore_errors=True)


def leftovers(parent: Path) -> None:
    """Remove the folders in `parent` whose owners are dead: a lock dies with its process."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            lock = _lock(folder)
        except StoreError:
            continue  # its owner lives, or another start removes it
        lock.release()
        shutil.rmtree(folder, ignore_errors=True)


def _owned(parent: Path) -> tuple[Path, WriterLock]:
    """A folder and its lock; another start may take a folder for dead before it is locked."""
    for _ in range(TRIES):
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
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
