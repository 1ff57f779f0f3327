"""The cell of a heat map: a bar as high as a part of 1, and the part in per cent. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui import format
from tui.widgets.grid import Cell

if TYPE_CHECKING:
    from tui.glyphs import Glyphs

WIDTH = 7
"""Cells of a column: the bar, a space and "100%", or a sign before it."""


def heat(part: float | None, tone: str, glyphs: Glyphs, text: str = "") -> Cell:
    """Return the cell of a part; its bar is full only at 1; ? if the part is not known.

    `text` stands in place of the part in per cent.
    """
    if part is None:
        return Cell(format.UNKNOWN, "dim")
    bar = glyphs.bars[int(part * (len(glyphs.bars) - 1))]
    return Cell(f"{bar} {text or format.percent(part):>4}", tone)
