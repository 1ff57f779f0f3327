"""A stored query read to its end, or to a budget."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from nostr_client.errors import DeadlineExceeded, RelayError
from nostr_client.keys import VerifiedEvent

if TYPE_CHECKING:
    from nostr_client.options import ReadBudget
    from nostr_client.subscription import Subscription


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What one relay sent for one stored query.

    `complete`: EOSE came, and nothing was cut off. `frames` counts EVENT frames of any quality:
    whether a page was full is judged by it, not by the events that were good. `cut`: the budget
    ended it. `error`: why it is not complete otherwise.
    """

    events: tuple[VerifiedEvent, ...]
    complete: bool
    cut: bool = False
    error: RelayError | None = None
    frames: int = 0
    bytes: int = 0
    invalid: int = 0
    mismatched: int = 0

    def is_full(self, limit: int) -> bool:
        """Whether the relay sent as many events as were asked for, so that there may be more."""
        return self.frames >= limit


async def read_page(
    subscription: Subscription,
    relay: str,
    *,
    total: float,
    silence: float,
    budget: ReadBudget | None = None,
) -> Page:
    """Read a subscription that is not live to its end.

    `total` and `silence` are seconds: for the whole, and between events. Never raises RelayError:
    it stands in the page. Cancelling closes the subscription.
    """
    events: list[VerifiedEvent] = []
    error: RelayError | None = None
    cut = False
    if budget is not None:
        subscription.ration(budget.bytes)
    with subscription:
        try:
            async with asyncio.timeout(total):
                while not cut and (batch := await _next_batch(subscription, silence)):
                    events += batch
                    cut = _spent(subscription, len(events), budget)
        except TimeoutError:
            error = DeadlineExceeded("no EOSE before the deadline", relay=relay)
        error = error or subscription.error
    return _page(subscription, events, cut, error)


async def _next_batch(subscription: Subscription, silence: float) -> list[VerifiedEvent]:
    async with asyncio.timeout(silence):
        return await subscription.batch()


def _spent(subscription: Subscription, events: int, budget: ReadBudget | None) -> bool:
    if budget is None:
        return False
    return events >= budget.events or subscription.statistics().bytes >= budget.bytes


def _page(
    subscription: Subscription, events: list[VerifiedEvent], cut: bool, error: RelayError | None
) -> Page:
    stats = subscription.statistics()
    return Page(
        events=tuple(events),
        complete=error is None and not cut,
        cut=cut,
        error=error,
        frames=stats.frames,
        bytes=stats.bytes,
        invalid=stats.invalid,
        mismatched=stats.mismatched,
    )
