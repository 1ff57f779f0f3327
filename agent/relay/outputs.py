"""Declares what a session returns: frames as text, and jobs as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from agent.relay.privacy import Viewer
from nostr_client.codecs.event import Event
from nostr_client.codecs.filters import Filter

if TYPE_CHECKING:
    from nostr_client.negentropy.reconcile import Responder


_encode = msgspec.json.Encoder().encode


class ServerSubscription:
    """One open REQ: first its stored events, then EOSE, then live ones.

    Live events that arrive before EOSE wait in `backlog`. `sent` holds ids of stored events that
    were sent, for as long as a commit under way may announce one of them again.
    """

    __slots__ = (
        "backlog",
        "backlog_size",
        "filters",
        "head",
        "live",
        "overflown",
        "raw_head",
        "sent",
        "sub_id",
    )

    def __init__(self, sub_id: str, filters: tuple[Filter, ...]) -> None:
        self.sub_id = sub_id
        self.filters = filters
        self.head = f'["EVENT",{_encode(sub_id).decode()},'
        self.raw_head = self.head.encode()
        self.backlog: list[tuple[str, str]] = []
        self.backlog_size = 0
        self.sent: set[str] | None = set()
        self.live = False
        self.overflown = False

    def frame(self, event_json: str) -> str:
        """The EVENT frame of this subscription around an event's JSON."""
        return f"{self.head}{event_json}]"

    def raw_frame(self, event_json: bytes) -> bytes:
        """As `frame`, in UTF-8."""
        return b"%b%b]" % (self.raw_head, event_json)

    def settle(self) -> None:
        """Every commit that the stored events may have seen is announced: forget their ids."""
        self.sent = None


class FetchJob(msgspec.Struct, frozen=True, eq=False):
    """Stored events for a subscription; `ServerSession.stored` and `end_stored` get the results."""

    subscription: ServerSubscription
    filters: tuple[Filter, ...]
    viewer: Viewer


class CountJob(msgspec.Struct, frozen=True, eq=False):
    """A COUNT; the result goes to `ServerSession.counted`."""

    query_id: str
    filters: tuple[Filter, ...]
    viewer: Viewer
    offset: int | None
    """HLL offset when registers are wanted, else None."""


class MergedJob(msgspec.Struct, frozen=True, eq=False):
    """A COUNT of merged numbers; the answer is a frame."""

    query_id: str
    filters: tuple[Filter, ...]


class SaveJob(msgspec.Struct, frozen=True, eq=False):
    """An EVENT that was let in; the outcome goes to `ServerSession.saved`."""

    event: Event


class NegOpenJob(msgspec.Struct, frozen=True, eq=False):
    """A snapshot for a NIP-77 session; the result goes to `ServerSession.neg_opened`."""

    sub_id: str
    wanted: tuple[Filter, ...] | str
    """Filters, or the id of the event that holds them."""

    message: bytes
    viewer: Viewer


class NegStepJob(msgspec.Struct, frozen=True, eq=False):
    """One reconciliation step over a snapshot; the reply goes to `ServerSession.neg_stepped`."""

    sub_id: str
    message: bytes
    state: NegState


@dataclass(slots=True, eq=False)
class NegState:
    """One NIP-77 session: its snapshot behind an engine, and when it was last used."""

    sub_id: str
    used_at: float
    items: int = 0
    engine: Responder | None = None
    job: NegOpenJob | NegStepJob | None = None


class Listen(msgspec.Struct, frozen=True, eq=False):
    """Send new events to `subscription` from now on."""

    subscription: ServerSubscription


class Unlisten(msgspec.Struct, frozen=True, eq=False):
    """No more new events for `subscription`."""

    subscription: ServerSubscription


class Settle(msgspec.Struct, frozen=True, eq=False):
    """Call `subscription.settle()` once the commits under way are announced."""

    subscription: ServerSubscription


class Disconnect(msgspec.Struct, frozen=True):
    """Close the connection with a WebSocket code and a reason."""

    code: int
    reason: str


Job = FetchJob | CountJob | MergedJob | SaveJob | NegOpenJob | NegStepJob
Output = str | Job | Listen | Unlisten | Settle | Disconnect
