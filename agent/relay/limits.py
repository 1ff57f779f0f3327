"""Limits on what one request may ask for: pure checks of filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.relay.options import RelayLimits
    from nostr_client.filters import Filter


def check_filters(filters: Sequence[Filter], limits: RelayLimits, *, search: bool) -> str:
    """Why `filters` ask for too much, or for what is not here; "" when they may be asked."""
    if len(filters) > limits.filters:
        return f"invalid: too many filters, {limits.filters} are the most"
    for wanted in filters:
        values = _values(wanted)
        if values > limits.filter_values:
            return f"invalid: {values} values in a filter, {limits.filter_values} are the most"
        if wanted.search is not None and not search:
            return "unsupported: this store keeps no search index"
    return ""


def clamp(wanted: Filter, limits: RelayLimits) -> Filter:
    """`wanted` with the limit that it gets: its own up to the largest, else the default.

    A filter that names ids gets them all.
    """
    if wanted.limit is not None:
        most = min(wanted.limit, limits.max_limit)
    else:
        most = limits.max_limit if wanted.ids is not None else limits.default_limit
    return wanted if wanted.limit == most else wanted.replace(limit=most)


def _values(wanted: Filter) -> int:
    lists = (wanted.ids, wanted.authors, wanted.kinds, *(values for _, values in wanted.tags))
    return sum(len(values) for values in lists if values is not None)
