"""Many relays: one connection for each, questions to all at once, an answer or a status from each.

A relay that fails is a status in the result, never an exception; the group's deadline is for the
slow ones, whose status then says so.
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
from nostr_client.network.event_queue import EventQueue, Overflow
from nostr_client.network.relay import Relay, as_filters
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
    from nostr_client.network.event_queue import Resubscribe
    from nostr_client.network.paging.page import EventPage
    from nostr_client.network.relay_state import Capabilities
    from nostr_client.options import ReadBudget

T = TypeVar("T")
Owned = TypeVar("Owned", Transport, ThreadVerifier)


class PublishStatus(StrEnum):
    """What became of an event on one relay."""

    OK = "ok"
    REFUSED = "refused"
    HELD_BACK = "held_back"
    """Our own budget for the relay is spent, so it was not asked."""
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    INVALID = "invalid"
    """The relay's answer was no valid OK, so what it did with the event is not known."""


class PublishResult(msgspec.Struct, frozen=True):
    """One relay's answer to one event; `message` is the relay's text or that of the error."""

    status: PublishStatus
    message: str = ""

    def __str__(self) -> str:
        return f"{self.status}: {clip(self.message)}" if self.message else str(self.status)


class RelayAnswers(msgspec.Struct, Generic[T], frozen=True):
    """What each relay answered, by normalised URL: an answer or an error, never both."""

    answers: Mapping[str, T]
    errors: Mapping[str, RelayError]


class FetchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Stored events of many relays, each once, newest first; iterating it yields the events.

    `errors` has the relays that failed, by URL; events that came before the error are in `events`.
    `complete`: every relay sent EOSE. A relay may hold more all the same, as its cap cuts too.
    """

    events: tuple[VerifiedEvent, ...]
    errors: Mapping[str, RelayError]
    complete: bool

    def __iter__(self) -> Iterator[VerifiedEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        return f"<FetchResult events={len(self.events)} errors={list(self.errors)}>"


class RelayPool:
    """Holds one Relay for each normalised URL, with one transport and one verifier for all.

    Use it as an async context manager, or `close()` it. `known` are capabilities of an earlier run,
    by normalised URL. `unnamed` are relays of a program's own defaults: no AUTH is signed for one
    until the user names it, by `name`. `relay_args` go to every Relay that it makes, such as clocks
    for tests.
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
        """The relays so far, by normalised URL."""
        return dict(self._relays)

    @property
    def verifier(self) -> Verifier:
        """Verifies the events of this pool, once each; an `Ingest` may share it."""
        return self._verifier

    def spell(self, urls: Iterable[str]) -> None:
        """Record how the user spells relays that are named by their normal form later.

        Of several spellings of one relay the first stays. Raises InvalidRelayURL.
        """
        for url in urls:
            self._spellings.setdefault(normalize(url), url)

    def name(self, urls: Iterable[str]) -> None:
        """Record relays that the user names: `spell` them, and sign AUTH for all of them.

        They are `unnamed` no more, and those that only strangers named are the user's own. Raises
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
        """Return how the user spells the relay at a normalised URL."""
        return self._spellings.get(url, url)

    def relay(
        self, url: str, *, capabilities: Capabilities | None = None, stranger: bool = False
    ) -> Relay:
        """Return the relay at a URL, made at the first call and connected at its first request.

        `capabilities` are those of an earlier run, for a relay that is new here. `stranger`: the
        user did not name it. A relay that only strangers named connects to public addresses alone,
        and no AUTH is signed for it: the signature would show a stranger who asks.
        Raises InvalidRelayURL, and InvalidInput for more than `Limits.relays` or after `close`.
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
        """Return the relay to ask: asking names nobody, so one of strangers stays that."""
        return self._relays.get(normalize(url)) or self.relay(url)

    def _sign_for(self, key: str) -> None:
        """Treat the relay at a normalised URL as the user's own, at his spelling."""
        signer = None if key in self._unnamed else self._signer
        self._relays[key].name_by_user(self._spellings[key], self._transport, signer)

    def is_named(self, url: str) -> bool:
        """Whether the user named this relay, not only strangers or a program's defaults."""
        key = normalize(url)
        return key not in self._strangers and key not in self._unnamed

    def transport(self, *, stranger: bool = False) -> Transport:
        """Return what connects; for a host that only strangers named, to public addresses only."""
        if not stranger:
            return self._transport
        if self._guarded is None:
            self._guarded = self._own(Transport(self.options, public_only=True))
        return self._guarded

    async def remove(self, url: str) -> None:
        """Close the relay at a URL and forget it; an unknown URL is ignored.

        Raises InvalidRelayURL.
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
        """Ask every relay at once and wait for all, at most `timeout` (default `Timeouts.group`).

        `ask` may raise RelayError, which becomes that relay's status. A relay that has not answered
        at the deadline has DeadlineExceeded. Raises InvalidRelayURL. Safe to cancel.
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
        """Send COUNT to every relay; `Timeouts.count` bounds each, `timeout` all, in seconds.

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
        """Read stored events from every relay, a page for each; an event is verified once for all.

        A page whose `error` is set holds what came before the error. Raises InvalidRelayURL. Safe
        to cancel.
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

        `timeout` in seconds. A relay that fails is in `errors`. Raises InvalidRelayURL. Safe to
        cancel.
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
        """Send an event to every relay; return a status for each, by normalised URL.

        `timeout` in seconds. Raises InvalidRelayURL. After a cancellation a relay may have it.
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
        """Open one subscription over many relays; each event comes once, from the fastest relay.

        It ends when every relay ended. Raises InvalidRelayURL.
        """
        taking_part = list({relay.url: relay for relay in map(self._asked, relays)}.values())
        limits = self.options.limits
        queue = EventQueue(
            as_filters(filters),
            limits,
            live=live,
            overflow=overflow or (Overflow.DROP if live else Overflow.WAIT),
            resubscribe=resubscribe,
        )
        for relay in taking_part:
            relay.feed(queue)
        return Subscription(queue, self._verifier, limits)

    async def close(self) -> None:
        """Close every relay; returns when nothing is left running."""
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
    """No answer, with the NOTICE that came meanwhile: some relays refuse by a NOTICE alone."""
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
