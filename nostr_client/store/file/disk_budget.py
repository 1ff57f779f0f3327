"""Limit the disk space of a store. At the limit, only new events are refused.

There are two limits. The first is the size of the store's files, without pages that removed events
left free. The second is the free space of the file system, which other programs need too. The logs
beside the files, about 40 MB, do not count: SQLite reuses them and does not return them.

Events of one save are stored together or not at all. Near a limit, events are stored only if they
fit below it. A client can send refused events again: a store accepts events as soon as there is
space.
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
    from nostr_client.store.file.database import Database
    from nostr_client.store.options import StoreOptions

CHECK_S: Final = 1.0
"""Seconds for which a measurement is valid. A store grows by about 20 MB in one second."""

MARGIN: Final = 0.05
"""Share of a limit that must be free again before events are accepted.

It prevents a stop each second.
"""

NEAR: Final = 128 * 1024 * 1024
"""If fewer bytes are left, each save is estimated.

One second and one batch of 32 MiB need this much.
"""

SAVE_BYTES: Final = 64 * 1024
"""Bytes for each save: pages of tables and indexes that split."""

EVENT_BYTES: Final = 350
"""Bytes of an event's row without content and tags: id, key, signature and index entries."""

TAG_BYTES: Final = 16
"""Bytes of a tag in its event's row, without the tag's text."""

INDEXED_BYTES: Final = 60
"""Bytes of a tag in the tag index, whose pages are two thirds full."""

PAGE: Final = 4096
"""Bytes of a page of the file."""

ROUNDING: Final = 1024
"""Average bytes that stay empty in the pages of a large row."""

FREE_SHARE: Final = 0.01
"""Largest share of a file system that stays free, whatever the option says.

It matters on small disks.
"""


class Space(msgspec.Struct, frozen=True):
    """Disk use of a store, in bytes. None means not limited or not known."""

    used: int
    most: int | None
    free: int | None
    least_free: int

    @property
    def left(self) -> int | None:
        """Bytes that are left before events are refused, or None without a limit."""
        of_size = None if self.most is None else self.most - self.used
        of_disk = None if self.free is None else self.free - self.least_free
        known = [one for one in (of_size, of_disk) if one is not None]
        return max(0, min(known)) if known else None

    def refusal(self, margin: float = 0.0) -> str:
        """Return why no event is accepted, or "".

        `margin`: share of the limit that must be free too.
        """
        if self.most is not None and self.used > self.most * (1 - margin):
            return f"the store has {_mb(self.used)} MB of the {_mb(self.most)} MB that it may have"
        if self.free is not None and self.free < self.least_free * (1 + margin):
            left = f"{_mb(self.free)} MB are free on its disk"
            return f"{left}, and {_mb(self.least_free)} MB are left to other programs"
        return ""


def on_disk(event: Event) -> int:
    """Estimate how many bytes an event adds to a store. The estimate is not too low.

    Rows of up to half a page share a page. Larger rows have their own pages.
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
    """Measures the disk use at most once in CHECK_S.

    `full` is why events are refused now, or "".
    """

    def __init__(
        self,
        database: Database,
        options: StoreOptions,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.full = ""
        self.space: Space | None = None
        """The newest measurement. None before the first one, and for a store in memory."""
        self._database = database
        self._options = options
        self._now = now
        self._next = float("-inf")
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def reserved(self, events: Sequence[Event]) -> AsyncIterator[None]:
        """Enter a block in which events are saved. Raises StoreFull if they do not fit.

        Near a limit, one block runs after the other. Each save is thus compared with the space that
        is really left.
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
        """Return why `size` bytes do not fit, or "".

        If the bytes do not fit, the store is full until the next measurement finds space.
        """
        refusal = await self.look(again=True)
        left = self.space.left if self.space else None
        if not refusal and left is not None and size > left:
            self.full = refusal = f"{_mb(size)} MB do not fit into the {_mb(left)} MB that are left"
        return refusal

    async def look(self, *, again: bool = False) -> str:
        """Return why events are refused, or "".

        `again` measures now. Raises StoreError.
        """
        file = self._database.path
        if file is None or (not again and self._now() < self._next):
            return self.full
        self._next = self._now() + CHECK_S
        options = self._options
        self.space = await self._database.read(lambda conn: measure(conn, file, options))
        self.full = self.space.refusal(MARGIN if self.full else 0.0)
        return self.full


def measure(conn: sqlite3.Connection, file: Path, options: StoreOptions) -> Space:
    """Measure what a store uses, on one of its connections."""
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
        return 0  # another program removed the file
