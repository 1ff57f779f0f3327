"""Live events between two questions: which filters one relay is asked to send news for. Pure.

A relay allows some twenty subscriptions and some ten filters in each, and watches are many: those
of one shape (the same kinds, one tag) become one filter over all their targets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_FILTERS: Final = 10
"""Filters of one REQ: what relays allow."""

MOST_VALUES: Final = 400
"""Targets in one filter."""

MOST_REQUESTS: Final = 3
"""Subscriptions of one relay that only listen; what does not fit is asked for at its turn."""


class Shape(NamedTuple):
    """What filters have in common that differ in the values of their one tag alone."""

    kinds: tuple[int, ...] | None
    tag: str


def live_filters(
    filters: Iterable[Filter], since: int, stored: int | None = None
) -> list[list[Filter]]:
    """Filters for a few REQs that together send what any of `filters` matches, from `since` on.

    `stored`: the most events that each may bring of those that the relay has already.
    """
    alike: dict[Shape, list[str]] = {}
    alone: list[Filter] = []
    for one in dict.fromkeys(filters):
        shape = _shape(one)
        if shape is None:
            alone.append(one.replace(since=max(since, one.since or 0), limit=stored))
        else:
            alike.setdefault(shape, []).extend(one.tags[0][1])
    made = [
        found for shape, values in alike.items() for found in _made(shape, values, since, stored)
    ]
    whole = [*made, *alone]
    parts = [whole[n : n + MOST_FILTERS] for n in range(0, len(whole), MOST_FILTERS)]
    return parts[:MOST_REQUESTS]


def _shape(one: Filter) -> Shape | None:
    """Kinds and tag name, where a filter says nothing else."""
    plain = one.ids is None and one.authors is None and one.search is None
    if not plain or one.since is not None or one.until is not None or len(one.tags) != 1:
        return None
    return Shape(one.kinds, one.tags[0][0])


def _made(shape: Shape, values: list[str], since: int, stored: int | None) -> Iterable[Filter]:
    wanted = list(dict.fromkeys(values))
    for n in range(0, len(wanted), MOST_VALUES):
        part = wanted[n : n + MOST_VALUES]
        yield Filter(kinds=shape.kinds, tags={shape.tag: part}, since=since, limit=stored)
