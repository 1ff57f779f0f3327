"""How the screen looks: our own colours, and ASCII in place of every sign that Textual draws with.

Texts of people and relays keep their letters; signs of drawing in them become ASCII as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.segment import Segment
from textual.filter import LineFilter
from textual.theme import Theme

if TYPE_CHECKING:
    from textual.color import Color

DARK: Final = Theme(
    name="tally-dark",
    primary="#5eb1ef",
    secondary="#b39ddb",
    accent="#f2b84b",
    success="#5fcf8f",
    warning="#f0a848",
    error="#f07178",
    background="#0e131a",
    surface="#141b24",
    panel="#1c2530",
    foreground="#d9e1ea",
    dark=True,
)
LIGHT: Final = Theme(
    name="tally-light",
    primary="#1767a8",
    secondary="#6b4fa0",
    accent="#9a5b00",
    success="#1c7a45",
    warning="#9a5b00",
    error="#b3261e",
    background="#faf9f6",
    surface="#f3f1ec",
    panel="#e7e4dc",
    foreground="#22262b",
    dark=False,
)
OWN: Final = (DARK, LIGHT)

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
