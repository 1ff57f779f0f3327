"""Declares what a session returns: frames as text, and jobs as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from agent.relay.privacy import Viewer
    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.negentropy.reconcile import Responder


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
        "sent",
        "sub_id",
    )

    def __init__(self, sub_id: str, filters: tuple[Filter, ...]) -> None:
        self.sub_id = sub_id
        self.filters = filters
        self.head = f'["EVENT",{msgspec.json.encode(sub_id).decode()},'
        self.backlog: list[tuple[str, str]] = []
        self.backlog_size = 0
        self.sent: set[str] | None = set()
        self.live = False
        self.overflown = False

    def frame(self, event_json: str) -> str:
        """The EVENT frame of this subscription around an event's JSON."""
        return f"{self.head}{event_json}]"

    def settle(self) -> None:
        """Every commit that the stored events may have seen is announced: forget their ids."""
        self.sent = None


@dataclass(frozen=True, slots=True, eq=False)
class FetchJob:
    """Stored events for a subscription; `ServerSession.stored` and `end_stored` get the results."""

    subscription: ServerSubscription
    filters: tuple[Filter, ...]
    viewer: Viewer


@dataclass(frozen=True, slots=True, eq=False)
class CountJob:
    """A COUNT; the result goes to `ServerSession.counted`."""

    query_id: str
    filters: tuple[Filter, ...]
    viewer: Viewer
    offset: int | None
    """HLL offset when registers are wanted, else None."""


@dataclass(frozen=True, slots=True, eq=False)
class MergedJob:
    """A COUNT of merged numbers; the answer is a frame."""

    query_id: str
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SaveJob:
    """An EVENT that was let in; the outcome goes to `ServerSession.saved`."""

    event: Event


@dataclass(frozen=True, slots=True, eq=False)
class NegOpenJob:
    """A snapshot for a NIP-77 session; the result goes to `ServerSession.neg_opened`."""

    sub_id: str
    wanted: tuple[Filter, ...] | str
    """Filters, or the id of the event that holds them."""

    message: bytes
    viewer: Viewer


@dataclass(frozen=True, slots=True, eq=False)
class NegStepJob:
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


@dataclass(frozen=True, slots=True, eq=False)
class Listen:
    """Send new events to `subscription` from now on."""

    subscription: ServerSubscription


@dataclass(frozen=True, slots=True, eq=False)
class Unlisten:
    """No more new events for `subscription`."""

    subscription: ServerSubscription


@dataclass(frozen=True, slots=True, eq=False)
class Settle:
    """Call `subscription.settle()` once the commits under way are announced."""

    subscription: ServerSubscription


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection with a WebSocket code and a reason."""

    code: int
    reason: str


Job = FetchJob | CountJob | MergedJob | SaveJob | NegOpenJob | NegStepJob
Output = str | Job | Listen | Unlisten | Settle | Disconnect
