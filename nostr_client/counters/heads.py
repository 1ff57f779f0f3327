"""Who a stream is and how far it has come, as those know it who read it from elsewhere. Pure.

A store that was put back from a backup has the ids and sequences that it had, and other messages
after them. So every run of a program that writes a store has a name, and begins at a sequence: who
read further within a run than the next one began has read what the backup does not have.
"""

from __future__ import annotations

from typing import Final, NamedTuple

KEPT_RUNS: Final = 32
"""Runs that are told: who missed more of them compares values instead."""


class Head(NamedTuple):
    """A stream: its store, its epoch (new when it is made anew), and where it stands.

    `runs`: the newest runs with the sequence at which each began, oldest first.
    """

    store: str
    epoch: str
    first_seq: int
    last_seq: int
    runs: tuple[tuple[str, int], ...] = ()

    @property
    def run(self) -> str:
        """The run of now; "" where none was ever named."""
        return self.runs[-1][0] if self.runs else ""

    @property
    def key(self) -> str:
        """What a confirmation is for: this store, stream and run, and no other."""
        return f"{self.store} {self.epoch} {self.run}"


class Mark(NamedTuple):
    """Where a reader stands: the last sequence that it took, and in which run."""

    store: str
    epoch: str
    run: str
    seq: int


def goes_on(mark: Mark, head: Head) -> bool:
    """Whether what the reader took is still a part of the stream, as far as that can be known."""
    if (mark.store, mark.epoch) != (head.store, head.epoch) or mark.seq > head.last_seq:
        return False
    if mark.run == head.run:
        return True
    names = [run for run, _ in head.runs]
    if mark.run in names:
        return head.runs[names.index(mark.run) + 1][1] >= mark.seq
    if not mark.run and len(head.runs) < KEPT_RUNS:  # read before any run had a name
        return head.runs[0][1] >= mark.seq
    return mark.seq == 0
