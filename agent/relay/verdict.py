"""The store's outcome as the OK message of NIP-01."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.store.base import Status

if TYPE_CHECKING:
    from nostr_client.store.base import Outcome

_ACCEPTED = {
    Status.STORED: "",
    Status.EPHEMERAL: "",
    Status.DUPLICATE: "duplicate: already have this event",
    Status.SUPERSEDED: "duplicate: already have a newer version of this event",
}
_REFUSED = {
    Status.EXPIRED: "invalid: this event has expired",
    Status.INVALID: "invalid: this event breaks a rule",
}


def verdict(outcome: Outcome | str) -> tuple[bool, str]:
    """Whether an event is accepted, and the reason; a text is why its signature or id fails."""
    if isinstance(outcome, str):
        return False, f"invalid: {outcome}"
    if outcome.status in _ACCEPTED:
        return True, _ACCEPTED[outcome.status]
    return False, _REFUSED.get(outcome.status) or f"blocked: {outcome.reason}"
