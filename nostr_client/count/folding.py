"""Fewer filters for the same question: several filters of one query are OR'd (NIP-01).

No two relay families agree on what a COUNT of several filters means, so one filter is sent per
COUNT, and filters are folded into one wherever that is exact. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nostr_client.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Iterable


def fold(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    """The fewest filters, by simple folding, that together match the same events.

    `limit` is dropped (it would cap the count), filters that match nothing and repetitions too;
    two that differ in one list become one. The order of attributes and values is kept, as the
    HLL offset depends on it.
    """
    left = [f.replace(limit=None) for f in filters]
    left = [f for f in left if not f.matches_nothing]
    folded: list[Filter] = []
    for candidate in left:
        _insert(folded, candidate)
    return tuple(folded)


def _insert(folded: list[Filter], candidate: Filter) -> None:
    """Add a filter; one that was folded may fit with a third, so it is inserted anew."""
    for i, other in enumerate(folded):
        together = _joined(other, candidate)
        if together is not None:
            del folded[i]
            _insert(folded, together)
            return
    folded.append(candidate)


def _joined(a: Filter, b: Filter) -> Filter | None:
    """One filter for two that are equal but for one list; None where there is no such filter."""
    one, two = a.to_dict(), b.to_dict()
    if set(one) != set(two):
        return None
    differing = [name for name in one if not _same(one[name], two[name])]
    if not differing:
        return a
    (name, *rest) = differing
    if rest or not isinstance(one[name], list):
        return None
    return Filter.from_json(one | {name: list(dict.fromkeys([*one[name], *two[name]]))})


def _same(a: Any, b: Any) -> bool:
    return set(a) == set(b) if isinstance(a, list) else a == b
