"""Where NIP-42 stands on one connection: on demand only, one AUTH, one resend for each request."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from nostr_client.codecs.event import EventTemplate

if TYPE_CHECKING:
    from nostr_client.protocol.state import PendingRequest

AUTH_KIND: Final = 22242
MAX_CHALLENGE: Final = 1024
"""Characters of a challenge that we sign; relays in use send 16 to 64."""

MAX_TRIES: Final = 3
"""AUTHs on one connection: some relays make a challenge with each refusal, and want the last."""


class Progress(Enum):
    """Steps of AUTH, in order."""

    IDLE = auto()
    WANTED = auto()
    SENT = auto()
    ACCEPTED = auto()
    REFUSED = auto()


class AuthState:
    """The newest challenge, and what came of it; `able` is whether somebody can sign."""

    def __init__(self, able: bool) -> None:
        self.able = able
        self.challenge: str | None = None
        self.progress = Progress.IDLE
        self.reason = ""
        self._event_id = ""
        self._signed: str | None = None
        self._tries = 0

    def challenged(self, challenge: str) -> bool:
        """Note a challenge; False for one that cannot be signed safely."""
        if not 0 < len(challenge) <= MAX_CHALLENGE or not challenge.isprintable():
            return False
        self.challenge = challenge
        return True

    def may_retry(self, request: PendingRequest) -> bool:
        """Whether AUTH can still help this request."""
        return self.able and not request.resent and self.progress is not Progress.REFUSED

    def want(self) -> bool:
        """A request waits for AUTH; True for the first."""
        first = self.progress is Progress.IDLE
        if first:
            self.progress = Progress.WANTED
        return first

    def sent(self, event_id: str) -> None:
        """Our AUTH event went out."""
        self._event_id = event_id
        self._signed = self.challenge
        self._tries += 1
        self.progress = Progress.SENT

    def outdated(self) -> bool:
        """Whether what was refused answered an older challenge, and the newest may be tried."""
        return self._signed != self.challenge and self._tries < MAX_TRIES

    def is_answer(self, event_id: str) -> bool:
        """Whether an OK with this id answers our AUTH event."""
        return self.progress is Progress.SENT and event_id == self._event_id

    @property
    def over(self) -> bool:
        """Whether there is an outcome."""
        return self.progress in (Progress.ACCEPTED, Progress.REFUSED)

    def settled(self, accepted: bool, reason: str) -> None:
        """The relay, or our patience, answered."""
        self.reason = reason
        self.progress = Progress.ACCEPTED if accepted else Progress.REFUSED


def auth_template(relay: str, challenge: str, created_at: int) -> EventTemplate:
    """What to sign for a challenge (NIP-42); `relay` as the relay knows itself."""
    tags = (("relay", relay), ("challenge", challenge))
    return EventTemplate(kind=AUTH_KIND, tags=tags, created_at=created_at)
