"""A disk that fails on command under programs that this test starts (`failing_disk.c`).

The shim is compiled once per run and loaded before libc. It counts every call that changes a file
below one folder; a fault names the calls that fail, so that a seed gives the same fault again.
"""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.conftest import require_tool

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

SOURCE: Final = Path(__file__).with_name("failing_disk.c")
BLOCK: Final = struct.Struct("=6q")
FOR_EVER: Final = 1 << 40


class Kind(IntEnum):
    """What a fault does; the numbers are those of `failing_disk.c`."""

    NO_SPACE = 1
    IO_ERROR = 2
    HALF = 3
    """Half of the data is written, as where the space ends within a page."""
    KILL_BEFORE = 4
    KILL_HALF = 5
    KILL_AFTER = 6


class Calls(IntFlag):
    """Classes of calls that change files."""

    WRITES = 1
    SIZES = 2
    SYNCS = 4
    NAMES = 8
    REMOVALS = 16


KILLS: Final = frozenset({Kind.KILL_BEFORE, Kind.KILL_HALF, Kind.KILL_AFTER})
_FAILING: Final = Calls.WRITES | Calls.SIZES | Calls.SYNCS | Calls.NAMES
"""A full or broken disk still removes names."""


class Fault(NamedTuple):
    """A fault of the calls of some classes: after `after` of them, `times` of them fail."""

    kind: Kind
    after: int
    times: int
    calls: Calls


def draw(rng: random.Random, calls: int, kinds: Sequence[Kind] = tuple(Kind)) -> Fault:
    """A fault of a program that makes about so many calls."""
    kind = rng.choice(kinds)
    after = rng.randrange(max(1, calls))
    if kind in KILLS:
        if rng.random() < 0.3:
            return Fault(kind, after % (1 + calls // 8), 1, Calls.NAMES | Calls.REMOVALS)
        return Fault(kind, after, 1, _FAILING | Calls.REMOVALS)
    if kind is Kind.IO_ERROR:
        few = rng.choice([Calls.SYNCS, Calls.NAMES, Calls.NAMES | Calls.SIZES])
        if rng.random() < 0.5:
            return Fault(kind, after % (1 + calls // 8), rng.choice([1, FOR_EVER]), few)
        return Fault(kind, after, rng.choice([1, 1, 3, FOR_EVER]), _FAILING)
    return Fault(kind, after, rng.choice([1, 4, FOR_EVER]), _FAILING & ~Calls.SYNCS)


def build(folder: Path) -> Path:
    """Compile the shim; its path."""
    made = folder / "failing_disk.so"
    command = [require_tool("cc"), "-O1", "-shared", "-fPIC", "-o", str(made), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return made


class FailingDisk:
    """The disk below `folder` for programs that are started with `environ`."""

    def __init__(self, shim: Path, folder: Path, control: Path) -> None:
        control.write_bytes(bytes(BLOCK.size))
        self._fd = os.open(control, os.O_RDWR | os.O_CLOEXEC)
        self._block = mmap.mmap(self._fd, BLOCK.size)
        self.environ = {
            "LD_PRELOAD": str(shim),
            "FAILING_DISK_CONTROL": str(control),
            "FAILING_DISK_FOLDER": f"{folder.resolve()}/",
        }

    def close(self) -> None:
        self._block.close()
        os.close(self._fd)

    @property
    def calls(self) -> int:
        """Calls so far that changed files."""
        return int(BLOCK.unpack_from(self._block)[0])

    @property
    def fired(self) -> int:
        """Calls that failed."""
        return int(BLOCK.unpack_from(self._block)[5])

    def arm(self, fault: Fault) -> None:
        """Let the fault happen, counted from this moment."""
        struct.pack_into("=3q", self._block, 16, fault.after, fault.times, fault.calls)
        struct.pack_into("=q", self._block, 8, fault.kind)

    def calm(self) -> None:
        """Be a good disk from now on."""
        struct.pack_into("=q", self._block, 8, 0)
