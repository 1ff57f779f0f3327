"""CPU seconds and memory of this process and all that it started: Java and Python workers too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


def tree_cpu(root: int | None = None) -> float:
    """CPU seconds of a process (this one) and its descendants, ended ones too where waited for.

    On systems without /proc that of this process alone.
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
    """Fields of /proc/PID/stat from the state on; empty when it is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text("ascii", "replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
