"""What became of our cards at each relay, and what the cards of others assert."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class RelayDelivery(msgspec.Struct, kw_only=True):
    """The result for one relay.

    - `taken`: number of accepted events.
    - `refused`: number of refused events, by reason.
    - `left`: number of events that the relay has not accepted yet.
    - `error`: why the run stopped for this relay, or sent it nothing.
    - `unread`: why the run did not read all events of the key on this relay.
    - `others`: number of cards of the key on this relay that are newer than the cards that this
      store signed; another program uses the key.
    """

    taken: int = 0
    refused: dict[str, int] = {}
    left: int = 0
    error: str = ""
    unread: str = ""
    others: int = 0


class PublishReport(msgspec.Struct, kw_only=True):
    """The result of one run.

    - `signed`: number of new cards.
    - `unchanged`: number of cards that did not change.
    - `retracted`: number of deleted cards.
    - `withheld`: number of cards that the run did not publish, by reason.
    - `without_card`: number of stored authors and events that get no card, if the run publishes
      cards of all; by noun and reason, as `author: reason`.
    - `incomplete`: number of published cards without fields; by fields and reason, as
      `field, field: reason`.
    - `ahead`: number of seconds by which the newest published card of the run's subjects is ahead
      of the clock, if it is more than a minute.
    - `relays`: the result for each relay, by normalised URL.
    """

    signed: int = 0
    unchanged: int = 0
    retracted: int = 0
    withheld: dict[str, int] = {}
    without_card: dict[str, int] = {}
    incomplete: dict[str, int] = {}
    ahead: int = 0
    relays: dict[str, RelayDelivery] = {}

    @property
    def is_done(self) -> bool:
        """Whether every relay has all cards, and no other program uses the key."""
        return not any(one.left or one.others for one in self.relays.values())

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
    """A number that one provider (NIP-85) asserts.

    - `provider`: pubkey of the provider.
    - `field`: the field of the card, as `kind:tag`.
    - `counted_at`: time of the count in Unix seconds, as the provider says; None without a card, or
      if the card is dated in the future.
    - `relays`: normalised URLs of the relays that sent the provider's newest card.
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
