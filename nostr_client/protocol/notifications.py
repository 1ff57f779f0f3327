"""What one relay connection reports to its owner: frozen values that `protocol.Connection` returns.

A request ends in exactly one of them: an answer, or a failure that carries the error to raise.
"""

from __future__ import annotations

import msgspec

from nostr_client.codecs.event import Event
from nostr_client.codecs.messages import Closed, CountAnswer, NegErr, NegMsg, Notice, Ok
from nostr_client.errors import RelayError


class EventMatched(msgspec.Struct, frozen=True):
    """An event that matches the filters of an open subscription; not yet verified."""

    sub_id: str
    event: Event
    size: int
    """Length of the frame, in characters of its text or bytes."""


class StoredEnd(msgspec.Struct, frozen=True):
    """EOSE of a live subscription: what follows is new."""

    sub_id: str


class SubscriptionEnded(msgspec.Struct, frozen=True):
    """No more events will come; `error` is None when the relay delivered all that was asked."""

    sub_id: str
    error: RelayError | None


class CountAnswered(msgspec.Struct, frozen=True):
    """The relay's COUNT; a NOTICE received while it was pending stands among its warnings."""

    query_id: str
    answer: CountAnswer


class CountFailed(msgspec.Struct, frozen=True):
    """No count will come."""

    query_id: str
    error: RelayError


class PublishAnswered(msgspec.Struct, frozen=True):
    """The relay's OK for an EVENT, accepted or not."""

    event_id: str
    ok: Ok


class PublishFailed(msgspec.Struct, frozen=True):
    """No OK will come; whether the relay kept the event is not known."""

    event_id: str
    error: RelayError


class AuthNeeded(msgspec.Struct, frozen=True):
    """A request waits for NIP-42; sign `Connection.challenge` as soon as there is one."""


class ChallengeReceived(msgspec.Struct, frozen=True):
    """The relay sent a usable challenge. Nothing is signed for it unless a request needs it."""

    challenge: str


class AuthSettled(msgspec.Struct, frozen=True):
    """The relay answered the AUTH event."""

    accepted: bool
    message: str


class NoticeReceived(msgspec.Struct, frozen=True):
    """Prose from the relay, about nothing in particular."""

    message: str


class HelloReceived(msgspec.Struct, frozen=True):
    """HELLO; `count` is whether the relay says it can count, None where it does not say."""

    count: bool | None


class NegReceived(msgspec.Struct, frozen=True):
    """A frame about an open NIP-77 session; a Notice may be about any session that is open."""

    sub_id: str
    message: NegMsg | NegErr | Closed | Notice


class NegEnded(msgspec.Struct, frozen=True):
    """The connection broke under an open NIP-77 session."""

    sub_id: str
    error: RelayError


class Abused(msgspec.Struct, frozen=True):
    """The relay floods this connection with frames that nobody asked for: hang up."""

    error: RelayError


Notification = (
    EventMatched
    | StoredEnd
    | SubscriptionEnded
    | CountAnswered
    | CountFailed
    | PublishAnswered
    | PublishFailed
    | AuthNeeded
    | ChallengeReceived
    | AuthSettled
    | NoticeReceived
    | HelloReceived
    | NegReceived
    | NegEnded
    | Abused
)
