"""Indexes live subscriptions by their filters, so that an event finds its readers without a scan.

Each filter is in the index under its most selective list: ids, else one tag attribute, else
authors, else kinds. An event is looked up under its own id, tags, author and kind; only filters
found there are matched whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter

S = TypeVar("S")
Key = tuple[str, str | int] | None
"""("id", hex), ("#e", value), ("author", hex), ("kind", 7), or None for filters without a list."""


class Hub(Generic[S]):
    """Subscriber `S` (any hashable) to its filters; each subscriber gets an event once."""

    def __init__(self) -> None:
        self._keys: dict[S, list[Key]] = {}
        self._index: dict[Key, dict[S, list[Filter]]] = {}
        self._tag_names: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, subscriber: S, filters: Sequence[Filter]) -> None:
        """Register `subscriber`, in place of what it had."""
        self.remove(subscriber)
        known = self._keys[subscriber] = []
        for wanted in filters:
            for key in _keys(wanted):
                self._index.setdefault(key, {}).setdefault(subscriber, []).append(wanted)
                self._count_name(key, 1)
                known.append(key)

    def remove(self, subscriber: S) -> None:
        """Remove `subscriber`; an unknown one is not an error."""
        for key in self._keys.pop(subscriber, ()):
            self._drop(key, subscriber)

    def match(self, event: Event) -> Iterator[S]:
        """The subscribers with a filter that `event` matches, each once."""
        matched: set[S] = set()
        for key in self._lookups(event):
            for subscriber, filters in self._index.get(key, {}).items():
                if subscriber not in matched and any(f.matches(event) for f in filters):
                    matched.add(subscriber)
                    yield subscriber

    def _lookups(self, event: Event) -> Iterator[Key]:
        yield ("id", event.id)
        yield ("author", event.pubkey)
        yield ("kind", event.kind)
        yield None
        if self._tag_names:
            pairs = {(f"#{t[0]}", t[1]) for t in event.tags if len(t) > 1 and len(t[0]) == 1}
            yield from (pair for pair in pairs if pair[0] in self._tag_names)

    def _drop(self, key: Key, subscriber: S) -> None:
        row = self._index.get(key)
        if row is None or subscriber not in row:
            return
        self._count_name(key, -len(row.pop(subscriber)))
        if not row:
            del self._index[key]

    def _count_name(self, key: Key, change: int) -> None:
        if key is None or not key[0].startswith("#"):
            return
        left = self._tag_names.get(key[0], 0) + change
        if left:
            self._tag_names[key[0]] = left
        else:
            self._tag_names.pop(key[0], None)


def _keys(wanted: Filter) -> list[Key]:
    """The keys of a filter in the index: one for each value of its most selective list."""
    if wanted.matches_nothing:
        return []
    if wanted.ids is not None:
        return [("id", value) for value in dict.fromkeys(wanted.ids)]
    if wanted.tags:
        name, values = min(wanted.tags, key=lambda item: len(item[1]))
        return [(name, value) for value in dict.fromkeys(values)]
    if wanted.authors is not None:
        return [("author", value) for value in dict.fromkeys(wanted.authors)]
    if wanted.kinds is not None:
        return [("kind", kind) for kind in dict.fromkeys(wanted.kinds)]
    return [None]
