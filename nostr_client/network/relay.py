"""Connect to one relay, reconnect after failures, and send requests with deadlines.

The first request or `connect` makes the connection. After a failure the relay connects again with
full jitter. `ReconnectPolicy.attempts` can limit the attempts. A request without a connection waits
for the next attempt if the attempt is due before the request's deadline. Otherwise the request
fails at once.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from nostr_client.codecs.messages import CountAnswer
from nostr_client.codecs.nip11 import ACCEPT, RelayInfo, parse_relay_info
from nostr_client.codecs.relay_url import address, normalize
from nostr_client.errors import (
    NetworkError,
    ProtocolError,
    RelayError,
    RelayRefused,
    Unsupported,
)
from nostr_client.network.access.budget import OF_PROCESS, admitted
from nostr_client.network.deadlines import Deadlines
from nostr_client.network.event_queue import EventQueue, as_filters
from nostr_client.network.paging.page import EventPage, read_page
from nostr_client.network.relay_state import Capabilities, RelayKnowledge, RelayStats, RelayStatus
from nostr_client.network.session import Finished, RoundTrip, Session
from nostr_client.network.subscription import Subscription
from nostr_client.network.supervisor import Supervisor
from nostr_client.network.transport import Transport
from nostr_client.network.verifier import ThreadVerifier, Verifier
from nostr_client.options import Options
from nostr_client.protocol import (
    AuthNeeded,
    Connection,
    HelloReceived,
    NoticeReceived,
    SubscriptionTally,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import TracebackType

    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import Signer, VerifiedEvent
    from nostr_client.codecs.messages import Ok
    from nostr_client.errors import HeldBack
    from nostr_client.network.access.budget import Budgets
    from nostr_client.network.deadlines import SessionRequest
    from nostr_client.network.event_queue import Overflow, Resubscribe
    from nostr_client.network.negchannel import NegChannel
    from nostr_client.network.transport import WebSocket
    from nostr_client.options import ReadBudget

Owned = TypeVar("Owned", Transport, ThreadVerifier)


class Relay:
    """A connection to one relay. The connection reconnects by itself.

    Use the relay as an async context manager, or call `close()` at the end. Raises InvalidRelayURL.

    - `signer`: signs AUTH events when a request needs AUTH.
    - `capabilities`: capabilities from an earlier run.
    - `transport`, `verifier`: shared parts of a pool. By default, the relay has its own.
    """

    def __init__(
        self,
        url: str,
        *,
        options: Options | None = None,
        signer: Signer | None = None,
        capabilities: Capabilities | None = None,
        transport: Transport | None = None,
        verifier: Verifier | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rand: Callable[[], float] = random.random,
        now: Callable[[], float] = time.time,
        budgets: Budgets | None = None,
    ) -> None:
        self.url = normalize(url)
        """The normal form of the URL. Errors, statistics and results use it as key."""
        self.address = address(url)
        """The spelling of the URL to which the client connects and for which it signs AUTH."""
        self.options = options or Options()
        self._signer = signer
        self._now = now
        self._owned: list[Transport | ThreadVerifier] = []
        self._transport = transport or self._own(Transport(self.options))
        self._verifier: Verifier = verifier or self._own(
            ThreadVerifier(chunk=self.options.limits.verify_chunk)
        )
        self._queues: dict[EventQueue, None] = {}
        self._budget = (budgets or OF_PROCESS).of(self.url, self.options)
        self._knowledge = RelayKnowledge(self.options.limits, capabilities)
        self._ids = itertools.count(1)
        self._pending = 0
        self._supervisor = Supervisor(
            self.url,
            self.address,
            self._transport,
            self.options.reconnect,
            open_session=self._open_session,
            up=self._resubscribe,
            down=self._went_down,
            sleep=sleep,
            rand=rand,
            now=now,
        )
        self._deadlines = Deadlines(
            self._supervisor, self._knowledge, self.options.limits.waiting, self._budget
        )

    def _own(self, part: Owned) -> Owned:
        self._owned.append(part)
        return part

    # Life.

    async def connect(self, timeout: float | None = None) -> None:
        """Connect to the relay, or wait until the relay is connected.

        `timeout` is in seconds (default `Timeouts.connect`). Raises NetworkError if the attempt
        fails. The relay then tries again in the background until `close`. Safe to cancel.
        """
        async with self._deadlines.within(
            timeout or self.options.timeouts.connect, "connect"
        ) as deadline:
            await self._supervisor.ready(deadline)

    async def close(self) -> None:
        """End all requests and close the connection. When the method returns, nothing is left
        running.
        """
        try:
            await self._supervisor.stop()
        finally:
            self._went_down(NetworkError("closed by us", relay=self.url), True)
            for part in reversed(self._owned):
                await part.close()

    async def __aenter__(self) -> Self:
        self._supervisor.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def name_by_user(self, url: str, transport: Transport, signer: Signer | None) -> None:
        """Treat the relay as one that the user names. Until now, only strangers named the relay.

        From now on, `signer` signs AUTH events. The next attempt to connect uses `transport` and
        the URL as the user wrote it.
        """
        self.address = address(url)
        self._transport, self._signer = transport, signer
        self._supervisor.connect_by(transport, self.address)
        if self._supervisor.session is not None:
            self._supervisor.session.name_by_user(self.address, signer)

    @property
    def verifier(self) -> Verifier:
        """The verifier for the events of this relay. An `Ingest` may share the verifier."""
        return self._verifier

    @property
    def behind(self) -> float:
        """How many seconds the relay's clock was behind ours at the time of connecting."""
        return self._knowledge.behind

    @property
    def status(self) -> RelayStatus:
        """The state of the connection."""
        return self._supervisor.status

    @property
    def stats(self) -> RelayStats:
        """A snapshot of the relay's statistics. The snapshot includes the open connection."""
        stats = msgspec.structs.replace(self._supervisor.stats)
        if self._supervisor.session is not None:
            self._supervisor.session.add_to(stats)
        return stats

    @property
    def notices(self) -> tuple[str, ...]:
        """The last NOTICE messages, oldest first. `Limits.notices` limits their number."""
        return tuple(self._knowledge.notices)

    def held_back(self) -> HeldBack | None:
        """Return the error that a request gets now if our own budget for the relay is spent, else
        None.
        """
        return self._deadlines.held_back()

    @property
    def pubkey(self) -> str | None:
        """The hex pubkey that signs AUTH events for this relay, or None."""
        return None if self._signer is None else self._signer.pubkey

    @property
    def capabilities(self) -> Capabilities:
        """The abilities that the relay has shown."""
        return self._knowledge.capabilities

    def learn(self, **changes: Any) -> None:
        """Record abilities that the relay has shown, as fields of `Capabilities`."""
        self._knowledge.learn(**changes)

    @property
    def is_merged(self) -> bool:
        """True if the NIP-11 document says that the relay counts other relays' answers.

        False if the document was not read.
        """
        info = self._knowledge.info
        return info is not None and info.merged

    # Requests.

    async def count(
        self, filters: Filter | Sequence[Filter], timeout: float | None = None
    ) -> CountAnswer:
        """Send COUNT and return the answer (NIP-45).

        `timeout` is in seconds and includes connecting (default `Timeouts.count`). Send one filter,
        because relays differ about several filters in one COUNT.

        Raises RelayRefused, Unsupported, NetworkError, ProtocolError or DeadlineExceeded. Raises
        HeldBack if our own budget for the relay is spent and does not allow a request before the
        deadline. Safe to cancel.
        """
        asked = as_filters(filters)
        if asked[0].matches_nothing:  # no other filter matches anything either
            return CountAnswer("", 0)

        async def ask(request: SessionRequest) -> CountAnswer:
            return await request.session.count(asked, request.withdrawn)

        seconds = timeout or self.options.timeouts.count
        try:
            answer = await self._deadlines.request(seconds, "COUNT", ask)
        except Unsupported:
            self.learn(count=False)
            raise
        self._knowledge.counted(asked, answer)
        return answer

    async def publish(
        self, event: VerifiedEvent, timeout: float | None = None, *, paced: bool = False
    ) -> Ok:
        """Send an event and wait for the relay's OK.

        - `timeout`: seconds to wait (default `Timeouts.publish`).
        - `paced`: True if the caller itself limits the number of unanswered events. The limit
          `Limits.messages_per_second_out` then does not apply.

        Raises RelayRefused with the relay's reason. After NetworkError or DeadlineExceeded, the
        relay may or may not have the event. In this case, publishing the event again does no harm.
        """

        async def ask(request: SessionRequest) -> Ok:
            return await request.session.publish(event.event, paced=paced)

        seconds = timeout or self.options.timeouts.publish
        ok = await self._deadlines.request(seconds, "EVENT", ask)
        if not ok.holds_event:
            raise RelayRefused(ok.message, prefix=ok.prefix, relay=self.url)
        return ok

    def subscribe(
        self,
        filters: Filter | Sequence[Filter],
        *,
        live: bool = True,
        overflow: Overflow | None = None,
        resubscribe: Resubscribe | None = None,
    ) -> Subscription:
        """Send REQ now and after each reconnect, and return the subscription.

        The method never waits. If the relay refuses, the iteration ends with the error.

        - `live`: False to send REQ once and to end at EOSE.
        - `overflow`: what happens if the reader is too slow. The default is WAIT for stored events
          and DROP for live events.
        - `resubscribe`: a function that returns the filters for the REQ after a reconnect.
        """
        limits = self.options.limits
        queue = EventQueue(filters, limits, live=live, overflow=overflow, resubscribe=resubscribe)
        self.feed(queue)
        return Subscription(queue, self._verifier, limits)

    def feed(self, queue: EventQueue) -> None:
        """Put the events of this relay into a queue. Several relays may share a queue.

        If the queue is not live and the relay is disconnected, the relay adds no events.
        """
        queue.attach(self.url, SubscriptionTally(), lambda: self._release(queue))
        session = self._supervisor.session
        held_back = self._deadlines.held_back(self.options.timeouts.eose)
        if held_back is not None and not queue.live:
            queue.mark_ended(self.url, held_back)
            return
        if all(one.matches_nothing for one in queue.filters):
            queue.mark_ended(self.url, None)
            return
        if not queue.live and self.status is RelayStatus.DISCONNECTED:
            queue.mark_ended(self.url, self._supervisor.error)
            return
        self._queues[queue] = None
        if session is None:
            self._supervisor.start()
        else:
            session.subscribe(queue)

    async def fetch(
        self,
        filters: Filter | Sequence[Filter],
        timeout: float | None = None,
        *,
        budget: ReadBudget | None = None,
        partial: bool = False,
    ) -> EventPage:
        """Read stored events until EOSE, or until the budget is spent.

        - `timeout`: seconds for the whole call (default `Timeouts.page`). `Timeouts.eose` limits
          the time without an event.
        - `budget`: the most to read.
        - `partial`: True to return the events that came before an error. The page then has the
          error.

        Raises RelayError if the relay refuses or does not finish, unless `partial` is True. Safe to
        cancel.
        """
        total = timeout or self.options.timeouts.page
        started = asyncio.get_running_loop().time()
        async with self._deadlines.within(total, "REQ") as deadline:
            await self._supervisor.ready(deadline)
        left = total - (asyncio.get_running_loop().time() - started)
        subscription = self.subscribe(filters, live=False)
        silence = self.options.timeouts.eose
        page = await read_page(subscription, self.url, total=left, silence=silence, budget=budget)
        if page.error is not None and not partial:
            raise page.error
        return page

    async def negotiate(
        self, query: Filter | str, message: bytes, timeout: float | None = None
    ) -> NegChannel:
        """Open a NIP-77 session with its first message. The returned channel has the relay's
        answers.

        Raises NetworkError. Raises RelayRefused if the message is too long for the relay.
        """
        async with self._deadlines.within(
            timeout or self.options.timeouts.connect, "NEG-OPEN"
        ) as deadline:
            session = await self._supervisor.ready(deadline)
        return session.negotiate(query, message)

    async def authenticate(self, timeout: float | None = None) -> None:
        """Answer the relay's AUTH challenge now.

        A program needs this call only for relays that refuse with `restricted:`. `timeout` is in
        seconds (default two times `Timeouts.auth`). If the relay does not answer, the method
        returns as after an OK. Raises RelayRefused without a challenge, without a signer, or if the
        relay refuses.
        """

        async def ask(request: SessionRequest) -> None:
            await request.session.authenticate()

        seconds = timeout or 2 * self.options.timeouts.auth
        await self._deadlines.request(seconds, "AUTH", ask)

    async def info(self, *, refresh: bool = False) -> RelayInfo:
        """Return the NIP-11 document. From then on, the client respects the limits in this
        document.

        The client reads the document once, unless `refresh` is True. Raises NetworkError. Raises
        ProtocolError if the answer is not a NIP-11 document.
        """
        if self._knowledge.info is not None and not refresh:
            return self._knowledge.info
        async with self._deadlines.within(self.options.timeouts.http, "NIP-11"):
            await admitted(self._budget)
        raw = await self._transport.get_document(self.address, accept=ACCEPT)
        try:
            info = parse_relay_info(raw)
        except ProtocolError as error:
            raise ProtocolError(str(error), relay=self.url) from error
        self._knowledge.documented(info)
        if self._supervisor.session is not None:
            self._knowledge.apply_limits(self._supervisor.session.connection)
        return info

    async def supports(self, nip: int) -> bool | None:
        """Return True if the NIP-11 document lists a NIP, and None without a readable document.

        The method never raises an error of the relay. Safe to cancel.
        """
        try:
            return (await self.info()).supports(nip)
        except (NetworkError, ProtocolError):
            return None

    @property
    def max_message_bytes(self) -> int:
        """The size of the longest message that the client may send, in bytes."""
        session = self._supervisor.session
        most = self.options.limits.message_bytes_out
        return most if session is None else session.connection.max_message_bytes

    # What the connection reports.

    def _open_session(self, socket: WebSocket) -> Session:
        connection = Connection(
            self.url,
            limits=self.options.limits,
            can_auth=self._signer is not None,
            ids=self._ids,
        )
        self._knowledge.apply_limits(connection)
        self._knowledge.note_clock(socket.date, self._now())
        return Session(
            socket,
            connection,
            address=self.address,
            signer=self._signer,
            timeouts=self.options.timeouts,
            now=self._now,
            report=self._reported,
            budget=self._budget,
        )

    def _resubscribe(self, session: Session) -> None:
        for queue in list(self._queues):
            session.subscribe(queue)

    def _went_down(self, error: RelayError, for_good: bool) -> None:
        for queue in list(self._queues):
            if for_good or not queue.live:
                del self._queues[queue]
                queue.mark_ended(self.url, error)

    def _release(self, queue: EventQueue) -> None:
        self._queues.pop(queue, None)
        if self._supervisor.session is not None:
            self._supervisor.session.unsubscribe(queue)

    def _reported(self, what: object) -> None:
        match what:
            case NoticeReceived():
                self._knowledge.noticed(what.message)
            case HelloReceived():
                self.learn(count_hint=what.count)
            case AuthNeeded():
                self.learn(auth=True)
            case RoundTrip():
                self._supervisor.stats.round_trip(what.milliseconds)
            case Finished():
                self._queues.pop(what.queue, None)
                self._supervisor.stats.faults += what.fault
