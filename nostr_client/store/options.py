"""Define the options of a store.

Each option has a unit and a reason for its default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Sets how to open one SQLite file. The defaults suit a laptop with a few relays."""

    synchronous: Literal["normal", "full"] = "normal"
    """`normal`: a commit survives kill -9. A power loss may undo the last commits, but never half a
    commit. `full`: SQLite calls fsync for each commit, so that a commit also survives a power loss.
    """

    cache_mb: int = 64
    """MB of the writer's page cache, enough for the upper levels of ten indexes of a few GB."""

    reader_cache_mb: int = 16
    """MB of each reader's page cache, beside the cache of the operating system."""

    readers: int = 4
    """Number of reader connections. Each has a thread, so that reads do not wait for each other."""

    queue_limit: int = 1024
    """Most calls of `write` in the queue. Further callers wait before they enter the queue."""

    group_limit: int = 256
    """Most calls of `write` in one transaction. A failed commit undoes at most this many calls."""

    wal_autocheckpoint: int = 10_000
    """Pages in the log before SQLite copies the log into the file. 10,000 pages are 40 MB. With a
    larger log, SQLite copies a frequently written page less often."""

    busy_timeout_s: float = 5.0
    """Seconds to wait for another program's lock on the file, such as a shell or a backup."""

    turn_s: float = 3.0
    """Seconds that a second writer waits for the first writer to close the store. Two commands of a
    script overlap for a moment, so the second command waits. The wait does not help beside a
    running agent, because the agent does not close its store."""

    most_bytes: int | None = None
    """Most bytes of the store's files, without free pages and logs. Above this size, the store
    refuses events. None: no limit."""

    least_free_bytes: int = 256 * 1024 * 1024
    """Bytes of the file system that stay free for other programs and the store's own logs. Below
    this number, the store refuses events. On a small file system, 1 % of its size is enough."""

    max_page_count: int | None = None
    """Most pages of the file, of 4096 bytes each. None: only the disk limits the file."""
