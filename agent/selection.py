"""Selects the relays of a watch or sync, and the filters of a sync. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.codecs.display import seconds
from nostr_client.codecs.relay_url import normalize
from nostr_client.codecs.typed import filter_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from agent.specs import SyncSpec
    from nostr_client.codecs.filters import Filter


def sync_filters(sync: SyncSpec, now: float) -> tuple[Filter, ...]:
    """The filters of a sync that starts `now`. Raises InvalidInput.

    Limits are removed: an older version stored syncs with one.
    """
    found = tuple(filter_of(one).replace(limit=None) for one in sync.filters)
    if sync.since is None:
        return found
    least = int(now - seconds(sync.since))
    return tuple(one.replace(since=max(least, one.since or 0)) for one in found)


def chosen(relays: Sequence[str], default: Sequence[str], denied: Collection[str]) -> list[str]:
    """The relays to ask: those named, else the defaults; normalised, each once, none denied."""
    out = frozenset(map(normalize, denied))
    urls = dict.fromkeys(normalize(url) for url in relays or default)
    return [url for url in urls if url not in out]
