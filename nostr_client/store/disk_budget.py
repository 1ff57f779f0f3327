"""The disk budget of a store: at its limit events are refused, and all else goes on.

Two limits hold: the size of the store's files, without the pages that removed events left free, and
the free space of their file system, which other programs need too. The logs beside the files, of
some 40 MB, are not counted: SQLite uses them again rather than give them back. Events that are
saved together go in together or not at all, and near a limit only where they fit below it. What was
refused can be sent again: a store takes events as soon as there is room.
"""

from __future__ import annotations

import asyncio
import glob
import shutil
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.errors import StoreFull

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from nostr_client.codecs.event import Event
    from nostr_client.store.database import Database
    from nostr_client.store.options import StoreOptions

CHECK_S: Final = 1.0
"""Seconds that a measurement counts: a store takes some 20 MB in one."""

MARGIN: Final = 0.05
"""Share of a limit that has to be there again before events are taken: no stopping each second."""

NEAR: Final = 128 * 1024 * 1024
"""Bytes that are left from which each save is weighed: what a second and a batch of 32 MiB take."""

SAVE_BYTES: Final = 64 * 1024
"""Of one save: pages of tables and indexes that are split."""

EVENT_BYTES: Final = 350
"""Of an event's row without content and tags: id, key, signature, and its place in indexes."""

TAG_BYTES: Final = 16
"""Of a tag in its event's row beside its text."""

INDEXED_BYTES: Final = 60
"""Of a tag in the tag index, of which pages are two thirds full."""

PAGE: Final = 4096
"""Bytes of a page of the file."""

ROUNDING: Final = 1024
"""Bytes that pages of a row's own leave empty, on average."""

FREE_SHARE: Final = 0.01
"""Of a small file system no more than this share is left free, whatever the option says."""


class Space(msgspec.Struct, frozen=True):
    """What a store uses of its disk, in bytes; None: not limited, or not known."""

    used: int
    most: int | None
    free: int | None
    least_free: int

    @property
    def left(self) -> int | None:
        """Bytes until events are refused; None without a limit."""
        of_size = None if self.most is None else self.most - self.used
        of_disk = None if self.free is None else self.free - self.least_free
        known = [one for one in (of_size, of_disk) if one is not None]
        return max(0, min(known)) if known else None

    def refusal(self, margin: float = 0.0) -> str:
        """Why no event is taken, or "". `margin`: the share of a limit that is asked for too."""
        if self.most is not None and self.used > self.most * (1 - margin):
            return f"the store has {_mb(self.used)} MB of the {_mb(self.most)} MB that it may have"
        if self.free is not None and self.free < self.least_free * (1 + margin):
            left = f"{_mb(self.free)} MB are free on its disk"
            return f"{left}, and {_mb(self.least_free)} MB are left to other programs"
        return ""


def on_disk(event: Event) -> int:
    """About how many bytes a store grows by an event: not less than it does.

    Rows of up to half a page share one, larger ones have pages of their own.
    """
    text = event.content if event.content.isascii() else event.content.encode()
    tags = sum(TAG_BYTES + sum(map(len, tag)) for tag in event.tags)
    row = EVENT_BYTES + len(text) + tags
    taken = PAGE // (PAGE // row) if row <= PAGE // 2 else max(PAGE, row + ROUNDING)
    return taken + INDEXED_BYTES * (1 + len(event.tags))


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f}" if size >= 100_000 else f"{size / 1e6:,.3f}"


_NO_ROOM: Final = "no room left for events"


class DiskBudget:
    """Measures at most once in CHECK_S; `full` is why events are refused now, or ""."""

    def __init__(
        self,
        database: Database,
        options: StoreOptions,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.full = ""
        self.space: Space | None = None
        """The newest measurement; None before the first, and for a store in memory."""
        self._database = database
        self._options = options
        self._now = now
        self._next = float("-inf")
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def reserved(self, events: Sequence[Event]) -> AsyncIterator[None]:
        """A block in which events are saved; raises StoreFull where they find no room.

        Near a limit one block runs after the other, so that each is weighed against what is left.
        """
        refusal = await self.look()
        if refusal:
            raise StoreFull(f"{_NO_ROOM}: {refusal}")
        if not self._is_near():
            yield
            return
        async with self._turn:
            refusal = await self._weigh(SAVE_BYTES + sum(map(on_disk, events)))
            if refusal:
                raise StoreFull(f"{_NO_ROOM}: {refusal}")
            yield

    def _is_near(self) -> bool:
        if self.space is None:  # another save makes the first measurement
            return self._database.path is not None
        return self.space.left is not None and self.space.left < NEAR

    async def _weigh(self, size: int) -> str:
        """Why so many bytes do not fit, or ""; the store is full then, until something goes."""
        refusal = await self.look(again=True)
        left = self.space.left if self.space else None
        if not refusal and left is not None and size > left:
            self.full = refusal = f"{_mb(size)} MB do not fit into the {_mb(left)} MB that are left"
        return refusal

    async def look(self, *, again: bool = False) -> str:
        """Why events are refused, or ""; `again`: measured now. Raises StoreError."""
        file = self._database.path
        if file is None or (not again and self._now() < self._next):
            return self.full
        self._next = self._now() + CHECK_S
        options = self._options
        self.space = await self._database.read(lambda conn: measure(conn, file, options))
        self.full = self.space.refusal(MARGIN if self.full else 0.0)
        return self.full


def measure(conn: sqlite3.Connection, file: Path, options: StoreOptions) -> Space:
    """What a store uses, read on one of its connections."""
    (pages,) = conn.execute("PRAGMA main.page_count").fetchone()
    (unused,) = conn.execute("PRAGMA main.freelist_count").fetchone()
    (size,) = conn.execute("PRAGMA main.page_size").fetchone()
    derived = file.parent.glob(f"{glob.escape(file.stem)}.index-*.db")
    beside = sum(map(_size, derived))
    try:
        disk = shutil.disk_usage(file.parent)
    except OSError:
        return Space((pages - unused) * size + beside, options.most_bytes, None, 0)
    least = min(options.least_free_bytes, int(disk.total * FREE_SHARE))
    return Space((pages - unused) * size + beside, options.most_bytes, disk.free, least)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0  # it was removed meanwhile
