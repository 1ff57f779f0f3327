"""Define the notifications that `protocol.Connection` returns to its owner. They are frozen values.

Each request ends with exactly one of them: an answer, or a failure with the error to raise.
"""

from __future__ import annotations

import msgspec

from nostr_client.codecs.event import Event
from nostr_client.codecs.messages import Closed, CountAnswer, NegErr, NegMsg, Notice, Ok
from nostr_client.errors import RelayError


class EventMatched(msgspec.Struct, frozen=True):
    """An event that matches the filters of an open subscription. It is not yet verified."""

    sub_id: str
    event: Event
    size: int
    """Length of the frame as it was given, in bytes or in characters of a text."""


class StoredEnd(msgspec.Struct, frozen=True):
    """EOSE of a live subscription. Later events are new."""

    sub_id: str


class SubscriptionEnded(msgspec.Struct, frozen=True):
    """No more events come. `error` is None if the relay delivered everything."""

    sub_id: str
    error: RelayError | None


class CountAnswered(msgspec.Struct, frozen=True):
    """The relay's answer to a COUNT.

    Its warnings include each NOTICE that came while it was pending.
    """

    query_id: str
    answer: CountAnswer


class CountFailed(msgspec.Struct, frozen=True):
    """No count comes."""

    query_id: str
    error: RelayError


class PublishAnswered(msgspec.Struct, frozen=True):
    """The relay's OK for an EVENT, accepted or not."""

    event_id: str
    ok: Ok


class PublishFailed(msgspec.Struct, frozen=True):
    """No OK comes. The relay may or may not have kept the event."""

    event_id: str
    error: RelayError


class AuthNeeded(msgspec.Struct, frozen=True):
    """A request needs NIP-42. Sign the relay's challenge as soon as there is one."""


class ChallengeReceived(msgspec.Struct, frozen=True):
    """The relay sent a usable challenge. The client signs it only if a request needs AUTH."""

    challenge: str


class AuthSettled(msgspec.Struct, frozen=True):
    """AUTH has an outcome."""

    accepted: bool
    message: str


class NoticeReceived(msgspec.Struct, frozen=True):
    """Text for people, which belongs to no request."""

    message: str


class HelloReceived(msgspec.Struct, frozen=True):
    """HELLO. `count` is whether the relay says that it answers COUNT, or None."""

    count: bool | None


class NegReceived(msgspec.Struct, frozen=True):
    """A frame about an open NIP-77 session. A Notice may be about any open session."""

    sub_id: str
    message: NegMsg | NegErr | Closed | Notice


class NegEnded(msgspec.Struct, frozen=True):
    """An open NIP-77 session failed, e.g. because the connection broke."""

    sub_id: str
    error: RelayError


class Abused(msgspec.Struct, frozen=True):
    """The relay sends too many unrequested frames. The owner must close the connection."""

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
