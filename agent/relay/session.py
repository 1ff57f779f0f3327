"""Runs one client's connection as a state machine: frames in, frames and jobs out. No I/O.

The owner feeds `receive` with frames, does the jobs that come out, and hands their results back
(`stored`, `end_stored`, `counted`, `saved`, `failed`, and `negotiation` for NIP-77). What has
been cancelled or replaced meanwhile is dropped here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.relay.limits import CountFigures, check_filters, clamp, shared_offset
from agent.relay.negotiation import Negotiation
from agent.relay.outputs import (
    CountJob,
    Disconnect,
    FetchJob,
    Listen,
    MergedJob,
    NegOpenJob,
    NegStepJob,
    SaveJob,
    ServerSubscription,
    Settle,
    Unlisten,
)
from agent.relay.policy import WriteContext, everything, judged
from agent.relay.privacy import Viewer
from nostr_client.codecs.keys import verify
from nostr_client.codecs.kinds import CLIENT_AUTH
from nostr_client.codecs.messages import (
    Auth,
    AuthChallenge,
    Close,
    Closed,
    Count,
    CountAnswer,
    Eose,
    Hello,
    NegClose,
    NegErr,
    NegMsg,
    NegOpen,
    Notice,
    Ok,
    Publish,
    Req,
    parse_client_message,
)
from nostr_client.codecs.private_kinds import is_protected, reposts_protected
from nostr_client.codecs.relay_url import normal_or_none
from nostr_client.errors import InvalidEvent, MalformedMessage, StoreError, clip
from nostr_client.store.base import SaveStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from agent.relay.context import Peer, RelayContext
    from agent.relay.outputs import Job, Output
    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.messages import ClientMessage, Hint
    from nostr_client.store.base import SaveOutcome
    from nostr_client.store.rows import JsonEvent


MAX_KEYS = 32
"""Keys that one connection may prove: apps hold a handful, each costs a set entry per query."""


REASON_BYTES = 200
"""Bytes of a reason: it quotes what a stranger sent."""

_EVENT_ID = re.compile(r"[0-9a-f]{64}")


def refuse_frame(error: MalformedMessage) -> str:
    """The frame that answers one which could not be read because of `error`."""
    reason = f"invalid: {clip(str(error), REASON_BYTES)}"
    if error.label in ("REQ", "COUNT") and error.ref:
        return Closed(error.ref, reason).to_json()
    if error.label in ("NEG-OPEN", "NEG-MSG") and error.ref:
        return NegErr(error.ref, reason).to_json()
    if error.label in ("EVENT", "AUTH") and _EVENT_ID.fullmatch(error.ref):
        return Ok(error.ref, accepted=False, message=reason).to_json()
    return Notice(reason).to_json()


_ACCEPTED = {
    SaveStatus.STORED: "",
    SaveStatus.EPHEMERAL: "",
    SaveStatus.DUPLICATE: "duplicate: already have this event",
    SaveStatus.SUPERSEDED: "duplicate: already have a newer version of this event",
}
_REFUSED = {
    SaveStatus.EXPIRED: "invalid: this event has expired",
    SaveStatus.INVALID: "invalid: this event breaks a rule",
}


def verdict(outcome: SaveOutcome | StoreError | str) -> tuple[bool, str]:
    """Whether an event is accepted, and the reason; a text is why its signature or id fails."""
    if isinstance(outcome, str):
        return False, f"invalid: {outcome}"
    if isinstance(outcome, StoreError):  # good or not, the event may come again
        return False, f"error: not stored: {outcome}"
    if outcome.status in _ACCEPTED:
        return True, _ACCEPTED[outcome.status]
    return False, _REFUSED.get(outcome.status) or f"blocked: {outcome.reason}"


class ServerSession:
    """The relay's side of one connection."""

    def __init__(self, context: RelayContext, peer: Peer) -> None:
        self._context = context
        self._options = context.options
        self._peer = peer
        self._subscriptions: dict[str, ServerSubscription] = {}
        self._challenged = False
        self.viewer = Viewer(self._options.private_kinds)
        self.negotiation = Negotiation(context)

    @property
    def subscriptions(self) -> Iterable[ServerSubscription]:
        """The open subscriptions."""
        return self._subscriptions.values()

    def open(self) -> list[Output]:
        """What a new client hears first."""
        out: list[Output] = []
        if self._options.hello:
            out.append(Hello(count=self._options.count).to_json())
        if self._options.auth_on_connect:
            out.extend(self._challenge())
        return out

    def close(self) -> list[Output]:
        """Release what a closed connection holds."""
        self.negotiation.close_all()
        out: list[Output] = [Unlisten(subscription) for subscription in self.subscriptions]
        self._subscriptions.clear()
        return out

    def receive(self, frame: str | bytes) -> list[Output]:
        """Take one frame from the client; never raises for what it holds."""
        self._context.counted["frames"] += 1
        try:
            message = self._read(frame)
        except MalformedMessage as error:
            self._context.counted["invalid_frames"] += 1
            return [refuse_frame(error)]
        return self._dispatch(message)

    def _read(self, frame: str | bytes) -> ClientMessage:
        if isinstance(frame, bytes):
            raise MalformedMessage("a binary frame; NIP-01 has text frames only")
        return parse_client_message(frame, max_size=self._options.limits.message_bytes)

    def _dispatch(self, message: ClientMessage) -> list[Output]:
        match message:
            case Publish():
                return self._publish(message.event)
            case Req():
                return self._req(message)
            case Close():
                return self._close(message.sub_id)
            case Count():
                return self._count(message)
            case Auth():
                return self._auth(message.event)
            case NegOpen():
                return self._neg_open(message)
            case NegMsg():
                return self.negotiation.message(message)
            case NegClose():
                return self.negotiation.close(message.sub_id)

    # EVENT

    def _publish(self, event: Event) -> list[Output]:
        reason = self._write_refusal(event)
        if not reason:
            return [SaveJob(event)]
        self._context.counted["refused_events"] += 1
        return [
            *self._challenge_for(reason),
            Ok(event.id, accepted=False, message=reason).to_json(),
        ]

    def _write_refusal(self, event: Event) -> str:
        if self._peer.read_only_reason:
            return self._peer.read_only_reason
        if not self._within_rate():
            self._context.counted["rate_limited_events"] += 1
            return "rate-limited: slow down, send it again later"
        if event.kind == CLIENT_AUTH:
            return "invalid: AUTH events are sent by AUTH and never stored"
        # NIP-70: the tag asks relays to accept the event only from its author.
        if event.pubkey not in self.viewer.keys and is_protected(event):
            prefix = "restricted" if self.viewer.keys else "auth-required"
            return f"{prefix}: a protected event is taken from its author only"
        if reposts_protected(event):
            return "blocked: a repost must not carry a protected event"
        policy = self._options.write_policy
        if policy is everything:
            return ""
        context = WriteContext(self._peer.address, self.viewer.keys)
        return judged(policy, event, context, self._context.counted)

    def _within_rate(self) -> bool:
        now = self._context.clock.monotonic()
        return self._peer.bucket.allow(now) and self._peer.address_bucket.allow(now)

    def saved(self, event: Event, outcome: SaveOutcome | StoreError | str) -> list[str]:
        """The answer to an EVENT: by the store's outcome after its commit, or why it is invalid."""
        accepted, reason = verdict(outcome)
        if accepted and not reason:  # by far the most: an id is hex
            return [f'["OK","{event.id}",true,""]']
        if isinstance(outcome, StoreError):
            self._context.counted["failed_jobs"] += 1
        return [Ok(event.id, accepted=accepted, message=reason).to_json()]

    # REQ

    def _req(self, message: Req) -> list[Output]:
        out = self._drop(message.sub_id)
        refusal = self._filters_refusal(message.filters)
        if not refusal and len(self._subscriptions) >= self._options.limits.subscriptions:
            refusal = f"rate-limited: too many subscriptions, {len(self._subscriptions)} are open"
        if refusal:
            return [*out, *self._refuse(message.sub_id, refusal)]
        subscription = ServerSubscription(message.sub_id, message.filters)
        self._subscriptions[message.sub_id] = subscription
        filters = tuple(clamp(f, self._options.limits) for f in message.filters)
        return [*out, Listen(subscription), FetchJob(subscription, filters, self.viewer)]

    def _filters_refusal(self, filters: Sequence[Filter]) -> str:
        return check_filters(
            filters, self._options.limits, search=self._context.search
        ) or self.viewer.refusal(filters)

    def _refuse(self, request_id: str, reason: str) -> list[Output]:
        return [*self._challenge_for(reason), Closed(request_id, reason).to_json()]

    def _close(self, sub_id: str) -> list[Output]:
        return self._drop(sub_id)

    def _drop(self, sub_id: str) -> list[Output]:
        subscription = self._subscriptions.pop(sub_id, None)
        return [] if subscription is None else [Unlisten(subscription)]

    def is_open(self, subscription: ServerSubscription) -> bool:
        """Whether `subscription` has neither been closed nor replaced."""
        return self._subscriptions.get(subscription.sub_id) is subscription

    def stored(self, job: FetchJob, events: Sequence[JsonEvent]) -> list[bytes]:
        """The frames of some stored events of `job`, newest first as the store gave them, in
        UTF-8."""
        subscription = job.subscription
        if not self.is_open(subscription) or subscription.sent is None:
            return []
        subscription.sent.update([event.id for event in events])
        return [subscription.raw_frame(event.json) for event in events]

    def end_stored(self, job: FetchJob, hint: Hint | None = None) -> list[Output]:
        """All stored events of `job` were given: EOSE, then what arrived meanwhile."""
        subscription = job.subscription
        if not self.is_open(subscription):
            return []
        if subscription.overflown:
            return self._end_subscription(subscription, "error: too many new events at once")
        subscription.live = True
        sent = subscription.sent or set()
        end = Eose(subscription.sub_id, hint).to_json()
        if not subscription.backlog:
            return [end, Settle(subscription)]
        late = [text for event_id, text in subscription.backlog if event_id not in sent]
        subscription.backlog.clear()
        return [end, *[subscription.frame(text) for text in late], Settle(subscription)]

    def live(self, subscription: ServerSubscription, event: Event, event_json: str) -> str | None:
        """The frame of a new event that matches `subscription`, or None when it gets none now."""
        if not self.is_open(subscription) or not self.viewer.may_see(event):
            return None
        if not subscription.live:
            self._keep_for_later(subscription, event, event_json)
            return None
        if subscription.sent and event.id in subscription.sent:
            return None
        return subscription.frame(event_json)

    def _keep_for_later(
        self, subscription: ServerSubscription, event: Event, event_json: str
    ) -> None:
        limits = self._options.limits
        subscription.backlog_size += len(event_json)
        too_many = len(subscription.backlog) >= limits.live_backlog
        if too_many or subscription.backlog_size > limits.send_bytes:
            subscription.overflown = True
            subscription.backlog.clear()
        if not subscription.overflown:
            subscription.backlog.append((event.id, event_json))

    def _end_subscription(self, subscription: ServerSubscription, reason: str) -> list[Output]:
        return [*self._drop(subscription.sub_id), Closed(subscription.sub_id, reason).to_json()]

    # COUNT

    def _count(self, message: Count) -> list[Output]:
        refusal = "" if self._options.count else "unsupported: COUNT is turned off here"
        refusal = refusal or self._filters_refusal(message.filters)
        if refusal:
            return self._refuse(message.query_id, refusal)
        filters = message.filters
        if any(f.limit is not None for f in filters):
            filters = tuple(f.replace(limit=None) for f in filters)
        offset = shared_offset(filters) if self._options.hll else None
        return [CountJob(message.query_id, filters, self.viewer, offset)]

    def counted(self, job: CountJob, figures: CountFigures) -> list[Output]:
        """The answer to a COUNT."""
        answer = CountAnswer(
            query_id=job.query_id,
            count=figures.count,
            approximate=False,
            hll=figures.registers,
        )
        return [answer.to_json()]

    # AUTH

    def _auth(self, event: Event) -> list[Output]:
        reason = self._auth_refusal(event)
        if not reason:
            self.viewer = replace(self.viewer, keys=self.viewer.keys | {event.pubkey})
        return [Ok(event.id, accepted=not reason, message=reason).to_json()]

    def _auth_refusal(self, event: Event) -> str:
        if not self._within_rate():
            return "rate-limited: slow down"
        if len(self.viewer.keys) >= MAX_KEYS and event.pubkey not in self.viewer.keys:
            return f"restricted: {MAX_KEYS} keys are the most for one connection"
        urls = self._context.urls | self._peer.urls
        now = self._context.clock.wall()
        window = self._options.auth_window_s
        return auth_refusal(event, self._peer.challenge, urls, now, window)

    def _challenge_for(self, reason: str) -> list[Output]:
        """The challenge, when `reason` asks for AUTH: a client needs it to answer."""
        return self._challenge() if reason.startswith("auth-required:") else []

    def _challenge(self) -> list[Output]:
        """The challenge, once: it holds for the whole connection."""
        if self._challenged:
            return []
        self._challenged = True
        return [AuthChallenge(self._peer.challenge).to_json()]

    # NEG

    def _neg_open(self, message: NegOpen) -> list[Output]:
        limits = self._options.limits
        if isinstance(message.filter, str):
            return self.negotiation.open(message, message.filter, self.viewer)
        filters = (message.filter,)
        refusal = check_filters(filters, limits, search=self._context.search)
        refusal = refusal or self.viewer.refusal(filters)
        if not refusal:
            return self.negotiation.open(message, filters, self.viewer)
        return [*self._challenge_for(refusal), *self.negotiation.refuse(message.sub_id, refusal)]

    def failed(self, job: Job, reason: str) -> list[Output]:
        """The job could not be done for a reason of ours (`error: …`): say so to who asked."""
        self._context.counted["failed_jobs"] += 1
        match job:
            case FetchJob():
                if not self.is_open(job.subscription):
                    return []
                return self._end_subscription(job.subscription, reason)
            case CountJob() | MergedJob():
                return [Closed(job.query_id, reason).to_json()]
            case SaveJob():
                return [Ok(job.event.id, accepted=False, message=reason).to_json()]
            case NegOpenJob() | NegStepJob():
                return [*self._challenge_for(reason), *self.negotiation.failed(job, reason)]

    def slow(self) -> Disconnect:
        """The client does not take what it asked for."""
        self._context.counted["slow_readers"] += 1
        return Disconnect(1008, "rate-limited: you read too slowly")


def auth_refusal(
    event: Event, challenge: str, urls: AbstractSet[str], now: float, window_s: int
) -> str:
    """Why `event` does not prove its key on this connection, or ""; `now` in Unix seconds."""
    if event.kind != CLIENT_AUTH:
        return f"invalid: AUTH takes an event of kind {CLIENT_AUTH}"
    if event.first_tag("challenge") != challenge:
        return "invalid: not the challenge of this connection"
    if normal_or_none(event.first_tag("relay") or "") not in urls:
        return "invalid: the relay tag names another relay"
    if abs(event.created_at - now) > window_s:
        return f"invalid: created_at is more than {window_s} s from now"
    try:
        verify(event)
    except InvalidEvent as error:
        return f"invalid: {error}"
    return ""
