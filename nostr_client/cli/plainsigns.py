"""Signs that a stream's encoding lacks as ASCII: what is printed for people, never data.

JSON and events are written as bytes, and do not come by here.
"""

from __future__ import annotations

import codecs
from typing import Final

ERRORS: Final = "nostr-tally-plain"
"""The name of the error handler, for `errors=` of a stream."""

PLAIN: Final = {
    "–": "-",
    "—": "-",
    "−": "-",
    "≥": ">=",
    "≤": "<=",
    "≈": "~",
    "…": "...",
    "×": "x",
    "·": "|",
    "→": "->",
    "µ": "u",
    **dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True)),
}
"""Stand-ins, none of which JSON has to escape: logs come by here.

A line of blocks keeps its eight levels. Every other sign is escaped.
"""


def replace(error: UnicodeError) -> tuple[str, int]:
    """What stands for the letters that could not be encoded, as codecs ask for it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_plain, error.object[error.start : error.end])), error.end


def _plain(sign: str) -> str:
    return PLAIN.get(sign) or sign.encode("ascii", "backslashreplace").decode("ascii")


codecs.register_error(ERRORS, replace)
