"""Renders the number of a watch as an SVG badge, and as JSON for shields.io. Pure.

A badge shows a name and a number, and how sure the number is: nothing else leaves by it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape, quoteattr

from nostr_client.codecs.display import said

if TYPE_CHECKING:
    from agent.api.schema import WatchState

_SURE: Final = "2e7d32"
_UNSURE: Final = "8a6100"
_UNKNOWN: Final = "5c5c5c"
"""Colours of an exact number, of any other, and of none; white text on each has a contrast of 5:1
at least."""

_LETTER: Final = 6.6
"""Width of a letter at 11 pixels, a little more than most have: no text is cut."""

_SVG: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img"'
    " aria-label={alt}><title>{title}</title>"
    '<rect width="{left}" height="20" fill="#404040"/>'
    '<rect x="{left}" width="{right}" height="20" fill="#{colour}"/>'
    '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11"'
    ' text-anchor="middle"><text x="{at_label}" y="14">{label}</text>'
    '<text x="{at_message}" y="14">{message}</text></g></svg>'
)


def shields(state: WatchState) -> dict[str, Any]:
    """The endpoint form of shields.io: label, message and colour."""
    label, message, colour = _parts(state)
    return {
        "schemaVersion": 1,
        "label": label,
        "message": message,
        "color": colour,
        "isError": state.figure is None,
    }


def svg(state: WatchState) -> str:
    """A flat badge of 20 pixels' height; texts are escaped."""
    label, message, colour = _parts(state)
    left, right = _width(label), _width(message)
    return _SVG.format(
        width=left + right,
        left=left,
        right=right,
        colour=colour,
        alt=quoteattr(f"{label}: {message}"),
        title=escape(f"{label}: {message}"),
        label=escape(label),
        message=escape(message),
        at_label=left / 2,
        at_message=left + right / 2,
    )


def _parts(state: WatchState) -> tuple[str, str, str]:
    label = state.spec.query or state.spec.name
    if state.figure is None:
        return label, "not known", _UNKNOWN
    if state.figure.exact and not state.figure.as_said:
        return label, f"{state.figure.value:,}", _SURE
    return label, said(state.figure), _UNSURE


def _width(text: str) -> int:
    return math.ceil(len(text) * _LETTER) + 12
