"""The result of publishing cards: what was signed, what was withheld, and what each relay took."""

from __future__ import annotations

from typing import Any

import msgspec


class Delivery(msgspec.Struct, kw_only=True):
    """The result for one relay: events accepted, refused by reason, and left."""

    taken: int = 0
    refused: dict[str, int] = {}
    left: int = 0
    error: str = ""


class PublishReport(msgspec.Struct, kw_only=True):
    """The result of one run. `withheld`: cards that are not published, by reason."""

    signed: int = 0
    unchanged: int = 0
    retracted: int = 0
    withheld: dict[str, int] = {}
    incomplete: dict[str, int] = {}
    """Published cards by the fields that their readers miss."""
    relays: dict[str, Delivery] = {}
    """What each relay took, by normalised URL."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return made
