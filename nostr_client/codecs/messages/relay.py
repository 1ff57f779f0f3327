"""What a relay sends: frozen values that know their text and what their reasons mean."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from nostr_client.codecs import reasons
from nostr_client.codecs.event import Event
from nostr_client.codecs.messages.client import NegMsg, dump
from nostr_client.codecs.reasons import Reason


class Said:
    """What words of a relay mean; for messages that have them in `message`."""

    __slots__ = ()

    message: str

    @property
    def prefix(self) -> str:
        """The machine-readable word before the colon of the message, or ""."""
        return reasons.prefix(self.message)

    @property
    def reason(self) -> Reason:
        """What the message is about."""
        return reasons.classify(self.message)


class EventReceived(msgspec.Struct, frozen=True, gc=False):
    """An event for a subscription (NIP-01); its structure is checked, id and signature are not."""

    sub_id: str
    event: Event

    def to_json(self) -> str:
        """`["EVENT", id, event]`."""
        return dump("EVENT", self.sub_id, self.event)


class Hint(StrEnum):
    """What a relay says at EOSE about the events that it did not send (NIP-67)."""

    FINISH = "finish"
    """It sent every stored event that matches."""
    MORE = "more"
    """It holds more events that match."""


class Eose(msgspec.Struct, frozen=True):
    """The end of a stored query (NIP-01); `hint` is None where the relay gives none (NIP-67)."""

    sub_id: str
    hint: Hint | None = None

    def to_json(self) -> str:
        """`["EOSE", id]`, with `[hint]` as a third element where there is one."""
        tail = () if self.hint is None else ([self.hint],)
        return dump("EOSE", self.sub_id, *tail)


class Ok(Said, msgspec.Struct, frozen=True):
    """The answer to EVENT or AUTH (NIP-01); `event_id` is what the relay wrote, even `?`."""

    event_id: str
    accepted: bool
    message: str = ""

    @property
    def holds_event(self) -> bool:
        """True when the relay has the event now: `duplicate:` is success, also beside `false`."""
        return self.accepted or self.reason is Reason.DUPLICATE

    def to_json(self) -> str:
        """`["OK", event id, accepted, message]`, always four elements."""
        return dump("OK", self.event_id, self.accepted, self.message)


class Closed(Said, msgspec.Struct, frozen=True):
    """The relay ended or refused a REQ, COUNT or NEG session (NIP-01)."""

    sub_id: str
    message: str = ""

    def to_json(self) -> str:
        """`["CLOSED", id, message]`."""
        return dump("CLOSED", self.sub_id, self.message)


class Notice(Said, msgspec.Struct, frozen=True):
    """Words for a person, about nothing in particular (NIP-01)."""

    message: str

    def to_json(self) -> str:
        """`["NOTICE", message]`."""
        return dump("NOTICE", self.message)


class CountAnswer(msgspec.Struct, frozen=True):
    """A count (NIP-45): `hll` is 256 raw registers; None for what the relay did not say.

    `limited` is strfry's: the count is a lower bound. `merged` is ours: the count was made from
    the answers of other relays. `warnings` are about parts that were left out or repaired; they are
    not sent.
    """

    query_id: str
    count: int
    approximate: bool | None = None
    limited: bool | None = None
    hll: bytes | None = None
    warnings: tuple[str, ...] = ()
    merged: bool | None = None

    def to_json(self) -> str:
        """`["COUNT", id, {"count": ...}]`."""
        body: dict[str, Any] = {"count": self.count}
        if self.approximate is not None:
            body["approximate"] = self.approximate
        if self.limited is not None:
            body["limited"] = self.limited
        if self.hll is not None:
            body["hll"] = self.hll.hex()
        if self.merged is not None:
            body["merged"] = self.merged
        return dump("COUNT", self.query_id, body)


class AuthChallenge(msgspec.Struct, frozen=True):
    """A challenge to sign (NIP-42)."""

    challenge: str

    @property
    def usable(self) -> bool:
        """False for the empty challenge: an answer to it could be used by anyone."""
        return bool(self.challenge)

    def to_json(self) -> str:
        """`["AUTH", challenge]`."""
        return dump("AUTH", self.challenge)


class NegErr(msgspec.Struct, frozen=True):
    """A negentropy session refused or broken (NIP-77); it is over.

    `max_records` is the fourth element, or the maximum that the prose of an overflow names.
    """

    sub_id: str
    reason: str
    max_records: int | None = None

    @property
    def prefix(self) -> str:
        """The machine-readable word before the colon of the reason, or ""."""
        return reasons.prefix(self.reason)

    @property
    def code(self) -> Reason:
        """What the reason is about, the older text's codes included."""
        return reasons.classify(self.reason)

    @property
    def overflow(self) -> bool:
        """True when the query has more records than the relay works through: split its window."""
        return reasons.is_overflow(self.reason)

    @property
    def message(self) -> str:
        """What the reason says to a person, without prefix or code."""
        return reasons.message(self.reason)

    def to_json(self) -> str:
        """`["NEG-ERR", id, reason]`, with the maximum as a fourth element where there is one."""
        tail = () if self.max_records is None else (self.max_records,)
        return dump("NEG-ERR", self.sub_id, self.reason, *tail)


class Hello(msgspec.Struct, frozen=True):
    """What a relay can do (the message that the NIP-45 text names); a hint only."""

    count: bool | None = None

    def to_json(self) -> str:
        """`["HELLO", {"count": ...}]`."""
        return dump("HELLO", {} if self.count is None else {"count": self.count})


RelayMessage = (
    EventReceived
    | Eose
    | Ok
    | Closed
    | Notice
    | CountAnswer
    | AuthChallenge
    | NegErr
    | NegMsg
    | Hello
)
