"""Decide which events a sync sends to a relay: no private or foreign ones unless named. Pure.

An event that is held back never reaches a relay. The report counts such events by reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from nostr_client.codecs.private_kinds import (
    is_named,
    is_protected,
    reposts_protected,
    stays,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter


class WithheldReason(StrEnum):
    """Why an event is not sent."""

    PROTECTED = "protected by their author (NIP-70)"
    REPOST = "reposts of protected events"
    PRIVATE = "of private kinds"
    FOREIGN = "by others, or no key was given"


@dataclass(frozen=True, slots=True)
class Sharing:
    """Rule for the events to send. `pubkey`: the key (hex) that answers AUTH, or None for no own
    key.

    An event of a private kind goes if a filter that matches it names its kind. An event of another
    author goes if a filter that matches it names its kind or its author. `private` and `others`
    send all of these.
    """

    filters: Sequence[Filter]
    pubkey: str | None = None
    private: bool = False
    others: bool = False

    def holds_back(self, event: Event) -> WithheldReason | None:
        """Return why the event must not be sent, or None."""
        if is_protected(event) and event.pubkey != self.pubkey:
            return WithheldReason.PROTECTED
        if reposts_protected(event):
            return WithheldReason.REPOST
        if stays(event, self.filters, include_private=self.private):
            return WithheldReason.PRIVATE
        own = event.pubkey == self.pubkey or self.others
        if own or is_named(event, self.filters) or self._names_author(event):
            return None
        return WithheldReason.FOREIGN

    def _names_author(self, event: Event) -> bool:
        return any(one.authors is not None and one.matches(event) for one in self.filters)
