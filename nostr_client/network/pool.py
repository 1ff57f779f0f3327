"""Ask many relays at once, with one connection for each relay.

The result has an answer or an error for each relay. A relay that fails never raises an exception. A
relay that is slower than the group's deadline gets an error that says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import msgspec

from nostr_client.codecs.event import nip01_order
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.codecs.relay_url import normalize
from nostr_client.errors import (
    DeadlineExceeded,
    HeldBack,
    InvalidInput,
    ProtocolError,
    RelayError,
    RelayRefused,
    clip,
)
from nostr_client.network.event_queue import EventQueue
from nostr_client.network.relay import Relay
from nostr_client.network.subscription import Subscription
from nostr_client.network.transport import Transport
from nostr_client.network.verifier import ThreadVerifier, Verifier
from nostr_client.network.waiting import task_group
from nostr_client.options import Options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
    from types import TracebackType

    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import Signer
    from nostr_client.codecs.messages import CountAnswer
    from nostr_client.network.event_queue import Overflow, Resubscribe
    from nostr_client.network.paging.page import EventPage
    from nostr_client.network.relay_state import Capabilities
    from nostr_client.options import ReadBudget

T = TypeVar("T")
Owned = TypeVar("Owned", Transport, ThreadVerifier)


class PublishStatus(StrEnum):
    """What a relay did with an event."""

    OK = "ok"
    """The relay has the event."""
    REFUSED = "refused"
    """The relay refused the event."""
    HELD_BACK = "held_back"
    """The client's own budget for the relay was spent, so the client did not send the event."""
    TIMEOUT = "timeout"
    """The relay did not answer before the deadline."""
    UNREACHABLE = "unreachable"
    """The connection to the relay failed."""
    INVALID = "invalid"
    """The relay's answer was not a valid OK. The relay may or may not have the event."""


class PublishResult(msgspec.Struct, frozen=True):
    """The answer of one relay to one event."""

    status: PublishStatus
    message: str = ""
    """The relay's message, or the text of the error."""

    def __str__(self) -> str:
        return f"{self.status}: {clip(self.message)}" if self.message else str(self.status)


class RelayAnswers(msgspec.Struct, Generic[T], frozen=True):
    """Answers of relays by normalised URL. Each relay has an answer or an error, never both."""

    answers: Mapping[str, T]
    errors: Mapping[str, RelayError]


class FetchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Stored events of many relays. Iterating over the result yields the events."""

    events: tuple[VerifiedEvent, ...]
    """Each event once, newest first. Events that came before an error are included."""
    errors: Mapping[str, RelayError]
    """The errors of the relays that failed, by relay URL."""
    complete: bool
    """True if every relay sent EOSE. A relay can still have more events, because it may limit its
    answers."""

    def __iter__(self) -> Iterator[VerifiedEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        return f"<FetchResult events={len(self.events)} errors={list(self.errors)}>"


class RelayPool:
    """Holds one Relay for each normalised URL. All relays share a transport and a verifier.

    Use the pool as an async context manager, or call `close()` at the end.

    - `known`: capabilities from an earlier run, by normalised URL.
    - `unnamed`: default relays of a program. The pool signs no AUTH for such a relay until the
      program calls `name` for it.
    - `relay_args`: further arguments for each new Relay, such as clocks for tests.
    """

    def __init__(
        self,
        *,
        options: Options | None = None,
        signer: Signer | None = None,
        transport: Transport | None = None,
        verifier: Verifier | None = None,
        known: Mapping[str, Capabilities] = MappingProxyType({}),
        unnamed: Collection[str] = (),
        **relay_args: Any,
    ) -> None:
        self.options = options or Options()
        self._signer = signer
        self._owned: list[Transport | ThreadVerifier] = []
        self._transport = transport or self._own(Transport(self.options))
        self._guarded: Transport | None = None
        self._verifier: Verifier = verifier or self._own(
            ThreadVerifier(chunk=self.options.limits.verify_chunk)
        )
        self._known = known
        self._relay_args = relay_args
        self._relays: dict[str, Relay] = {}
        self._strangers: set[str] = set()
        self._unnamed = set(map(normalize, unnamed))
        self._spellings: dict[str, str] = {}
        self._closed = False

    def _own(self, part: Owned) -> Owned:
        self._owned.append(part)
        return part

    @property
    def relays(self) -> Mapping[str, Relay]:
        """The relays of the pool, by normalised URL."""
        return dict(self._relays)

    @property
    def verifier(self) -> Verifier:
        """The verifier for all events of this pool. An `Ingest` may share the verifier."""
        return self._verifier

    def spell(self, urls: Iterable[str]) -> None:
        """Record how the user writes the URLs of relays.

        If the user writes the URL of a relay in several ways, the pool keeps the first spelling.
        Raises InvalidRelayURL.
        """
        for url in urls:
            self._spellings.setdefault(normalize(url), url)

    def name(self, urls: Iterable[str]) -> None:
        """Record that the user named these relays, so that the pool signs AUTH for them.

        The pool also records how the user writes their URLs. From now on, the pool treats the
        relays as the user's own, even if they were `unnamed` or only strangers named them. Raises
        InvalidRelayURL.
        """
        for url in urls:
            self.spell([url])
            key = normalize(url)
            was_unnamed = key in self._unnamed
            self._unnamed.discard(key)
            if key in self._relays and (was_unnamed or key in self._strangers):
                self._strangers.discard(key)
                self._sign_for(key)

    def spelling(self, url: str) -> str:
        """Return how the user writes the URL of a relay. The argument is the normalised URL."""
        return self._spellings.get(url, url)

    def relay(
        self, url: str, *, capabilities: Capabilities | None = None, stranger: bool = False
    ) -> Relay:
        """Return the relay at a URL.

        The first call makes the relay. The first request to the relay opens the connection.

        - `capabilities`: capabilities from an earlier run, if the pool does not have the relay yet.
        - `stranger`: True if the user did not name the relay, for example if an author's list names
          it.

        If only strangers named a relay, the pool connects to the relay at public addresses only.
        The pool signs no AUTH for such a relay, because a signature would reveal the user's key.

        Raises InvalidRelayURL. Raises InvalidInput if the pool already has `Limits.relays` relays,
        and after `close`.
        """
        key = normalize(url)
        if self._closed:
            raise InvalidInput("this pool, or its client, was closed")
        if key not in self._relays:
            if len(self._relays) >= self.options.limits.relays:
                raise InvalidInput(f"more than {self.options.limits.relays} relays in one pool")
            self._relays[key] = Relay(
                self._spellings.get(key, url),
                options=self.options,
                signer=None if stranger or key in self._unnamed else self._signer,
                capabilities=capabilities or self._known.get(key),
                transport=self.transport(stranger=stranger),
                verifier=self._verifier,
                **self._relay_args,
            )
            if stranger:
                self._strangers.add(key)
        elif not stranger and key in self._strangers:
            self._strangers.discard(key)
            self._spellings.setdefault(key, url)
            self._sign_for(key)
        return self._relays[key]

    def _asked(self, url: str) -> Relay:
        """Return the relay to ask.

        Asking does not count as naming, so a stranger stays a stranger.
        """
        return self._relays.get(normalize(url)) or self.relay(url)

    def _sign_for(self, key: str) -> None:
        """Treat the relay at a normalised URL as the user's own, with the user's spelling."""
        signer = None if key in self._unnamed else self._signer
        self._relays[key].name_by_user(self._spellings[key], self._transport, signer)

    def is_named(self, url: str) -> bool:
        """Return True if the user named this relay.

        A relay from a program's defaults or from strangers does not count as named.
        """
        key = normalize(url)
        return key not in self._strangers and key not in self._unnamed

    def transport(self, *, stranger: bool = False) -> Transport:
        """Return the transport that opens connections.

        If `stranger` is True, the transport connects to public addresses only.
        """
        if not stranger:
            return self._transport
        if self._guarded is None:
            self._guarded = self._own(Transport(self.options, public_only=True))
        return self._guarded

    async def remove(self, url: str) -> None:
        """Close the relay at a URL and remove it from the pool.

        If the pool has no such relay, the call does nothing. Raises InvalidRelayURL.
        """
        key = normalize(url)
        self._strangers.discard(key)
        relay = self._relays.pop(key, None)
        if relay is not None:
            await relay.close()

    async def gather(
        self,
        relays: Iterable[str],
        ask: Callable[[Relay], Awaitable[T]],
        timeout: float | None = None,
    ) -> RelayAnswers[T]:
        """Send a request to every relay at once and wait for all answers.

        - `ask`: a coroutine function that sends the request. If `ask` raises RelayError, the error
          is in `errors` of the result.
        - `timeout`: seconds for all relays (default `Timeouts.group`). A relay without an answer at
          the deadline gets DeadlineExceeded.

        Raises InvalidRelayURL. Safe to cancel.
        """
        asked = {relay.url: relay for relay in map(self._asked, relays)}
        seconds = self.options.timeouts.group if timeout is None else timeout
        found: dict[str, T | RelayError] = {}
        before = {url: relay.notices for url, relay in asked.items()}

        async def one(relay: Relay) -> None:
            try:
                found[relay.url] = await ask(relay)
            except RelayError as error:
                found[relay.url] = error

        try:
            async with asyncio.timeout(seconds), task_group() as group:
                for relay in asked.values():
                    group.create_task(one(relay))
        except TimeoutError:
            found |= {
                url: _late(relay, seconds, before[url])
                for url, relay in asked.items()
                if url not in found
            }
        return _sorted_out(asked, found)

    async def count(
        self,
        filters: Filter | Sequence[Filter],
        relays: Iterable[str],
        timeout: float | None = None,
    ) -> RelayAnswers[CountAnswer]:
        """Send COUNT to every relay.

        `timeout` is in seconds, for all relays. `Timeouts.count` limits the time of each relay.
        Raises InvalidRelayURL. Safe to cancel.
        """
        return await self.gather(relays, lambda relay: relay.count(filters), timeout)

    async def fetch(
        self,
        filters: Filter | Sequence[Filter],
        relays: Iterable[str],
        timeout: float | None = None,
        *,
        budget: ReadBudget | None = None,
    ) -> RelayAnswers[EventPage]:
        """Read stored events from every relay and return a page for each relay.

        The pool verifies each event once. If `error` of a page is set, the page has the events that
        came before the error. Raises InvalidRelayURL. Safe to cancel.
        """
        return await self.gather(
            relays,
            lambda relay: relay.fetch(filters, timeout, budget=budget, partial=True),
            timeout,
        )

    async def fetch_events(
        self,
        filters: Filter | Sequence[Filter],
        relays: Iterable[str],
        timeout: float | None = None,
    ) -> FetchResult:
        """Read stored events from every relay and return each event once, newest first.

        `timeout` is in seconds. If a relay fails, `errors` of the result has its error. Raises
        InvalidRelayURL. Safe to cancel.
        """
        found = await self.fetch(filters, relays, timeout)
        pages = found.answers
        once = {one.id: one for page in pages.values() for one in page.events}
        late = {url: page.error for url, page in pages.items() if page.error is not None}
        return FetchResult(
            events=tuple(sorted(once.values(), key=nip01_order)),
            errors=MappingProxyType({**found.errors, **late}),
            complete=not found.errors and all(page.complete for page in pages.values()),
        )

    async def publish(
        self, event: VerifiedEvent, relays: Iterable[str], timeout: float | None = None
    ) -> dict[str, PublishResult]:
        """Send an event to every relay and return a status for each relay, by normalised URL.

        `timeout` is in seconds. Raises InvalidRelayURL. After a cancellation, some relays may have
        the event.
        """
        gathered = await self.gather(relays, lambda relay: relay.publish(event, timeout), timeout)
        answered = {
            url: PublishResult(PublishStatus.OK, ok.message) for url, ok in gathered.answers.items()
        }
        return answered | {url: _publish_result(error) for url, error in gathered.errors.items()}

    def subscribe(
        self,
        filters: Filter | Sequence[Filter],
        relays: Iterable[str],
        *,
        live: bool = True,
        overflow: Overflow | None = None,
        resubscribe: Resubscribe | None = None,
    ) -> Subscription:
        """Open one subscription over many relays.

        Each event comes once, from the relay that sends it first. The iteration ends when no relay
        can send more events. Raises InvalidRelayURL.
        """
        taking_part = list({relay.url: relay for relay in map(self._asked, relays)}.values())
        limits = self.options.limits
        queue = EventQueue(filters, limits, live=live, overflow=overflow, resubscribe=resubscribe)
        for relay in taking_part:
            relay.feed(queue)
        return Subscription(queue, self._verifier, limits)

    async def close(self) -> None:
        """Close every relay. When the method returns, nothing is left running."""
        self._closed = True
        relays, self._relays = list(self._relays.values()), {}
        try:
            async with asyncio.TaskGroup() as group:
                for relay in relays:
                    group.create_task(relay.close())
        finally:
            for part in reversed(self._owned):
                await part.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _sorted_out(order: Iterable[str], found: Mapping[str, T | RelayError]) -> RelayAnswers[T]:
    answers: dict[str, T] = {}
    errors: dict[str, RelayError] = {}
    for url in order:
        one = found[url]
        if isinstance(one, RelayError):
            errors[url] = one
        else:
            answers[url] = one
    return RelayAnswers(answers, errors)


def _late(relay: Relay, seconds: float, before: tuple[str, ...]) -> DeadlineExceeded:
    """Return the error of a late relay, with its last NOTICE.

    Some relays refuse only with a NOTICE.
    """
    notice = f"; NOTICE: {relay.notices[-1]}" if relay.notices != before else ""
    spent = "; our own budget for this relay is spent" if relay.held_back() else ""
    return DeadlineExceeded(f"no answer within {seconds:g} s{notice}{spent}", relay=relay.url)


def _publish_result(error: RelayError) -> PublishResult:
    if isinstance(error, RelayRefused):
        unasked = isinstance(error, HeldBack)
        status = PublishStatus.HELD_BACK if unasked else PublishStatus.REFUSED
        return PublishResult(status, error.reason)
    if isinstance(error, DeadlineExceeded):
        return PublishResult(PublishStatus.TIMEOUT, str(error))
    broken = isinstance(error, ProtocolError)
    return PublishResult(PublishStatus.INVALID if broken else PublishStatus.UNREACHABLE, str(error))
