"""Make every colour of a theme legible on every ground that the application draws on. Pure.

A theme of anybody's may have a dim yellow on white. Its text colours become lighter or darker until
their contrast is that of WCAG 2 (AA): 4.5 to 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.color import Color

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LEAST: Final = 4.5
"""WCAG 2.2, success criterion 1.4.3: the contrast of text with what is behind it."""

GROUNDS: Final = ("background", "surface", "panel", "ground-pointed", "ground-cursor")
"""Variables of CSS that text stands on; the last two are ours: a row under the cursor."""

INKS: Final = (
    "foreground",
    "foreground-muted",
    "text-primary",
    "text-success",
    "text-warning",
    "text-error",
    "text-accent",
)
"""Variables of CSS that text is drawn in, each on any of the grounds."""

STEPS: Final = 40
_POINTED: Final = 0.08
_CURSOR: Final = 0.18


def luminance(color: Color) -> float:
    """Return the relative luminance of a colour (WCAG 2), 0 to 1."""
    parts = [value / 255 for value in color.rgb]
    r, g, b = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two opaque colours (WCAG 2), 1 to 21."""
    lower, higher = sorted((luminance(one), luminance(other)))
    return (higher + 0.05) / (lower + 0.05)


def legible(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a theme with legible inks, and with the grounds of the cursor.

    The colours of a terminal's own palette are not known: they stay as they are.
    """
    if variables["background"].startswith("ansi"):
        cursor = {"ground-pointed": "ansi_default", "ground-cursor": variables["primary-muted"]}
        return {**variables, **cursor, "ink-on-primary": variables["background"]}
    behind, ink = (Color.parse(variables[name]) for name in ("background", "foreground"))
    primary = Color.parse(variables["primary"])
    grounds = [behind, *(_opaque(variables[name], behind) for name in ("surface", "panel"))]
    grounds += [grounds[1].blend(ink, _POINTED), behind.blend(primary, _CURSOR)]
    found = dict(zip(GROUNDS, (one.hex for one in grounds), strict=True))
    found |= {name: _adjusted(_opaque(variables[name], behind), grounds).hex for name in INKS}
    found["ink-on-primary"] = _adjusted(behind, [primary]).hex
    return {**variables, **found}


def _opaque(text: str, behind: Color) -> Color:
    color = Color.parse(text)
    return behind + color if color.a < 1 else color


def _adjusted(ink: Color, grounds: Iterable[Color]) -> Color:
    """Return the ink, as little changed towards white or black as is legible on all grounds."""
    behind = list(grounds)
    found = next((one for one in _blends(ink) if _worst(one, behind) >= LEAST), None)
    return found or max(_blends(ink), key=lambda one: _worst(one, behind))


def _blends(ink: Color) -> Iterator[Color]:
    """Yield the ink in steps towards white and black, the least changed first."""
    for step in range(STEPS + 1):
        for end in (Color(255, 255, 255), Color(0, 0, 0)):
            yield ink.blend(end, step / STEPS)


def _worst(ink: Color, grounds: Iterable[Color]) -> float:
    return min(contrast(ink, ground) for ground in grounds)
