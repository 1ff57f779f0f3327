"""The columns of a table: which of them fit, their texts, the rows that a filter keeps. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from tui import format

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

GAP: Final = 1
MIDDLE: Final = 7
"""Cells below which both ends of a text say less than its beginning."""


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


class PlacedColumn(NamedTuple):
    """A column with its place."""

    column: Column
    at: int
    width: int


def fit(columns: Sequence[Column], width: int, keep: str = "") -> list[PlacedColumn]:
    """The columns that fit into `width` cells, in order, with their widths; `keep` is among them.

    `keep`: the key of a column, or "".
    """
    kept = list(columns)
    while _least(kept) > width and (dropped := [c for c in kept if c.drop and c.key != keep]):
        kept.remove(max(dropped, key=lambda one: one.drop))
    widths = _widened(kept, width - _least(kept))
    placed, at = [], 0
    for column, wide in zip(kept, widths, strict=True):
        placed.append(PlacedColumn(column, at, wide))
        at += wide + GAP
    return placed


def _least(columns: Sequence[Column]) -> int:
    return sum(one.width for one in columns) + GAP * max(0, len(columns) - 1)


def _widened(columns: Sequence[Column], spare: int) -> list[int]:
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


def next_column(columns: Sequence[str], now: str, hidden: Collection[str]) -> str:
    """Return the column after `now`, around the end, that is not hidden."""
    at = columns.index(now) + 1
    later = (*columns[at:], *columns[:at])
    return next((one for one in later if one not in hidden), now)


def cells(text: str) -> int:
    """How many cells a text takes."""
    return len(text) if text.isascii() else cell_len(text)


def fitted(text: str, width: int, column: Column, cut: str = "…") -> str:
    """A text as a column shows it: numbers that are too long say how large they are."""
    if cells(text) > width:
        if column.middle:
            return shortened(text, width, cut)
        text = format.tight(text) if column.right else text
    return aligned(text, width, right=column.right, cut=cut)


def titled(column: Column, sign: str, width: int) -> str:
    """The title of a column; the sign behind it stays where there is no room for all of both."""
    text = f"{column.title} {sign}".strip()
    if cells(text) > width and sign:
        text = set_cell_size(column.title, min(cells(column.title), max(0, width - 1))) + sign
    return aligned(text, width, right=column.right)


def shortened(text: str, width: int, cut: str = "…") -> str:
    """A text of exactly `width` cells; one that is too long has the sign `cut` in its middle."""
    if cell_len(text) <= width or width < MIDDLE:
        return aligned(text, width, cut=cut)
    tail = (width - 1) // 2
    end = len(text)
    while cell_len(text[end - 1 :]) <= tail:
        end -= 1
    head = set_cell_size(text, width - 1 - cell_len(text[end:]))
    return head + cut + text[end:]


def aligned(text: str, width: int, *, right: bool = False, cut: str = "…") -> str:
    """A text of exactly `width` cells; one that is too long ends in the sign `cut`."""
    missing = width - cells(text)
    if missing < 0:
        return set_cell_size(text, max(0, width - 1)) + cut * min(1, width)
    return " " * missing + text if right else text + " " * missing


def matches(wanted: str, *texts: Any) -> bool:
    """Whether every word of a filter stands in one of the texts."""
    whole = " ".join(map(str, texts)).lower()
    return all(word in whole for word in wanted.split())
