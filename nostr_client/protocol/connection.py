"""The state machine: requests out, frames in, and what each frame means.

The caller moves text: `receive()` takes each frame and returns what happened, `outgoing()` gives
what is to be sent. Nothing that a relay sends makes `receive` raise, and nothing it sends is kept
beyond what our own requests and `Limits` allow. Time is the caller's too: deadlines end a request
by `abandon_*`.

Ids are ours: `r` for REQ, `c` for COUNT, `n` for NEG-OPEN, one number for all, never used twice.
A COUNT with the id of an open REQ replaces it on some relays, so the three never meet.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from nostr_client.codecs import messages as wire
from nostr_client.codecs.display import plural
from nostr_client.codecs.reasons import (
    Reason,
    classify,
    is_crowded,
    means_count_unsupported,
    prefix,
)
from nostr_client.errors import (
    MalformedMessage,
    ProtocolError,
    RelayError,
    RelayRefused,
    Unsupported,
    clip,
)
from nostr_client.options import Limits
from nostr_client.protocol import notifications as note
from nostr_client.protocol.auth import AuthState, Progress
from nostr_client.protocol.notifications import Notification
from nostr_client.protocol.state import FrameTally, PendingRequest, Phase, SubscriptionTally
from nostr_client.protocol.subscriptions import Subscriptions, new_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter

Notifications = list[Notification]
_CLIPPED = 200  # bytes of a NOTICE that a warning quotes
_LATE_PER_JUNK = 100  # after a CLOSE thousands of events may be under way; one of these is no fault


class Connection:
    """The state of one connection to `relay` (its URL, for errors); see the module.

    `can_auth`: whether somebody can sign for NIP-42; without, `auth-required:` is final.
    `ids`: where numbers for ids come from; one source over all reconnects keeps them unique.
    """

    def __init__(
        self,
        relay: str,
        *,
        limits: Limits | None = None,
        can_auth: bool = False,
        ids: Iterator[int] | None = None,
    ) -> None:
        self.relay = relay
        self.limits = limits or Limits()
        self.tally = FrameTally()
        self._ids = ids or itertools.count(1)
        self.max_message_bytes = self.limits.message_bytes_out
        self.count_answered = False
        self.count_unsupported = False
        self.auth = AuthState(can_auth)
        self.subscriptions = Subscriptions(
            relay, self._send, most=self.limits.subscriptions, most_tags=self.limits.event_tags
        )
        self._counts: dict[str, PendingRequest] = {}
        self._publishes: dict[str, PendingRequest] = {}
        self._negs: set[str] = set()
        self.outbox: list[str] = []
        """What is to be sent, oldest first; `outgoing` takes it."""
        self._junk = 0

    # Requests.

    def subscribe(
        self,
        filters: Sequence[Filter],
        *,
        live: bool = True,
        tally: SubscriptionTally | None = None,
    ) -> str:
        """Ask for events; returns the id. Not `live`: CLOSE is sent at EOSE, and it is over.

        Waits for a slot where the relay allows no more subscriptions. Raises RelayRefused when the
        message is longer than the relay takes or too many requests wait already.
        """
        waiting = self.subscriptions.waiting
        if waiting >= self.limits.waiting:
            text = plural(waiting, "request waits", "requests wait")
            raise self._refusal(f"rate-limited: {text} for this relay")
        sub_id = self._new_id("r")
        text = self._fitting(wire.Req(sub_id, tuple(filters)))
        slack = self.limits.mismatch_slack
        state = new_state(text, filters, live=live, tally=tally, slack=slack)
        self.subscriptions.add(sub_id, state)
        return sub_id

    def unsubscribe(self, sub_id: str) -> None:
        """End a subscription; what still comes for it is counted and dropped. Unknown ids pass."""
        self.subscriptions.close(sub_id)

    def count(self, filters: Sequence[Filter]) -> str:
        """Ask for a count (NIP-45); returns the id. Raises RelayRefused as `subscribe`."""
        query_id = self._new_id("c")
        request = PendingRequest(self._fitting(wire.Count(query_id, tuple(filters))))
        self._counts[query_id] = request
        self._send(request.text)
        return query_id

    def abandon_count(self, query_id: str) -> None:
        """Forget a COUNT, at its deadline; a late answer is counted and dropped."""
        self._counts.pop(query_id, None)

    def publish(self, event: Event) -> None:
        """Send an event; an event whose OK is pending already is not sent again."""
        if event.id not in self._publishes:
            request = PendingRequest(self._fitting(wire.Publish(event)))
            self._publishes[event.id] = request
            self._send(request.text)

    def abandon_publish(self, event_id: str) -> None:
        """Forget a pending OK, at its deadline."""
        self._publishes.pop(event_id, None)

    def neg_open(self, query: Filter | str, message: bytes) -> str:
        """Open a NIP-77 session; returns the id. Its frames come as `NegReceived`."""
        sub_id = self._new_id("n")
        self._send(self._fitting(wire.NegOpen(sub_id, query, message)))
        self._negs.add(sub_id)
        return sub_id

    def neg_send(self, sub_id: str, message: bytes) -> None:
        """Send the next message of an open NIP-77 session."""
        self._send(self._fitting(wire.NegMsg(sub_id, message)))

    def neg_close(self, sub_id: str) -> None:
        """End a NIP-77 session; unknown ids pass."""
        if sub_id in self._negs:
            self._negs.discard(sub_id)
            self._send(wire.NegClose(sub_id).to_json())

    # NIP-42.

    def authenticate(self, event: Event) -> None:
        """Send the signed answer to the challenge; parked requests follow when it is settled."""
        self._send(self._fitting(wire.Auth(event)))
        self.auth.sent(event.id)

    def auth_unanswered(self) -> Notifications:
        """No OK came for AUTH: some relays accept in silence, so ask once more, then believe."""
        return self._settle_auth(True, "no answer to AUTH")

    def auth_failed(self, reason: str) -> Notifications:
        """Nothing could be signed: what waits for it is refused."""
        return self._settle_auth(False, f"auth-required: {reason}")

    # Text.

    def outgoing(self) -> list[str]:
        """Take what is to be sent, oldest first."""
        taken, self.outbox = self.outbox, []
        return taken

    def receive(self, frame: str | bytes) -> Notifications:
        """Take one frame and say what it means; never raises for what a relay sends."""
        self.tally.frames += 1
        try:
            message = wire.parse_relay_message(frame, max_size=self.limits.message_bytes_in)
        except MalformedMessage as error:
            return self._rejected(error, len(frame))
        if type(message) is wire.EventReceived:
            return self._known(self.subscriptions.event(message, len(frame)))
        return self._HANDLERS[type(message)](self, message)

    def lost(self, error: RelayError) -> Notifications:
        """The connection broke: ends all but live subscriptions, which the owner asks for again."""
        ended: Notifications = [note.CountFailed(one, error) for one in self._counts]
        ended += [note.PublishFailed(one, error) for one in self._publishes]
        ended += [note.NegEnded(one, error) for one in self._negs]
        self._counts.clear()
        self._publishes.clear()
        self._negs.clear()
        ended += self.subscriptions.lost(error)
        self.outbox.clear()
        return ended

    # Messages of the relay.

    def _eose(self, message: wire.Eose) -> Notifications:
        return self._known(self.subscriptions.stored_end(message.sub_id, message.hint))

    def _closed(self, message: wire.Closed) -> Notifications:
        key, reason = message.sub_id, message.message
        if self.subscriptions.get(key):
            return self._subscription_closed(key, reason)
        if key in self._counts:
            return self._count_closed(key, reason)
        if key in self._negs:
            self._negs.discard(key)
            return [note.NegReceived(key, message)]
        return self._known(None)

    def _subscription_closed(self, key: str, reason: str) -> Notifications:
        state = self.subscriptions.get(key)
        if state is None or state.phase is not Phase.SENT:
            return self._known(None)
        if classify(reason) is Reason.AUTH_REQUIRED and self.auth.may_retry(state):
            return self._retry(state, key)
        if is_crowded(reason) and self.subscriptions.crowded(key):
            return []
        state.phase = Phase.PARKED  # it is not open there: no CLOSE for it
        self.subscriptions.drop(key)
        clean = state.stored_end and not reason.strip()
        return [note.SubscriptionEnded(key, None if clean else self._refusal(reason))]

    def _count_closed(self, key: str, reason: str) -> Notifications:
        request = self._counts[key]
        if classify(reason) is Reason.AUTH_REQUIRED and self.auth.may_retry(request):
            return self._retry(request, key)
        del self._counts[key]
        self.count_unsupported |= means_count_unsupported(reason)
        return [note.CountFailed(key, self._refusal(reason))]

    def _count_answer(self, message: wire.CountAnswer) -> Notifications:
        request = self._counts.pop(message.query_id, None)
        self.count_answered = True
        if request is None:
            return self._known(None)
        notices = tuple(f"NOTICE before the answer: {text}" for text in request.notices)
        if notices:
            message = msgspec.structs.replace(message, warnings=message.warnings + notices)
        return self._known([note.CountAnswered(message.query_id, message)])

    def _ok(self, message: wire.Ok) -> Notifications:
        if self.auth.is_answer(message.event_id):
            if not message.accepted and self.auth.outdated():
                self.auth.progress = Progress.WANTED
                return [note.AuthNeeded()]
            return self._settle_auth(message.accepted, message.message)
        key = self._published(message)
        if key is None:
            return self._known(None)
        request = self._publishes[key]
        wants_auth = not message.accepted and message.reason is Reason.AUTH_REQUIRED
        if wants_auth and self.auth.may_retry(request):
            return self._retry(request, key)
        del self._publishes[key]
        return self._known([note.PublishAnswered(key, message)])

    def _published(self, message: wire.Ok) -> str | None:
        """Whose OK it is: some relays put "?" or "" for the id of an event that they refuse."""
        if message.accepted:
            return message.event_id if message.event_id in self._publishes else None
        return self._meant(message.event_id)

    def _meant(self, event_id: str) -> str | None:
        """The pending EVENT that a malformed OK is about: the one it names, or the only one."""
        if event_id in self._publishes:
            return event_id
        alone = len(self._publishes) == 1 and len(event_id) < 64
        return next(iter(self._publishes)) if alone else None

    def _notice(self, message: wire.Notice) -> Notifications:
        self.tally.notices += 1
        out: Notifications = [note.NoticeReceived(clip(message.message))]
        sent = {k: r for k, r in self._counts.items() if r.phase is Phase.SENT}
        if sent and not self.count_answered and means_count_unsupported(message.message):
            return out + self._counts_unsupported(list(sent), message.message)
        for request in sent.values():
            request.hear(clip(message.message, _CLIPPED))
        out += [note.NegReceived(key, message) for key in self._negs]
        return out

    def _counts_unsupported(self, keys: list[str], reason: str) -> Notifications:
        self.count_unsupported = True
        for key in keys:
            del self._counts[key]
        error = Unsupported(reason, prefix="unsupported", relay=self.relay)
        return [note.CountFailed(key, error) for key in keys]

    def _challenge(self, message: wire.AuthChallenge) -> Notifications:
        if not self.auth.challenged(message.challenge):
            return self._flooding()
        return [note.ChallengeReceived(message.challenge), *self._flooding()]

    def _hello(self, message: wire.Hello) -> Notifications:
        return [note.HelloReceived(message.count), *self._flooding()]

    def _neg(self, message: wire.NegMsg | wire.NegErr) -> Notifications:
        if message.sub_id not in self._negs:
            return self._known(None)
        if type(message) is wire.NegErr:
            self._negs.discard(message.sub_id)
        return self._known([note.NegReceived(message.sub_id, message)])

    def _rejected(self, error: MalformedMessage, size: int) -> Notifications:
        """A frame that is no message: it still ends the request that it names."""
        self.tally.rejected += 1
        failure = ProtocolError(str(error), relay=self.relay)
        if error.label == "COUNT" and error.ref in self._counts:
            del self._counts[error.ref]
            return [note.CountFailed(error.ref, failure)]
        if error.label == "OK" and (key := self._meant(error.ref)):
            del self._publishes[key]
            return [note.PublishFailed(key, failure)]
        if error.label.startswith("NEG-") and error.ref in self._negs:
            self.neg_close(error.ref)
            return [note.NegEnded(error.ref, failure)]
        if error.label == "EOSE" and self.subscriptions.get(
            error.ref
        ):  # only what follows the id cannot be read
            return self._eose(wire.Eose(error.ref))
        if error.label == "EVENT":
            return self.subscriptions.malformed(error.ref, size) or self._flooding()
        return self._flooding()

    # Shared steps.

    def _known(self, found: Notifications | None) -> Notifications:
        """Count a frame as asked for (a list) or as one that comes late or unasked (None)."""
        if found is None:
            self.tally.unknown += 1
            return self._flooding(1)
        if found:
            self._junk = 0
        return found

    def _flooding(self, weight: int = _LATE_PER_JUNK) -> Notifications:
        """Count junk; a useful frame forgives it."""
        before, self._junk = self._junk, self._junk + weight
        most = self.limits.junk_frames * _LATE_PER_JUNK
        if not before < most <= self._junk:
            return []
        text = f"at least {self.limits.junk_frames} frames in a row that nobody asked for"
        return [note.Abused(ProtocolError(text, relay=self.relay))]

    def _settle_auth(self, accepted: bool, message: str) -> Notifications:
        self.auth.settled(accepted, clip(message))
        out: Notifications = [note.AuthSettled(accepted, clip(message))]
        for key in self.subscriptions.parked:
            out += self._release(key, note.SubscriptionEnded, accepted, message)
        for table, failed in (
            (self._counts, note.CountFailed),
            (self._publishes, note.PublishFailed),
        ):
            for key in [k for k, r in table.items() if r.phase is Phase.PARKED]:
                out += self._release(key, failed, accepted, message)
        return out

    def _release(
        self, key: str, failed: Callable[[str, RelayError], Notification], ok: bool, reason: str
    ) -> Notifications:
        request = self.subscriptions.get(key) or self._counts.get(key) or self._publishes[key]
        if ok:
            return self._retry(request, key)
        self.subscriptions.drop(key)
        self._counts.pop(key, None)
        self._publishes.pop(key, None)
        return [failed(key, self._refusal(reason))]

    def _retry(self, request: PendingRequest, key: str) -> Notifications:
        """Send once more what AUTH was asked for: now, or when AUTH is settled."""
        if request.phase is not Phase.PARKED:
            self._junk = 0  # it answered us, beside a challenge for each refusal
        request.phase = Phase.PARKED
        if self.auth.progress is not Progress.ACCEPTED:
            return [note.AuthNeeded()] if self.auth.want() else []
        request.resent = True
        if self.subscriptions.get(key) is request:
            self.subscriptions.retry(key)
        else:
            request.phase = Phase.SENT
            self._send(request.text)
        return []

    def _new_id(self, letter: str) -> str:
        return f"{letter}{next(self._ids)}"

    def _fitting(self, message: wire.ClientMessage) -> str:
        text = message.to_json()
        size = len(text.encode())
        if size > self.max_message_bytes:
            most = self.max_message_bytes
            raise self._refusal(f"invalid: the message has {size} bytes, this relay takes {most}")
        return text

    def _send(self, text: str) -> None:
        self.outbox.append(text)

    def _refusal(self, reason: str) -> RelayRefused:
        kind = Unsupported if classify(reason) is Reason.UNSUPPORTED else RelayRefused
        return kind(reason, prefix=prefix(reason), relay=self.relay)

    _HANDLERS: ClassVar[dict[type, Callable[[Connection, Any], Notifications]]] = {
        wire.Eose: _eose,
        wire.Closed: _closed,
        wire.CountAnswer: _count_answer,
        wire.Ok: _ok,
        wire.Notice: _notice,
        wire.AuthChallenge: _challenge,
        wire.Hello: _hello,
        wire.NegMsg: _neg,
        wire.NegErr: _neg,
    }
