"""Read a stored query to its end, or to a budget."""

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
    """Events and statistics of one relay for one stored query.

    - `complete`: EOSE came, every frame was readable, and the budget cut nothing off. The relay may
      still have more events, because its own cap cuts too. `hint` is what the relay says about that
      (NIP-67).
    - `frames`: number of EVENT frames, valid or not. It shows whether a page was full.
    - `malformed`: number of unreadable frames.
    - `sent`: the frames in their order, for a query with a limit.
    - `cut`: the budget ended the reading.
    - `error`: the error that ended the reading.
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

    `total`: seconds for the whole call. `silence`: seconds between events. Never raises RelayError;
    the page has the error. Cancelling closes the subscription.
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
