"""A stored query read to its end, or to a budget."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.codecs.messages import Hint
from nostr_client.errors import DeadlineExceeded, RelayError
from nostr_client.protocol import StoredFrames

if TYPE_CHECKING:
    from nostr_client.network.subscription import Subscription
    from nostr_client.options import ReadBudget


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """What one relay sent for one stored query.

    `complete`: EOSE came, no frame was unreadable, and our budget cut nothing off. The relay may
    hold more all the same: its cap cuts too, and `hint` is what it says of that (NIP-67).
    `frames` counts EVENT frames of any quality: whether a page was full is judged by it, not by the
    events that were good; `malformed` are those that could not be read. `sent` has them in their
    order, for a query with a limit. `cut`: the budget ended it. `error`: why it ended otherwise.
    """

    events: tuple[VerifiedEvent, ...]
    complete: bool
    cut: bool = False
    error: RelayError | None = None
    frames: int = 0
    bytes: int = 0
    invalid: int = 0
    malformed: int = 0
    mismatched: int = 0
    hint: Hint | None = None
    sent: StoredFrames = StoredFrames()


async def read_page(
    subscription: Subscription,
    relay: str,
    *,
    total: float,
    silence: float,
    budget: ReadBudget | None = None,
) -> EventPage:
    """Read a subscription that is not live to its end.

    `total` and `silence` are seconds: for the whole, and between events. Never raises RelayError:
    it stands in the page. Cancelling closes the subscription.
    """
    events: list[VerifiedEvent] = []
    error: RelayError | None = None
    cut = False
    if budget is not None:
        subscription.ration(budget.bytes)
    async with subscription:
        try:
            async with asyncio.timeout(total):
                while not cut and (batch := await _next_batch(subscription, silence)):
                    events += batch
                    cut = _spent(subscription, len(events), budget)
        except TimeoutError:
            error = DeadlineExceeded("no EOSE before the deadline", relay=relay)
        error = error or subscription.error
    return _page(subscription, events, cut, error, subscription.sent(relay))


async def _next_batch(subscription: Subscription, silence: float) -> list[VerifiedEvent]:
    async with asyncio.timeout(silence):
        return await subscription.batch()


def _spent(subscription: Subscription, events: int, budget: ReadBudget | None) -> bool:
    if budget is None:
        return False
    return events >= budget.events or subscription.bytes >= budget.bytes


def _page(
    subscription: Subscription,
    events: list[VerifiedEvent],
    cut: bool,
    error: RelayError | None,
    sent: StoredFrames,
) -> EventPage:
    stats = subscription.statistics()
    return EventPage(
        events=tuple(events),
        complete=error is None and not cut and not stats.malformed,
        cut=cut,
        error=error,
        frames=stats.frames,
        bytes=stats.bytes,
        invalid=stats.invalid,
        malformed=stats.malformed,
        mismatched=stats.mismatched,
        hint=sent.hint,
        sent=sent,
    )
