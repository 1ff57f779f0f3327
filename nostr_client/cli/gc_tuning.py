"""Tune the garbage collector: for programs that start and end, and for long runs.

A module of its own, without other imports: each program runs it before it loads anything else.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

YOUNG: Final = 100_000
"""Allocations between two collections of young objects: Python's 700 suits small programs. Several
hundred concurrent questions are 25,000 live objects, which every collection would scan without
effect."""


def run_to_exit(run: Callable[[], int]) -> NoReturn:
    """Run a program and exit the process with the exit code that `run` returns.

    Modules, classes and commands live until the process ends. The collector therefore scans them
    neither while they load nor at the end, which is a tenth of the CPU time of a short command.
    """
    gc.set_threshold(YOUNG, 10, 10)
    code = run()
    gc.freeze()
    sys.exit(code)


def prepare_for_long_runs() -> None:
    """Exclude objects loaded so far from collection, and collect less often.

    The programs of this package call it once they have loaded their modules. It changes the whole
    process, and costs a few megabytes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
