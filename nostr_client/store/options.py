"""What can be tuned in a store: values with a unit and a reason each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Sets how one SQLite file is opened; the defaults suit a laptop with a few relays."""

    synchronous: Literal["normal", "full"] = "normal"
    """normal: a commit survives kill -9, the last commits may be undone by a power loss (never
    half of one). full: one fsync a commit, and a commit survives a power loss too."""

    cache_mb: int = 64
    """Page cache of the writer: keeps the upper levels of ten indexes of a few GB in memory."""

    reader_cache_mb: int = 16
    """Page cache of each reader; the operating system's cache stands behind it."""

    readers: int = 4
    """Reader connections, one thread each: reads do not wait for each other's disk."""

    queue_limit: int = 1024
    """Calls of `write` that may wait at once; further callers wait before they queue."""

    group_limit: int = 256
    """Calls of `write` that share one transaction: bounds what one failing commit undoes."""

    wal_autocheckpoint: int = 10_000
    """Pages (40 MB) in the log before it is copied back: fewer copies of the same hot page."""

    busy_timeout_s: float = 5.0
    """How long a foreign program's lock on the file (a shell, a backup) is waited for."""

    turn_s: float = 3.0
    """Seconds that a second writer waits for the first one to close the store: two commands of one
    script overlap by a moment, while an agent that runs does not go away."""

    most_bytes: int | None = None
    """Bytes of the store's files, without free pages and logs, above which events are refused;
    None: no limit, as only the user knows what else the disk is for."""

    least_free_bytes: int = 256 * 1024 * 1024
    """Bytes of the file system below which events are refused: logs, and this store's own claims,
    need some. Of a small file system a hundredth at most."""

    max_page_count: int | None = None
    """Largest size of the file in pages of 4096 bytes; None: as large as the disk."""
