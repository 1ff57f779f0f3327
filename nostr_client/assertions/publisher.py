"""Sign the cards that changed, and send them to relays until each relay accepted them."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.assertions.cards import CardOptions, is_due
from nostr_client.assertions.fields import FIELDS
from nostr_client.assertions.report import PublishReport, RelayDelivery
from nostr_client.assertions.signing import BATCH, batches, sign_all
from nostr_client.codecs import kinds
from nostr_client.codecs.event import EventTemplate
from nostr_client.errors import (
    DeadlineExceeded,
    HeldBack,
    NetworkError,
    RelayError,
    RelayRefused,
    clip,
)
from nostr_client.network.waiting import task_group

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from nostr_client.assertions.cards import Card
    from nostr_client.assertions.introduction import Introduction, KeyLook, SeenCard
    from nostr_client.assertions.ledger import Ledger, Pending
    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import Signer
    from nostr_client.network.pool import RelayPool
    from nostr_client.network.relay import Relay

AT_ONCE: Final = 64
"""Events sent to one relay that await its answer, at most."""

IN_A_ROW: Final = 3
"""Failures of the connection after which this run skips the relay."""

_ENDS: Final = ("restricted", "auth-required")
"""Refusals of our key, not of one event: this run skips the relay."""

MINUTE: Final = 60
"""Seconds that a card may be ahead of the clock: two cards of a subject never have one time."""

OTHERS: Final = (
    "a relay has newer cards by this key that this store did not sign: another program uses the"
    " key, or the store is an old copy"
)

RATE_LIMITED: Final = "rate-limited"

FIRST_PAUSE_S = 1.0
"""The pause after a relay asks for fewer events, doubled after each further refusal."""

LONGEST_PAUSE_S: Final = 60.0
"""Relays count events by the minute."""


class Publisher:
    """Publishes the cards of one key. `now`: Unix seconds."""

    def __init__(
        self, ledger: Ledger, signer: Signer, options: CardOptions, now: Callable[[], float]
    ) -> None:
        options.check()
        self.ledger = ledger
        self._signer = signer
        self._options = options
        self._now = now
        self._look: KeyLook | None = None
        self._adopts = False
        self.introduction: Introduction | None = None
        self.report = PublishReport()

    def heed(self, look: KeyLook, *, adopt: bool) -> None:
        """Withhold the cards that another program signed newer; to `adopt`, sign them again."""
        self._look, self._adopts = look, adopt

    async def sign(self, cards: Iterable[Card], *, dry_run: bool = False) -> None:
        """Sign the cards that are due and record them in the ledger.

        A card with a reason against it is withheld, and retracted if its key asked to vanish. Safe
        to cancel: what was recorded stays, and the next `send` sends it.
        """
        for some in batches(cards, self._signer):
            before = await self.ledger.published([(one.kind, one.subject) for one in some])
            now = int(self._now())
            due = [one for one in some if self._is_signed(one, before.get(one[:2]), now)]
            self.report.signed += len(due)
            if due and not dry_run:
                await self._introduce()
                await self._record(
                    [(self._template(one, before.get(one[:2]), now), one[:2]) for one in due]
                )

    def _template(self, card: Card, before: Event | None, now: int) -> EventTemplate:
        """Return the event of a card, newer than those that it replaces."""
        made = card.template(now, before, self._options)
        seen = self._newer(card)
        if seen is None:
            return made
        at = max(made.created_at or now, seen.created_at + 1)
        return msgspec.structs.replace(made, created_at=at)

    def _newer(self, card: Card) -> SeenCard | None:
        """Return the newer card of the subject that this store did not sign."""
        return None if self._look is None else self._look.newer.get(card[:2])

    def _is_signed(self, card: Card, before: Event | None, now: int) -> bool:
        """Whether to sign a card now; the report counts why not."""
        why = card.refusal(now, before, self._options)
        if why:
            _add(self.report.withheld, why)
            return False
        newer = self._newer(card)
        if newer is not None and not self._adopts:
            _add(self.report.withheld, OTHERS)
            return False
        dated = now if before is None else before.created_at
        if dated - now > MINUTE:
            self.report.ahead = max(self.report.ahead, dated - now)
        for lack in card.lacks:
            _add(self.report.incomplete, lack)
        if newer is not None or is_due(card, before, now, self._options):
            return True
        self.report.unchanged += 1
        return False

    async def _record(self, wanted: Sequence[tuple[EventTemplate, tuple[int, str]]]) -> None:
        """Sign events and put them into the ledger, each for its kind and subject."""
        signed = await sign_all(self._signer, [template for template, _ in wanted])
        await self.ledger.put(
            (*subject, event) for (_, subject), event in zip(wanted, signed, strict=True)
        )

    async def retract(self, subjects: Sequence[tuple[int, str]], *, dry_run: bool = False) -> None:
        """Ask relays to delete the cards of these subjects (kind 5, NIP-09), if any exist."""
        for some in batches(subjects, self._signer):
            before = await self.ledger.published(some)
            live = {one: card for one, card in before.items() if card.kind != kinds.DELETION}
            self.report.retracted += len(live)
            if live and not dry_run:
                await self._record([(self._deletion(one, card), one) for one, card in live.items()])

    def _deletion(self, subject: tuple[int, str], card: Event) -> EventTemplate:
        """Return the deletion of a card. It is as new as the card: an older one deletes nothing."""
        kind, name = subject
        tags = (("a", f"{kind}:{self.ledger.signer}:{name}"), ("k", str(kind)))
        at = max(int(self._now()), card.created_at)
        return EventTemplate(kind=kinds.DELETION, tags=tags, created_at=at)

    async def introduce_again(self) -> None:
        """Sign the key's profile and relays if they changed since its first card."""
        if await self.ledger.has_signed(min(FIELDS)):
            await self._introduce()

    async def _introduce(self) -> None:
        """Sign the key's profile (kind 0) and relays (kind 10002) if they changed, once a run."""
        introduction, self.introduction = self.introduction, None
        if introduction is None:
            return
        wanted = introduction.parts()
        before = await self.ledger.published([(kind, "") for kind, _, _ in wanted])
        for kind, content, tags in wanted:
            known = before.get((kind, ""))
            if known is not None and (known.content, known.tags) == (content, tags):
                continue
            at = int(self._now()) if known is None else known.created_at + 1
            made = EventTemplate(
                kind=kind, content=content, tags=tags, created_at=max(at, int(self._now()))
            )
            await self._record([(made, (kind, ""))])

    async def send(
        self,
        pool: RelayPool,
        relays: Sequence[str],
        timeout: float,
        unknown: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Send every relay what it has not accepted; takes `timeout` seconds at most.

        A relay of `unknown` gets nothing; the report has its reason. A failure of a relay is in the
        report, not raised. Safe to cancel, and to repeat.
        """
        named = {relay.url: relay for relay in map(pool.relay, relays)}
        self.report.relays = {url: RelayDelivery(error=unknown.get(url, "")) for url in named}
        asked = {url: relay for url, relay in named.items() if url not in unknown}
        async with task_group() as group:
            for url, relay in asked.items():
                group.create_task(self._bring(relay, self.report.relays[url], timeout))
        for url, report in self.report.relays.items():
            report.left = await self.ledger.left(url)

    async def _bring(self, relay: Relay, report: RelayDelivery, timeout: float) -> None:
        """Send events, AT_ONCE at a time, until the relay has all, is to be skipped, or `timeout`
        seconds are over. A relay that limits the rate gets one at a time, with pauses."""
        run = _Run()
        undelivered = _Undelivered(self.ledger, relay.url)

        async def worker() -> None:
            while not run.error and (one := await undelivered.next()) is not None:
                try:
                    async with run.turn():
                        await relay.publish(one.event, paced=True)
                except RelayError as error:
                    if run.failed(error, report):
                        undelivered.put_back(one)
                else:
                    run.accepted()
                    report.taken += 1
                    await undelivered.taken(one)

        try:
            async with asyncio.timeout(timeout), task_group() as group:
                for _ in range(AT_ONCE):
                    group.create_task(worker())
        except TimeoutError:
            reasons = (run.error, run.limited, f"not finished within {timeout:g} s")
            run.error = "; ".join(filter(None, reasons))
        finally:
            await undelivered.flush()
        report.error = run.error


class _Undelivered:
    """The events that one relay lacks, read and marked in the ledger BATCH at a time."""

    def __init__(self, ledger: Ledger, url: str) -> None:
        self._ledger = ledger
        self._url = url
        self._read: deque[Pending] = deque()
        self._after = 0
        self._at_end = False
        self._reading = asyncio.Lock()
        self._taken: list[Pending] = []

    async def next(self) -> Pending | None:
        """Return the next event that the relay lacks, each once; None at the end."""
        if not self._read:
            async with self._reading:
                if not self._read and not self._at_end:
                    self._read.extend(await self._ledger.pending(self._url, self._after, BATCH))
                    self._at_end = not self._read
        if not self._read:
            return None
        one = self._read.popleft()
        self._after = max(self._after, one.n)
        return one

    def put_back(self, one: Pending) -> None:
        """Return this event next: the relay wants it later."""
        self._read.appendleft(one)

    async def taken(self, one: Pending) -> None:
        """Note that the relay accepted an event; it is recorded with others."""
        self._taken.append(one)
        if len(self._taken) >= BATCH:
            await self.flush()

    async def flush(self) -> None:
        """Record what the relay accepted so far."""
        some, self._taken = self._taken, []
        if some:
            await self._ledger.taken(self._url, some)


class _Run:
    """Whether and how fast this run goes on with one relay.

    `error`: why it does not go on. `limited`: how the relay last asked for fewer events.
    """

    def __init__(self) -> None:
        self.in_a_row = 0
        self.error = ""
        self.limited = ""
        self._pause = FIRST_PAUSE_S
        self._until = 0.0
        self._alone = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until the relay may get an event; of a relay that limits the rate, one at a time."""
        if not self.limited:
            yield
            return
        async with self._alone:
            await asyncio.sleep(self._until - asyncio.get_running_loop().time())
            yield

    def accepted(self) -> None:
        """Note that the relay accepted an event: the next pause is shorter."""
        self.in_a_row = 0
        self._pause = max(FIRST_PAUSE_S, self._pause / 2)

    def _slow_down(self, error: RelayRefused) -> None:
        now = asyncio.get_running_loop().time()
        self.limited = clip(error.reason, 200)
        if now < self._until:
            return  # the refusal belongs to the same burst
        least = error.seconds if isinstance(error, HeldBack) else 0.0
        self._until = now + max(self._pause, least)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_S)

    def failed(self, error: RelayError, report: RelayDelivery) -> bool:
        """Note an error; return whether to send the same event again in this run."""
        if isinstance(error, RelayRefused) and error.prefix == RATE_LIMITED:
            self._slow_down(error)
            return True
        if isinstance(error, RelayRefused):
            _add(report.refused, clip(error.reason, 100))
            if error.prefix in _ENDS:
                self.error = self.error or clip(error.reason, 200)
            return False
        self.in_a_row += 1
        broken = isinstance(error, (NetworkError, DeadlineExceeded))
        if self.in_a_row >= IN_A_ROW or not broken:
            self.error = self.error or clip(str(error), 200)
        return False


def _add(counts: dict[str, int], reason: str) -> None:
    counts[reason] = counts.get(reason, 0) + 1
