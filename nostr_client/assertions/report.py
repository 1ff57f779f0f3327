"""What became of our cards at each relay, and what the cards of others assert."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class RelayDelivery(msgspec.Struct, kw_only=True):
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
    relays: dict[str, RelayDelivery] = {}
    """What each relay took, by normalised URL."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return made


class AssertedStatus(StrEnum):
    """Whether a provider asserts a number; for every status but OK it is unknown."""

    OK = "ok"
    NO_CARD = "no_card"
    NO_FIELD = "no_field"
    EXPIRED = "expired"
    UNREACHABLE = "unreachable"


class Asserted(msgspec.Struct, frozen=True, kw_only=True):
    """What one provider (hex pubkey) asserts: a number that somebody else counted.

    `field`: as `kind:tag`. `counted_at`: Unix seconds, by the provider's word. `relays`: which
    relays sent its newest card, normalised URLs.
    """

    provider: str
    field: str
    status: AssertedStatus
    value: int | None = None
    counted_at: int | None = None
    relays: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the assertion as JSON values."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return made
