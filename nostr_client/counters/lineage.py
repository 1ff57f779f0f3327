"""Describe the identity of a stream, its position, and the paths on which counts reach it.

A path (`Way`) is a tuple of nodes, from the stream that receives counts back to the stream where
the path begins. A cycle would add counts without end. A diamond would add counts twice.

A store that was restored from a backup has its old ids and sequences, but other messages after
them. So every run of a program that writes a store has a name and a sequence at which it begins.
Suppose that a reader has read further within a run than the beginning of the next run. Then the
reader has read messages that the backup lacks.

This module is pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Way = tuple[str, ...]

MOST_WAYS: Final = 500
"""Most paths into one stream: enough for hundreds of agents, and some kilobytes in each answer."""

DEEPEST: Final = 32
"""Most nodes of one path: more tiers than any sum needs."""

LONGEST: Final = 320
"""Most characters of a node: a stream's name (255) and a store's id."""


def node(stream: str, store: str) -> str:
    """Return the name of a store's stream. All stores use the same name for it."""
    return f"{stream}@{store}"


class LineageConflict(NamedTuple):
    """Why streams must not be joined, and the path.

    For a diamond, the path has both paths, one after the other.
    """

    why: str
    path: Way


def joined(own: str, inputs: Iterable[Sequence[Way]]) -> tuple[Way, ...]:
    """Return the paths into the stream `own`.

    `inputs` are the paths into each stream that `own` reads.
    """
    return ((own,), *((own, *way) for ways in inputs for way in ways))


def trouble(ways: Sequence[Way]) -> LineageConflict | None:
    """Return the first cycle among the paths into one stream, else the first diamond.

    The same path twice is a diamond too: two sources would add the same counts.
    """
    for way in ways:
        again = next((n for n, one in enumerate(way) if one in way[:n]), None)
        if again is not None:
            return LineageConflict("counts would go round in a cycle", shown(way[: again + 1]))
    ends: dict[str, Way] = {}
    for way in ways:
        other = ends.get(way[-1])
        if other is not None:
            return LineageConflict(
                f"counts of {_short(way[-1])} would come by two ways", shown((*other, *way))
            )
        ends[way[-1]] = way
    return None


def shown(way: Way) -> Way:
    """Return a path for people, with the first eight characters of each store's id."""
    return tuple(map(_short, way))


def _short(one: str) -> str:
    stream, at, store = one.rpartition("@")
    return f"{stream}{at}{store[:8]}"


def checked(ways: Iterable[Iterable[str]], first: str) -> tuple[Way, ...]:
    """Check paths that another program sent. Each must begin at the node `first`.

    Raises InvalidInput for an invalid path or too many paths. The result always has the path of the
    node alone.
    """
    found = tuple(dict.fromkeys(((first,), *(tuple(way) for way in ways))))
    if len(found) > MOST_WAYS:
        raise InvalidInput(f"more than {MOST_WAYS} ways lead into it: join some before")
    for way in found:
        if not 0 < len(way) <= DEEPEST or way[0] != first:
            raise InvalidInput("its lineage is none")
        if any(not 0 < len(one) <= LONGEST or not one.isprintable() for one in way):
            raise InvalidInput("its lineage is none")
    return found


KEPT_RUNS: Final = 32
"""Most runs that are reported. A reader that missed more runs compares values instead."""


class StreamHead(NamedTuple):
    """Store, epoch and position of a stream.

    A stream that is created again has a new epoch. `runs` are the newest runs with the sequence at
    which each began, oldest first.
    """

    store: str
    epoch: str
    first_seq: int
    last_seq: int
    runs: tuple[tuple[str, int], ...] = ()

    @property
    def run(self) -> str:
        """Name of the present run, or "" if no run has a name."""
        return self.runs[-1][0] if self.runs else ""

    @property
    def key(self) -> str:
        """Key of a confirmation. It is valid only for this store, stream and run."""
        return f"{self.store} {self.epoch} {self.run}"


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """A message on its way from one store to another.

    - `value`: value of the counter, as text of any length; null if the message has no counter.
    - `incr`: increment in the message, as text.
    - `ts`: time in nanoseconds.
    """

    seq: int
    subject: str
    value: str | None
    incr: str | None = None
    ts: int = 0


class StreamPosition(NamedTuple):
    """Position of a reader in a stream: the last sequence that the reader took, and its run."""

    store: str
    epoch: str
    run: str
    seq: int


def goes_on(mark: StreamPosition, head: StreamHead) -> bool:
    """Return whether the messages that the reader took are still part of the stream.

    If the reader's run is not known, the result is False, unless the reader took nothing.
    """
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
