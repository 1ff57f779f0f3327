"""Define the answer to one request as a value that can be judged without the relay."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from nostr_client.codecs.event import Event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.messages import Hint
from nostr_client.codecs.reasons import Reason, classify, prefix

if TYPE_CHECKING:
    from collections.abc import Sequence


class ExchangeEnd(StrEnum):
    """How an exchange ended."""

    ANSWERED = "answered"
    CLOSED = "closed"  # refused with CLOSED, OK false or NEG-ERR
    NOTICE = "notice"  # only a NOTICE before the deadline
    SILENT = "silent"
    DROPPED = "dropped"  # the connection ended


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """Fields that every exchange has.

    `reason` is the relay's text in CLOSED or NOTICE, or why the connection ended. `label` is the
    type of the message that ended the exchange, as the relay wrote it. `malformed` has the error of
    each frame that is not a valid message.
    """

    end: ExchangeEnd
    reason: str = ""
    label: str = ""
    notices: tuple[str, ...] = ()
    malformed: tuple[str, ...] = ()

    @property
    def about(self) -> Reason:
        """The part of the answer that the reason is about."""
        return classify(self.reason)

    @property
    def in_words(self) -> str:
        """How the relay refused, as a part of a sentence."""
        match self.end:
            case ExchangeEnd.SILENT:
                return "it does not answer"
            case ExchangeEnd.DROPPED:
                return f"it drops the connection ({self.reason})"
            case ExchangeEnd.NOTICE:
                return f"it answers only with a NOTICE: {self.reason!r}"
            case _:
                return f"it says {self.reason!r}"

    @property
    def is_refused(self) -> bool:
        """Whether the relay refused with CLOSED and a prefix, as NIP-01 describes."""
        shouted = self.reason.startswith("ERROR: ")
        return self.end is ExchangeEnd.CLOSED and bool(prefix(self.reason)) and not shouted


class ReqExchange(Exchange, frozen=True, kw_only=True):
    """Answer to a REQ, with `events` in the order in which the relay sent them.

    `forged`: ids of events with an invalid id or signature.
    """

    filters: tuple[Filter, ...] = ()
    events: tuple[Event, ...] = ()
    forged: frozenset[str] = frozenset()
    hint: Hint | None = None

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the valid events that match."""
        return frozenset(one.id for one in self.matching)

    @property
    def matching(self) -> Sequence[Event]:
        """The valid events that match the filter."""
        return [
            one
            for one in self.events
            if one.id not in self.forged and any(each.matches(one) for each in self.filters)
        ]


class CountExchange(Exchange, frozen=True, kw_only=True):
    """Answer to a COUNT. `count` is None if there is no number. `hll` has 256 raw registers."""

    filters: tuple[Filter, ...] = ()
    count: int | None = None
    approximate: bool = False
    limited: bool = False
    hll: bytes | None = None
    warnings: tuple[str, ...] = ()


class NegExchange(Exchange, frozen=True, kw_only=True):
    """Result of a NIP-77 session.

    `have`: ids (hex) that only the client has. `need`: ids (hex) that only the relay has.
    """

    filter: Filter = Filter()
    have: frozenset[str] = frozenset()
    need: frozenset[str] = frozenset()
    rounds: int = 0
    first: bytes = b""
    """The relay's first message."""
    largest: int = 0
    """Characters of the relay's longest message."""
