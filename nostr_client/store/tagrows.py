"""The tag rows of one batch, in the order of the tag index.

Kept as flat columns: four tags an event as tuples of their own are what the garbage collector
would spend its time on, and rows in the order of the index touch each of its pages once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from nostr_client.event import Event, Tags

    TagRow = tuple[int, int, int, int, int]


class TagRows:
    """Gathers the rows of events; `of_tags` gives the hashes of an event's tags."""

    def __init__(self, of_tags: Callable[[Tags], Collection[int]]) -> None:
        self._of_tags = of_tags
        self._hashes: list[int] = []
        self._counts: list[int] = []
        self._events: list[int] = []

    def add(self, event: Event, seq: int, a: int) -> None:
        """The rows of one event; `a` is its author's number."""
        hashes = self._of_tags(event.tags)
        if hashes:
            self._hashes.extend(hashes)
            self._counts.append(len(hashes))
            self._events.extend((event.created_at, seq, event.kind, a))

    def ordered(self) -> Iterator[TagRow]:
        """Rows for INSERT_TAG, ascending by hash."""
        hashes = np.array(self._hashes, np.int64)
        order = hashes.argsort(kind="stable")
        of_event = np.repeat(np.arange(len(self._counts)), self._counts)[order]
        columns = np.array(self._events, np.int64).reshape(-1, 4)[of_event].T
        rest: Iterable[list[int]] = (column.tolist() for column in columns)
        return zip(hashes[order].tolist(), *rest, strict=True)
