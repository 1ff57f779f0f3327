"""Sign the cards that changed, and send them to relays until each relay accepted them."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from nostr_client.assertions.cards import CardOptions, is_due
from nostr_client.assertions.report import PublishReport, RelayDelivery
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
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nostr_client.assertions.cards import Card
    from nostr_client.assertions.ledger import Ledger, Pending
    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import Signer, VerifiedEvent
    from nostr_client.network.pool import RelayPool
    from nostr_client.network.relay import Relay

T = TypeVar("T")

BATCH: Final = 512
"""Cards that are compared, signed and recorded at once: about half a megabyte."""

AT_ONCE: Final = 64
"""Events sent to one relay that await its answer, at most."""

IN_A_ROW: Final = 3
"""Failures of the connection after which this run skips the relay."""

_ENDS: Final = ("rate-limited", "restricted", "auth-required")
"""Refusals of our key, not of one event: this run skips the relay."""


class Publisher:
    """Publishes the cards of one key. `now`: Unix seconds."""

    def __init__(
        self, ledger: Ledger, signer: Signer, options: CardOptions, now: Callable[[], float]
    ) -> None:
        options.check()
        self._ledger = ledger
        self._signer = signer
        self._options = options
        self._now = now
        self.report = PublishReport()

    async def sign(self, cards: Iterable[Card], *, dry_run: bool = False) -> None:
        """Sign the cards that are due and record them in the ledger.

        A card with a reason against it is withheld, and retracted if its key asked to vanish. Safe
        to cancel: what was recorded stays, and the next `send` sends it.
        """
        for some in _batches(cards):
            before = await self._ledger.published([(one.kind, one.subject) for one in some])
            signed = []
            for card in some:
                made = await self._made(card, before.get((card.kind, card.subject)), dry_run)
                if made is not None:
                    signed.append((card.kind, card.subject, made))
            if signed:
                await self._ledger.put(signed)

    async def _made(self, card: Card, before: Event | None, dry_run: bool) -> VerifiedEvent | None:
        if card.why_not:
            _add(self.report.withheld, card.why_not)
            return None
        if card.lacks:
            _add(self.report.incomplete, ", ".join(card.lacks))
        now = int(self._now())
        if not is_due(card, before, now, self._options):
            self.report.unchanged += 1
            return None
        self.report.signed += 1
        if dry_run:
            return None
        return await self._signer.sign(card.template(now, before, self._options))

    async def retract(self, subjects: Sequence[tuple[int, str]], *, dry_run: bool = False) -> None:
        """Ask relays to delete the cards of these subjects (kind 5, NIP-09), if any exist."""
        for some in _batches(subjects):
            before = await self._ledger.published(some)
            live = {one: card for one, card in before.items() if card.kind != kinds.DELETION}
            self.report.retracted += len(live)
            if live and not dry_run:
                put = [(*one, await self._deletion(one, card)) for one, card in live.items()]
                await self._ledger.put(put)

    async def _deletion(self, subject: tuple[int, str], card: Event) -> VerifiedEvent:
        """Sign the deletion of a card. It is as new as the card: an older one deletes nothing."""
        kind, name = subject
        tags = (("a", f"{kind}:{self._ledger.signer}:{name}"), ("k", str(kind)))
        at = max(int(self._now()), card.created_at)
        return await self._signer.sign(EventTemplate(kind=kinds.DELETION, tags=tags, created_at=at))

    async def introduce(self, relays: Sequence[str], name: str, about: str) -> None:
        """Sign the key's profile (kind 0) and relays (kind 10002) if they changed."""
        profile = msgspec.json.encode({"name": name, "about": about}).decode()
        wanted = (
            (kinds.METADATA, profile, ()),
            (kinds.RELAY_LIST, "", tuple(("r", url) for url in relays)),
        )
        before = await self._ledger.published([(kind, "") for kind, _, _ in wanted])
        for kind, content, tags in wanted:
            known = before.get((kind, ""))
            if known is not None and (known.content, known.tags) == (content, tags):
                continue
            at = int(self._now()) if known is None else known.created_at + 1
            made = EventTemplate(
                kind=kind, content=content, tags=tags, created_at=max(at, int(self._now()))
            )
            await self._ledger.put([(kind, "", await self._signer.sign(made))])

    async def send(self, pool: RelayPool, relays: Sequence[str], timeout: float) -> None:
        """Send every relay what it has not accepted; takes `timeout` seconds at most.

        A failure of a relay is in the report, not raised. Safe to cancel, and to repeat.
        """
        asked = {relay.url: relay for relay in map(pool.relay, relays)}
        self.report.relays = {url: RelayDelivery() for url in asked}
        try:
            async with asyncio.timeout(timeout), task_group() as group:
                for relay in asked.values():
                    group.create_task(self._bring(relay, self.report.relays[relay.url]))
        except TimeoutError:
            for report in self.report.relays.values():
                report.error = report.error or f"not finished within {timeout:g} s"
        for url, report in self.report.relays.items():
            report.left = await self._ledger.left(url)

    async def _bring(self, relay: Relay, report: RelayDelivery) -> None:
        after, run = 0, _Run()
        while not run.error:
            some = await self._ledger.pending(relay.url, after, BATCH)
            if not some:
                break
            taken: list[Pending] = []
            try:
                await self._offer(relay, some, taken, run, report)
            finally:
                report.taken += len(taken)
                await self._ledger.taken(relay.url, taken)
            after = some[-1].n
        report.error = run.error

    async def _offer(
        self,
        relay: Relay,
        some: Sequence[Pending],
        taken: list[Pending],
        run: _Run,
        report: RelayDelivery,
    ) -> None:
        """Send events, AT_ONCE at a time, until the relay has all or is to be skipped."""
        waiting = iter(some)

        async def worker() -> None:
            for one in waiting:
                if run.error:
                    return
                try:
                    await relay.publish(one.event, paced=True)
                except RelayError as error:
                    run.failed(error, report)
                else:
                    run.in_a_row = 0
                    taken.append(one)

        async with task_group() as group:
            for _ in range(min(AT_ONCE, len(some))):
                group.create_task(worker())


class _Run:
    """Whether this run goes on with one relay; `error` is the reason if not."""

    def __init__(self) -> None:
        self.in_a_row = 0
        self.error = ""

    def failed(self, error: RelayError, report: RelayDelivery) -> None:
        if isinstance(error, RelayRefused) and not isinstance(error, HeldBack):
            _add(report.refused, clip(error.reason, 100))
            if error.prefix in _ENDS:
                self.error = self.error or clip(error.reason, 200)
            return
        self.in_a_row += 1
        broken = isinstance(error, (HeldBack, NetworkError, DeadlineExceeded))
        if self.in_a_row >= IN_A_ROW or not broken:
            self.error = self.error or clip(str(error), 200)


def _batches(values: Iterable[T]) -> Iterator[tuple[T, ...]]:
    """Split values into tuples of at most BATCH."""
    left = iter(values)
    while some := tuple(islice(left, BATCH)):
        yield some


def _add(counts: dict[str, int], reason: str) -> None:
    counts[reason] = counts.get(reason, 0) + 1
