"""Reports the progress of an engine: JSON lines on stdout, stages at most twice a second."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.reindex.protocol import LogText, Message, Stage, to_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_PROC: Final = Path("/proc")


def tree_cpu(root: int | None = None) -> float:
    """CPU seconds of a process (this one) and its descendants, with ended ones it waited for.

    On systems without /proc only that of this process.
    """
    if not _PROC.exists():
        times = os.times()
        return times.user + times.system + times.children_user + times.children_system
    ticks = 0
    for pid in tree(root):
        fields = _stat(pid)
        if fields:
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def tree(root: int | None = None) -> list[int]:
    """A process and its descendants, as far as they can be seen."""
    children: dict[int, list[int]] = {}
    if not _PROC.exists():
        return []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [os.getpid() if root is None else root]
    for pid in found:
        found += children.get(pid, ())
    return found


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; empty if the process has ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_text("ascii", "replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


INTERVAL_S: Final = 0.5
"""Seconds between two lines of a running stage."""


class Reporter:
    """Writes messages; `write` takes one line."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._sent_at = 0.0
        self._lock = threading.Lock()
        self.aside: Callable[[], float] | None = None
        """CPU seconds so far of what is done beside the stages, and belongs to its own."""

    def send(self, message: Message) -> None:
        """Send a message at once."""
        with self._lock:  # a stage's progress is polled by a thread
            self._write(to_line(message))

    def talk(self, text: str) -> None:
        """Send a text for people."""
        self.send(LogText(text))

    def running(self, name: str, done: int, total: int = 0, rows: int = 0) -> None:
        """Send the progress of a stage, unless the last line is newer than INTERVAL_S."""
        now = time.monotonic()
        if now - self._sent_at >= INTERVAL_S:
            self._sent_at = now
            self.send(Stage(name, "running", done, total, rows))

    def skipped(self, name: str, rows: int = 0) -> None:
        """Report a stage that an earlier run has done."""
        self.send(Stage(name, "skipped", rows=rows))

    @contextmanager
    def stage(self, name: str, *, with_aside: bool = False) -> Iterator[Callable[[int], None]]:
        """A stage from its start to its end; the callable takes the rows that it made.

        `with_aside`: the CPU seconds that were spent aside, earlier too, are this stage's.
        """
        self.send(Stage(name, "started"))
        made = 0

        def count(rows: int) -> None:
            nonlocal made
            made = rows

        start, cpu = time.monotonic(), tree_cpu() - self._aside()
        yield count
        self.send(
            Stage(
                name,
                "done",
                rows=made,
                seconds=round(time.monotonic() - start, 3),
                cpu=round(tree_cpu() - (0.0 if with_aside else self._aside()) - cpu, 3),
            )
        )

    def _aside(self) -> float:
        return 0.0 if self.aside is None else self.aside()
