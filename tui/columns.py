"""Which columns of a table fit, and how wide each is. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP: Final = 1


class Column(NamedTuple):
    """A column: its least width, and what it gets of what is left over.

    `drop`: 0 stays always; of the others the highest goes first where there is no room.
    """

    key: str
    title: str
    width: int
    drop: int = 0
    flex: int = 0
    right: bool = False
    most: int = 1000
    middle: bool = False
    """Cut in the middle: names differ at their ends too."""


class Placed(NamedTuple):
    """A column with its place."""

    column: Column
    at: int
    width: int


def fit(columns: Sequence[Column], width: int) -> list[Placed]:
    """The columns that fit into `width` cells, in order, with their widths."""
    kept = list(columns)
    while _least(kept) > width and any(one.drop for one in kept):
        kept.remove(max(kept, key=lambda one: one.drop))
    widths = _stretched(kept, width - _least(kept))
    placed, at = [], 0
    for column, wide in zip(kept, widths, strict=True):
        placed.append(Placed(column, at, wide))
        at += wide + GAP
    return placed


def _least(columns: Sequence[Column]) -> int:
    return sum(one.width for one in columns) + GAP * max(0, len(columns) - 1)


def _stretched(columns: Sequence[Column], spare: int) -> list[int]:
    """What is left over goes to the columns with `flex`, each up to its most."""
    widths = [one.width for one in columns]
    growing = [n for n, one in enumerate(columns) if one.flex]
    growing.sort(key=lambda n: columns[n].most - columns[n].width)
    shares = sum(columns[n].flex for n in growing)
    for n in growing:
        room = columns[n].most - columns[n].width
        more = min(max(0, spare) * columns[n].flex // shares, room)
        widths[n] += more
        spare -= more
        shares -= columns[n].flex
    return widths
