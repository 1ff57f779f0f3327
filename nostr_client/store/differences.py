"""What checks of derived rows find: differences, each with its table, its key and its cause."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from nostr_client.errors import clip

KEPT: Final = 1_000
"""Differences of each table that are listed, so that none hides those of another."""

_OF_EVENTS: Final = ("event", "tag", "tomb", "vanished")
"""Tables whose differences are named by an event's id."""


class Difference(msgspec.Struct, frozen=True):
    """One thing that is not as it would be rebuilt, and why."""

    table: str
    key: str
    cause: str

    @property
    def event_id(self) -> str:
        """The id of the event that it is about, "" where it is about none."""
        return self.key if self.table in _OF_EVENTS and len(self.key) == 64 else ""

    @property
    def text(self) -> str:
        """For people, beside the event's id."""
        if self.event_id or not self.key:
            return self.cause
        return f"{self.table} {self.key}: {self.cause}"


class Found:
    """Differences as they are found: all counted, the first ones of each table kept."""

    def __init__(self) -> None:
        self.number = 0
        self.kept: list[Difference] = []
        self.compared: dict[str, int] = {}
        self._of: Counter[str] = Counter()

    def add(self, table: str, key: object, cause: str) -> None:
        """Count one difference."""
        self.number += 1
        self._of[table] += 1
        if self._of[table] <= KEPT:
            self.kept.append(Difference(table, clip(str(key), 300), clip(cause, 200)))
