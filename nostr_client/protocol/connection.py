"""Run the state machine of one connection: requests out, frames in, and the meaning of frames.

The caller moves text. `receive()` takes each frame and returns notifications. `outgoing()` returns
text to send. No frame makes `receive` raise. Memory for a relay's frames is bounded by the client's
own requests and by `Limits`. The caller also keeps the time, and ends a request at its deadline
with `abandon_*`.

The client chooses ids: `r` for REQ, `c` for COUNT and `n` for NEG-OPEN, with one sequence of
numbers. An id is never used twice. On some relays a COUNT with the id of an open REQ replaces the
REQ, so ids of the three kinds always differ.
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
_CLIPPED = 200  # bytes of a NOTICE in a warning
# after a CLOSE thousands of events may still come, so each of them counts little
_LATE_PER_JUNK = 100


class Connection:
    """State of one connection to `relay` (its URL, for errors), as the module describes.

    `can_auth`: whether there is a signer for NIP-42. Without one, `auth-required:` is final. `ids`:
    source of numbers for ids. One source over all reconnects keeps ids unique.
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
        """Text to send, oldest first. `outgoing` takes it."""
        self._junk = 0

    # Requests.

    def subscribe(
        self,
        filters: Sequence[Filter],
        *,
        live: bool = True,
        tally: SubscriptionTally | None = None,
    ) -> str:
        """Ask for events and return the id. Without `live`, EOSE ends the subscription with CLOSE.

        Waits for a slot if the relay allows no more subscriptions. Raises RelayRefused if the
        message is too long for the relay, or if too many requests wait already.
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
        """End a subscription. Later events of it are counted and dropped. Ignores unknown ids."""
        self.subscriptions.close(sub_id)

    def count(self, filters: Sequence[Filter]) -> str:
        """Ask for a count (NIP-45) and return the id.

        Raises RelayRefused if the message is too long.
        """
        query_id = self._new_id("c")
        request = PendingRequest(self._fitting(wire.Count(query_id, tuple(filters))))
        self._counts[query_id] = request
        self._send(request.text)
        return query_id

    def abandon_count(self, query_id: str) -> None:
        """Forget a COUNT at its deadline. A late answer is counted and dropped."""
        self._counts.pop(query_id, None)

    def publish(self, event: Event) -> None:
        """Send an event, unless an OK for it is already pending."""
        if event.id not in self._publishes:
            request = PendingRequest(self._fitting(wire.Publish(event)))
            self._publishes[event.id] = request
            self._send(request.text)

    def abandon_publish(self, event_id: str) -> None:
        """Forget a pending OK, at its deadline."""
        self._publishes.pop(event_id, None)

    def neg_open(self, query: Filter | str, message: bytes) -> str:
        """Open a NIP-77 session and return the id. Its frames come as `NegReceived`."""
        sub_id = self._new_id("n")
        self._send(self._fitting(wire.NegOpen(sub_id, query, message)))
        self._negs.add(sub_id)
        return sub_id

    def neg_send(self, sub_id: str, message: bytes) -> None:
        """Send the next message of an open NIP-77 session."""
        self._send(self._fitting(wire.NegMsg(sub_id, message)))

    def neg_close(self, sub_id: str) -> None:
        """End a NIP-77 session. Ignores unknown ids."""
        if sub_id in self._negs:
            self._negs.discard(sub_id)
            self._send(wire.NegClose(sub_id).to_json())

    # NIP-42.

    def authenticate(self, event: Event) -> None:
        """Send the signed answer to the challenge. Parked requests follow when AUTH is settled."""
        self._send(self._fitting(wire.Auth(event)))
        self.auth.sent(event.id)

    def auth_unanswered(self) -> Notifications:
        """Treat a missing OK for AUTH as acceptance, because some relays accept without an answer.

        Parked requests are sent once more.
        """
        return self._settle_auth(True, "no answer to AUTH")

    def auth_failed(self, reason: str) -> Notifications:
        """Refuse the requests that wait for AUTH, because signing failed."""
        return self._settle_auth(False, f"auth-required: {reason}")

    # Text.

    def outgoing(self) -> list[str]:
        """Take the text to send, oldest first."""
        taken, self.outbox = self.outbox, []
        return taken

    def receive(self, frame: str | bytes) -> Notifications:
        """Process one frame and return its notifications. Never raises for a relay's frame."""
        self.tally.frames += 1
        try:
            message = wire.parse_relay_message(frame, max_size=self.limits.message_bytes_in)
        except MalformedMessage as error:
            return self._rejected(error, len(frame))
        if type(message) is wire.EventReceived:
            return self._known(self.subscriptions.event(message, len(frame)))
        return self._HANDLERS[type(message)](self, message)

    def lost(self, error: RelayError) -> Notifications:
        """End all requests except live subscriptions, after the connection broke.

        The owner of a live subscription asks for it again.
        """
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
        state.phase = Phase.PARKED  # the REQ is not open on the relay, so it needs no CLOSE
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
        """Return the event id of an OK.

        Some relays write "?" or "" for an event that they refuse.
        """
        if message.accepted:
            return message.event_id if message.event_id in self._publishes else None
        return self._meant(message.event_id)

    def _meant(self, event_id: str) -> str | None:
        """Return the pending event of a malformed OK: the event that it names, or the only one."""
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
        """Handle an invalid frame. The frame still ends the request that it names."""
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
        ):  # only the text after the id is unreadable
            return self._eose(wire.Eose(error.ref))
        if error.label == "EVENT":
            return self.subscriptions.malformed(error.ref, size) or self._flooding()
        return self._flooding()

    # Shared steps.

    def _known(self, found: Notifications | None) -> Notifications:
        """Count a frame as requested (a list), or as late or unrequested (None)."""
        if found is None:
            self.tally.unknown += 1
            return self._flooding(1)
        if found:
            self._junk = 0
        return found

    def _flooding(self, weight: int = _LATE_PER_JUNK) -> Notifications:
        """Count an unrequested frame. A useful frame resets the count."""
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
        """Send a request again because of AUTH, now or when AUTH is settled."""
        if request.phase is not Phase.PARKED:
            self._junk = 0  # the relay answered, and may also send a challenge with each refusal
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
