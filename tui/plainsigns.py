"""Every sign that is drawn with as ASCII, whoever draws it: Textual's widgets have none of our own.

Texts of people and relays keep their letters; signs of drawing in them become plain as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.segment import Segment
from textual.filter import LineFilter

if TYPE_CHECKING:
    from textual.color import Color

_BOXES: Final = {chr(n): "+" for n in range(0x2500, 0x2580)}
_BLOCKS: Final = {chr(n): "#" for n in range(0x2580, 0x25A0)}
_SHAPES: Final = {chr(n): "*" for n in range(0x25A0, 0x2600) if cell_len(chr(n)) == 1}
_BRAILLE: Final = {chr(n): "*" for n in range(0x2801, 0x2900)}
_SAME: Final = {
    "-": "─━┄┅┈┉╌╍═╴╶╸╺╼╾▔▀–—−‐‑",
    "_": "▁▂▃▄▅▆▇",
    "|": "│┃┆┇┊┋╎╏║╵╷╹╻╽╿▏▎▍▌▋▊▉▐▕·",
    ":": "░▒▓",
    "^": "▲△▴▵↑",
    "v": "▼▽▾▿↓",
    ">": "▶▷▸▹►▻→",
    "<": "◀◁◂◃◄◅←",
    "o": "○◌◯",
    "%": "◐◑◒◓",
    "*": "•✱★",
    ".": "…",
    "~": "≈",
    "y": "✓✔",
    "n": "✗✘",
    "x": "×",
    '"': "“”„",
    "'": "‘’",
    " ": "\u2800\u00a0",
}
TABLE: Final = str.maketrans(
    _BOXES
    | _BLOCKS
    | _SHAPES
    | _BRAILLE
    | {sign: plain for plain, signs in _SAME.items() for sign in signs}
)
"""Stand-ins of one cell each, so that nothing moves."""


class PlainSigns(LineFilter):
    """Changes each line of the screen before it is shown."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments, drawn with ASCII."""
        return [
            one if one.text.isascii() else Segment(one.text.translate(TABLE), one.style)
            for one in segments
        ]


PLAIN_SIGNS: Final = PlainSigns()
