"""The signs that are drawn with, and their stand-ins for terminals that have ASCII alone. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Glyphs(NamedTuple):
    """One sign for each thing that is drawn."""

    bars: str
    full: str
    empty: str
    left: str
    right: str
    line: str
    point: str
    beyond: str
    about: str
    least: str
    minus: str
    plus_minus: str
    up: str
    down: str
    on: str
    off: str
    part: str
    yes: str
    no: str
    warn: str
    enter: str
    dot: str
    dash: str
    band: str
    curve: str
    """The sign of a curve; empty: dots of braille, eight in a cell."""
    frame: str
    """A side, a side with a tick, a line, a line with a tick, four corners."""
    ellipsis: str


UNICODE: Final = Glyphs(
    bars="▁▂▃▄▅▆▇█",
    full="█",
    empty="░",
    left="├",
    right="┤",
    line="─",
    point="●",
    beyond="▶",
    about="≈",
    least="≥",
    minus="−",
    plus_minus="±",
    up="▲",
    down="▼",
    on="●",
    off="○",
    part="◐",
    yes="✓",
    no="✗",
    warn="▲",
    enter="⏎",
    dot="·",
    dash="–",
    band="░",
    curve="",
    frame="│┤─┬┌┐└┘",
    ellipsis="…",
)

ASCII: Final = Glyphs(
    bars="_.,:-=+#",
    full="#",
    empty=".",
    left="[",
    right="]",
    line="-",
    point="o",
    beyond=">",
    about="~",
    least=">=",
    minus="-",
    plus_minus="+/-",
    up="^",
    down="v",
    on="*",
    off="o",
    part="%",
    yes="y",
    no="n",
    warn="!",
    enter="Enter",
    dot="|",
    dash="-",
    band=":",
    curve="*",
    frame="||-+++++",
    ellipsis="~",
)


def speaks_unicode(env: Mapping[str, str]) -> bool:
    """Whether the locale is UTF-8, and the terminal has more signs than those of its hardware."""
    if env.get("TERM", "") in ("linux", "vt100", "vt220"):
        return False
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        found = env.get(name, "")
        if found:
            return "utf" in found.lower()
    return True
