"""Track NIP-42 on one connection. AUTH happens on demand, and each request is sent again once."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from nostr_client.codecs.event import EventTemplate

if TYPE_CHECKING:
    from nostr_client.protocol.state import PendingRequest

AUTH_KIND: Final = 22242
MAX_CHALLENGE: Final = 1024
"""Most characters of a challenge to sign. Relays in use send 16 to 64."""

MAX_TRIES: Final = 3
"""Most AUTHs on one connection.

Some relays send a challenge with each refusal, and want the last.
"""


class Progress(Enum):
    """Steps of AUTH, in order."""

    IDLE = auto()
    WANTED = auto()
    SENT = auto()
    ACCEPTED = auto()
    REFUSED = auto()


class AuthState:
    """The newest challenge and the progress of AUTH. `able`: whether there is a signer."""

    def __init__(self, able: bool) -> None:
        self.able = able
        self.challenge: str | None = None
        self.progress = Progress.IDLE
        self.reason = ""
        self._event_id = ""
        self._signed: str | None = None
        self._tries = 0

    def challenged(self, challenge: str) -> bool:
        """Note a challenge. Return False if the challenge cannot be signed safely."""
        if not 0 < len(challenge) <= MAX_CHALLENGE or not challenge.isprintable():
            return False
        self.challenge = challenge
        return True

    def may_retry(self, request: PendingRequest) -> bool:
        """Return True if AUTH can still help this request."""
        return self.able and not request.resent and self.progress is not Progress.REFUSED

    def want(self) -> bool:
        """Note that a request waits for AUTH. Return True for the first one."""
        first = self.progress is Progress.IDLE
        if first:
            self.progress = Progress.WANTED
        return first

    def sent(self, event_id: str) -> None:
        """Note that the AUTH event was sent."""
        self._event_id = event_id
        self._signed = self.challenge
        self._tries += 1
        self.progress = Progress.SENT

    def outdated(self) -> bool:
        """Return True if the refused AUTH answered an older challenge, and another is allowed."""
        return self._signed != self.challenge and self._tries < MAX_TRIES

    def is_answer(self, event_id: str) -> bool:
        """Return True if an OK with this id answers the AUTH event."""
        return self.progress is Progress.SENT and event_id == self._event_id

    @property
    def over(self) -> bool:
        """Whether AUTH was accepted or refused."""
        return self.progress in (Progress.ACCEPTED, Progress.REFUSED)

    def settled(self, accepted: bool, reason: str) -> None:
        """Note the relay's answer, or the outcome after a timeout."""
        self.reason = reason
        self.progress = Progress.ACCEPTED if accepted else Progress.REFUSED


def auth_template(relay: str, challenge: str, created_at: int) -> EventTemplate:
    """Return the event to sign for a challenge (NIP-42).

    `relay` is the URL that the relay expects.
    """
    tags = (("relay", relay), ("challenge", challenge))
    return EventTemplate(kind=AUTH_KIND, tags=tags, created_at=created_at)
