"""Who a stream is, how far it has come, and by which ways counts reach it. Pure.

A way is a tuple of nodes, from the stream that it leads into to its far end: a cycle never ends, a
diamond counts twice.

A store that was put back from a backup has the ids and sequences that it had, and other messages
after them. So every run of a program that writes a store has a name, and begins at a sequence: who
read further within a run than the next one began has read what the backup does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Way = tuple[str, ...]

MOST_WAYS: Final = 500
"""Ways into one stream: a fleet of hundreds of agents, and some kilobytes in each answer."""

DEEPEST: Final = 32
"""Nodes of one way: more tiers than any sum needs."""

LONGEST: Final = 320
"""Characters of a node: a stream's name (255) and a store's id."""


def node(stream: str, store: str) -> str:
    """A stream of one store, the same for everyone."""
    return f"{stream}@{store}"


class LineageConflict(NamedTuple):
    """Why streams may not be joined so, and the way (of a diamond: both, one after the other)."""

    why: str
    path: Way


def joined(own: str, inputs: Iterable[Sequence[Way]]) -> tuple[Way, ...]:
    """The ways into the stream `own`, given those into each stream that it takes from."""
    return ((own,), *((own, *way) for ways in inputs for way in ways))


def trouble(ways: Sequence[Way]) -> LineageConflict | None:
    """The first cycle, else the first diamond among the ways into one stream.

    The same way twice is a diamond too: two sources that bring the same counts.
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
    """A way for people: of each store's id the first eight characters."""
    return tuple(map(_short, way))


def _short(one: str) -> str:
    stream, at, store = one.rpartition("@")
    return f"{stream}{at}{store[:8]}"


def checked(ways: Iterable[Iterable[str]], first: str) -> tuple[Way, ...]:
    """Ways that a stranger sent, each of which must begin at the node `first`.

    Raises InvalidInput for what is none or too much; the way of the node alone is always there.
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
"""Runs that are reported: a reader that missed more of them compares values instead."""


class StreamHead(NamedTuple):
    """A stream: its store, its epoch (new when it is made again), and where it stands.

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
    """Where a reader stands: the last sequence that it took, and in which run."""

    store: str
    epoch: str
    run: str
    seq: int


def goes_on(mark: StreamPosition, head: StreamHead) -> bool:
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
