"""Run one live connection: move text between a WebSocket and the state machine, and wake waiters.

All state here ends with the connection. The Relay has the state that outlives it, such as live
subscriptions, capabilities and statistics.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

from nostr_client.codecs.messages import NegErr
from nostr_client.codecs.reasons import Reason, classify, prefix
from nostr_client.errors import (
    NetworkError,
    NostrTallyError,
    ProtocolError,
    RelayError,
    RelayRefused,
    Unsupported,
    innermost,
)
from nostr_client.network.event_queue import EventQueue, QueuedEvent
from nostr_client.network.negchannel import NegChannel
from nostr_client.network.pacing import RateWindow
from nostr_client.network.pump import Pump
from nostr_client.network.waiting import Gate
from nostr_client.protocol import (
    Abused,
    AuthNeeded,
    AuthSettled,
    ChallengeReceived,
    Connection,
    CountAnswered,
    CountFailed,
    EventMatched,
    HelloReceived,
    NegEnded,
    NegReceived,
    NoticeReceived,
    Progress,
    PublishAnswered,
    PublishFailed,
    StoredEnd,
    SubscriptionEnded,
    auth_template,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import Signer
    from nostr_client.codecs.messages import CountAnswer, Ok
    from nostr_client.network.access.budget import Budget
    from nostr_client.network.relay_state import RelayStats
    from nostr_client.network.transport import WebSocket
    from nostr_client.options import Limits, Timeouts
    from nostr_client.protocol import Notification

T = TypeVar("T")


class RoundTrip(msgspec.Struct, frozen=True):
    """A ping came back."""

    milliseconds: float


class Finished(msgspec.Struct, frozen=True):
    """A subscription gets no more events from this relay."""

    queue: EventQueue
    fault: bool
    """Whether the relay was cut off because it sent unrequested events."""


class Session:
    """One live connection, as the module describes.

    `report` gets what the Relay stores: notices, hints, round trips and ends of subscriptions.
    """

    def __init__(
        self,
        socket: WebSocket,
        connection: Connection,
        *,
        address: str,
        signer: Signer | None,
        timeouts: Timeouts,
        now: Callable[[], float],
        report: Callable[[object], None],
        budget: Budget | None = None,
    ) -> None:
        self.connection = connection
        self.socket = socket
        self._limits: Limits = connection.limits
        self._timeouts = timeouts
        # the spelling to which the client connects, and for which it signs AUTH
        self._address = address
        self._signer = signer
        self._now = now
        self._report = report
        self._counts: dict[str, asyncio.Future[CountAnswer | RelayError]] = {}
        self._publishes: dict[str, list[asyncio.Future[Ok | RelayError]]] = {}
        self._queues: dict[str, EventQueue] = {}
        self._negs: dict[str, NegChannel] = {}
        self._group: asyncio.TaskGroup | None = None
        self._budget = budget
        self._pump = Pump(socket, connection.limits, timeouts, budget)
        self._gate = Gate()
        self._ended: RelayError | None = None
        self._notices = RateWindow(self._limits.notices_per_minute, 60.0)

    # Requests.

    async def count(
        self, filters: Sequence[Filter], withdrawn: Callable[[], None] = lambda: None
    ) -> CountAnswer:
        """Send a COUNT and wait for its answer. The caller sets the deadline. Raises RelayError.

        If the caller gives up before the COUNT is sent, `withdrawn` is called.
        """
        if self.connection.count_unsupported and not self.connection.count_answered:
            relay = self.connection.relay
            raise Unsupported("unsupported: this relay knows no COUNT", relay=relay)
        query_id = self.connection.count(filters)
        waiter: asyncio.Future[CountAnswer | RelayError] = self._future()
        self._counts[query_id] = waiter
        try:
            await self._pump.send_now(self.connection.outgoing())
            return _unwrap(await waiter)
        finally:
            self._counts.pop(query_id, None)
            self.connection.abandon_count(query_id)
            if self._pump.withdraw("COUNT", query_id):
                withdrawn()

    async def publish(self, event: Event, *, paced: bool = False) -> Ok:
        """Send an event and wait for its OK, accepted or not. `Pump.send` describes `paced`.

        Raises RelayError.
        """
        self.connection.publish(event)
        waiter: asyncio.Future[Ok | RelayError] = self._future()
        waiters = self._publishes.setdefault(event.id, [])
        waiters.append(waiter)
        self._pump.send(self.connection.outgoing(), paced=paced)
        try:
            return _unwrap(await waiter)
        finally:
            waiters.remove(waiter)
            if not waiters:
                self._publishes.pop(event.id, None)
                self.connection.abandon_publish(event.id)

    def subscribe(self, queue: EventQueue) -> None:
        """Send the REQ of a subscription. A refusal ends the subscription."""
        relay = self.connection.relay
        tally = queue.sources[relay].tally
        filters = queue.question(relay)
        try:
            sub_id = self.connection.subscribe(filters, live=queue.live, tally=tally)
        except RelayError as error:
            queue.mark_ended(relay, error)
            self._report(Finished(queue, False))
            return
        self._queues[sub_id] = queue
        self._flush()

    def unsubscribe(self, queue: EventQueue) -> None:
        """Send CLOSE for a subscription if it is open on this connection."""
        for sub_id in [k for k, one in self._queues.items() if one is queue]:
            del self._queues[sub_id]
            self.connection.unsubscribe(sub_id)
            self._pump.withdraw("REQ", sub_id)
        self._flush()

    def negotiate(self, query: Filter | str, message: bytes) -> NegChannel:
        """Open a NIP-77 session with its first message. Raises RelayRefused if it is too long."""
        connection = self.connection
        sub_id = connection.neg_open(query, message)

        def send(text: bytes) -> None:
            connection.neg_send(sub_id, text)
            self._flush()

        def close() -> None:
            self._negs.pop(sub_id, None)
            connection.neg_close(sub_id)
            self._pump.withdraw("NEG-OPEN", sub_id)
            self._pump.withdraw("NEG-MSG", sub_id)
            self._flush()

        channel = NegChannel(connection.relay, sub_id, send, close)
        self._negs[sub_id] = channel
        self._flush()
        return channel

    async def authenticate(self) -> None:
        """Answer the relay's challenge now. Raises RelayRefused if the relay does not accept."""
        auth = self.connection.auth
        if auth.want():
            self._start_auth()
        await self._gate.wait(lambda: auth.over or self._ended)
        if self._ended is not None:
            raise self._ended
        if auth.progress is Progress.REFUSED:
            relay = self.connection.relay
            raise RelayRefused(auth.reason, prefix=prefix(auth.reason), relay=relay)

    def name_by_user(self, address: str, signer: Signer | None) -> None:
        """Let `signer` answer AUTH for `address`, on a connection to a relay that only strangers
        named.

        A request that was refused because there was no signer stays refused.
        """
        self._address, self._signer = address, signer
        self.connection.auth.able = signer is not None

    def _start_auth(self) -> None:
        if self._group is not None:
            self._group.create_task(self._authenticate())

    @staticmethod
    def _future() -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    def _flush(self) -> None:
        if self.connection.outbox:  # an empty one would wake the task that writes
            self._pump.send(self.connection.outgoing())

    def add_to(self, stats: RelayStats) -> None:
        """Add this connection's numbers to the relay's statistics."""
        tally = self.connection.tally
        stats.bytes_sent += self.socket.bytes_sent
        stats.bytes_received += self.socket.bytes_received
        stats.frames += tally.frames
        stats.rejected += tally.rejected
        stats.unknown += tally.unknown
        stats.notices += tally.notices

    # Life.

    async def run(self) -> RelayError:
        """Serve the connection until it ends, and return the reason.

        The caller closes the socket.
        """
        error: RelayError = NetworkError("closed by us", relay=self.connection.relay)
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._pump.read(self._take))
                group.create_task(self._pump.write())
                group.create_task(self._pump.heartbeat(self._measured))
        except* RelayError as caught:
            first = innermost(caught)
            error = first if isinstance(first, RelayError) else ProtocolError(str(first))
        finally:
            self._end(error)
        return error

    def _end(self, error: RelayError) -> None:
        self._ended = error
        self._group = None
        self._gate.wake()
        for notification in self.connection.lost(error):
            if not isinstance(notification, EventMatched):
                self._handle(notification)

    async def _take(self, frame: bytes) -> None:
        for notification in self.connection.receive(frame):
            if type(notification) is EventMatched:
                await self._event(notification)
            else:
                self._handle(notification)
        if self.connection.outbox:  # most frames of a relay need no answer
            self._flush()

    async def _event(self, found: EventMatched) -> None:
        queue = self._queues.get(found.sub_id)
        if queue is None:
            return
        item = QueuedEvent(self.connection.relay, found.event, found.size)
        if not queue.offer(item):
            self._pump.stalled = True
            try:
                await queue.put(item)
            finally:
                self._pump.stalled = False

    def _measured(self, milliseconds: float) -> None:
        self._report(RoundTrip(milliseconds))

    async def _authenticate(self) -> None:
        """Sign the challenge as soon as there is one. Runs once for each connection."""
        connection, auth = self.connection, self.connection.auth
        try:
            async with asyncio.timeout(self._timeouts.auth):
                await self._gate.wait(lambda: auth.challenge)
                event = await self._sign(auth.challenge or "")
                connection.authenticate(event)
                self._flush()
                await self._gate.wait(lambda: auth.progress is not Progress.SENT)
            return
        except TimeoutError:
            if auth.progress is Progress.SENT:
                ended = connection.auth_unanswered()
            else:
                late = "the signer took too long" if auth.challenge else "no challenge came"
                ended = connection.auth_failed(late)
        except NostrTallyError as error:
            ended = connection.auth_failed(str(error))
        for notification in ended:
            self._handle(notification)
        self._flush()

    async def _sign(self, challenge: str) -> Event:
        if self._signer is None:
            raise ProtocolError("nobody can sign", relay=self.connection.relay)
        template = auth_template(self._address, challenge, int(self._now()))
        return (await self._signer.sign(template)).event

    # Notifications.

    def _handle(self, notification: Notification) -> None:
        self._HANDLERS[type(notification)](self, notification)

    def _judge(self, reason: str | None) -> None:
        """Report an answer to the budget.

        `reason` is the text of a refusal or a NOTICE, else None.
        """
        if self._budget is None:
            return
        now = asyncio.get_running_loop().time()
        if reason is None:
            self._budget.answered(now)
        elif classify(reason) is Reason.RATE_LIMITED:
            self._budget.refused(now)

    def _judge_end(self, error: RelayError | None) -> None:
        if error is None:
            self._judge(None)
        elif isinstance(error, RelayRefused):
            self._judge(error.reason)

    def _counted(self, notification: CountAnswered) -> None:
        self._judge(None)
        _resolve(self._counts.get(notification.query_id), notification.answer)

    def _count_failed(self, notification: CountFailed) -> None:
        self._judge_end(notification.error)
        _resolve(self._counts.get(notification.query_id), notification.error)

    def _published(self, notification: PublishAnswered) -> None:
        self._judge(None if notification.ok.holds_event else notification.ok.message)
        for waiter in self._publishes.get(notification.event_id, ()):
            _resolve(waiter, notification.ok)

    def _publish_failed(self, notification: PublishFailed) -> None:
        for waiter in self._publishes.get(notification.event_id, ()):
            _resolve(waiter, notification.error)

    def _stored_end(self, notification: StoredEnd) -> None:
        queue = self._queues.get(notification.sub_id)
        if queue is not None:
            queue.mark_stored_end(self.connection.relay)

    def _subscription_ended(self, notification: SubscriptionEnded) -> None:
        self._judge_end(notification.error)
        queue = self._queues.pop(notification.sub_id, None)
        if queue is not None:
            queue.mark_ended(self.connection.relay, notification.error)
            fault = self._ended is None and isinstance(notification.error, ProtocolError)
            self._report(Finished(queue, fault))

    def _auth_needed(self, notification: AuthNeeded) -> None:
        self._report(notification)
        self._start_auth()

    def _auth_moved(self, notification: ChallengeReceived | AuthSettled) -> None:
        self._gate.wake()

    def _noticed(self, notification: NoticeReceived) -> None:
        self._judge(notification.message)
        self._report(notification)
        if self._notices.exceeded(asyncio.get_running_loop().time()):
            text = f"more than {self._limits.notices_per_minute} NOTICEs in a minute"
            raise ProtocolError(text, relay=self.connection.relay)

    def _neg_received(self, notification: NegReceived) -> None:
        message = notification.message
        self._judge(message.reason if isinstance(message, NegErr) else None)
        channel = self._negs.get(notification.sub_id)
        if channel is not None:
            channel.offer(notification.message)

    def _neg_ended(self, notification: NegEnded) -> None:
        self._judge_end(notification.error)
        channel = self._negs.pop(notification.sub_id, None)
        if channel is not None:
            channel.fail(notification.error)

    def _abused(self, notification: Abused) -> None:
        raise notification.error

    def _hello(self, notification: HelloReceived) -> None:
        self._report(notification)

    _HANDLERS: ClassVar[dict[type, Callable[[Session, Any], None]]] = {
        CountAnswered: _counted,
        CountFailed: _count_failed,
        PublishAnswered: _published,
        PublishFailed: _publish_failed,
        StoredEnd: _stored_end,
        SubscriptionEnded: _subscription_ended,
        AuthNeeded: _auth_needed,
        ChallengeReceived: _auth_moved,
        AuthSettled: _auth_moved,
        NoticeReceived: _noticed,
        HelloReceived: _hello,
        NegReceived: _neg_received,
        NegEnded: _neg_ended,
        Abused: _abused,
    }


def _resolve(waiter: asyncio.Future[Any] | None, value: object) -> None:
    """Set the result of a future. Errors are results here.

    asyncio would log an exception that no task fetched.
    """
    if waiter is not None and not waiter.done():
        waiter.set_result(value)


def _unwrap(found: T | RelayError) -> T:
    if isinstance(found, RelayError):
        raise found
    return found
