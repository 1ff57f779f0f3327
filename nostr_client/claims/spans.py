"""Sets of whole numbers as disjoint closed spans, ascending: which seconds of a relay were read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Span = tuple[int, int]
Spans = tuple[Span, ...]


def join(spans: Iterable[Span], start: int, end: int) -> Spans:
    """The set with `start..end` added; neighbours become one span."""
    if end < start:
        return tuple(spans)
    out: list[Span] = []
    for a, b in sorted([*spans, (start, end)]):
        if out and a <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], b))
        else:
            out.append((a, b))
    return tuple(out)


def gaps(spans: Iterable[Span], start: int, end: int) -> list[Span]:
    """The parts of `start..end` that the set does not hold, newest first."""
    found: list[Span] = []
    at = start
    for a, b in spans:
        if a > end:
            break
        if a > at:
            found.append((at, a - 1))
        at = max(at, b + 1)
    if at <= end:
        found.append((at, end))
    return found[::-1]


def holds(spans: Iterable[Span], second: int) -> bool:
    """Whether the set holds one second."""
    return any(a <= second <= b for a, b in spans)
