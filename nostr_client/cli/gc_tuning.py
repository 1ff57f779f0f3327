"""Tune the garbage collector of a long-running program with many small objects."""

from __future__ import annotations

import gc
from typing import Final

YOUNG: Final = 100_000
"""Allocations between two collections of young objects: Python's 700 suits small programs. Several
hundred concurrent questions are 25,000 live objects, which every collection would scan without
effect."""


def prepare_for_long_runs() -> None:
    """Exclude objects loaded so far from collection, and collect less often.

    The programs of this package call it once they have loaded their modules. It changes the whole
    process, and costs a few megabytes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
