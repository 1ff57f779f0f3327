"""The files of an index beside its store: one for each generation, of which one counts."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from nostr_client.errors import StoreError
from nostr_client.store.connect import make_private

if TYPE_CHECKING:
    from pathlib import Path


def file_of(store: Path | None, generation: int) -> Path | None:
    """The file of a generation; None for a store in memory."""
    return None if store is None else store.with_name(f"{store.stem}.index-{generation}.db")


def put(built: Path, place: Path) -> None:
    """Copy a file that was built elsewhere to a generation's place. Raises StoreError."""
    delete(place)  # a log that an interrupted exchange left would be read into the new file
    try:
        make_private(place)
        shutil.copyfile(built, place)
    except OSError as error:
        delete(place)
        raise StoreError(f"the index cannot be taken over: {error}") from error


def delete(place: Path) -> None:
    """Remove a generation's file and its log."""
    for suffix in ("", "-wal", "-shm"):
        place.with_name(place.name + suffix).unlink(missing_ok=True)


def delete_others(store: Path, generation: int) -> None:
    """Remove what interrupted exchanges left: every generation but one. For the one who writes."""
    wanted = re.compile(re.escape(store.stem) + r"\.index-([0-9]+)\.db")
    for place in list(store.parent.iterdir()):
        found = wanted.fullmatch(place.name)
        if found and int(found[1]) != generation:
            delete(place)
