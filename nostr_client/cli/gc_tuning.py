"""The garbage collector of a program that runs for long and makes many small objects."""

from __future__ import annotations

import gc
from typing import Final

YOUNG: Final = 100_000
"""Objects between two looks for young garbage: Python's 700 is for small programs. Several hundred
questions under way are 25,000 objects that live, which every look would go through for nothing."""


def prepare_for_long_runs() -> None:
    """Leave what was loaded so far alone from now on, and look for garbage less often.

    For the programs of this package, once they have loaded what they need: it is a setting of the
    whole process, and costs a few megabytes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
