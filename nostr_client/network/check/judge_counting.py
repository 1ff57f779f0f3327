"""Judge answers to COUNT by the relay's own events. All functions are pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client import hll
from nostr_client.codecs.display import plural
from nostr_client.codecs.reasons import Reason
from nostr_client.network.check.answers import ExchangeEnd
from nostr_client.network.check.findings import Finding, noted, right, wrong

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.network.check.answers import CountExchange

OFFSETS: Final = range(8, 24)
"""The offsets that a filter can have (NIP-45)."""

_FAR: Final = 0.35
"""Largest relative error of an approximate count: five and a half standard errors."""


def refused(counted: CountExchange, *, listed: bool = True) -> Finding | None:
    """Judge how a COUNT was answered or refused.

    `listed`: the relay's document lists NIP-45. A relay that does not list NIP-45 may answer in any
    way or not at all.
    """
    if counted.count is not None:
        return _warned(counted)
    if counted.malformed:
        return wrong("count.answer", f"Its answer to COUNT is invalid: {counted.malformed[0]}.")
    if counted.end is ExchangeEnd.CLOSED and counted.is_refused:
        what = "has no COUNT" if counted.about is Reason.UNSUPPORTED else "refuses a COUNT"
        return noted("count.answer", f"It {what}, and says so by CLOSED: {counted.reason!r}.")
    if counted.end is ExchangeEnd.CLOSED:
        text = f"It refuses a COUNT for a reason without a prefix: {counted.reason!r}."
        return wrong("count.answer", text)
    if not listed:
        return noted("count.answer", f"It has no COUNT, and does not list it: {counted.in_words}.")
    return wrong("count.answer", f"A COUNT is not refused by CLOSED: {counted.in_words}.")


def _warned(counted: CountExchange) -> Finding | None:
    for warning in counted.warnings:
        if warning.startswith("hll"):
            return wrong("count.registers", f"Its registers are invalid: {warning}.")
        return wrong("count.answer", f"A part of its answer cannot be read: {warning}.")
    return right("count.answer")


def exact(counted: CountExchange, events: Sequence[Event]) -> Finding | None:
    """Require the number of `events`, which are all events that the relay serves for the filter."""
    truth, count = len({one.id for one in events}), counted.count
    if count is None:
        return None
    if count == truth:
        return right("count.exact") if truth else None
    asked = counted.filters[0].to_json()
    if count == 0 and counted.notices:
        of_all = f"counts 0 of {plural(truth, 'event')}"
        text = f"It refuses by the NOTICE {counted.notices[-1]!r} and {of_all}."
        return wrong("count.zero", text)
    if counted.limited and count <= truth:
        return noted("count.exact", f"It counts to {count} at most, and says so (`limited`).")
    if counted.approximate:
        return _approximate(count, truth, asked)
    if counted.hll is not None and count == round(hll.estimate(counted.hll)):
        figures = f"{count} for {plural(truth, 'event')}"
        text = f"Its count for {asked} is the estimate of its registers, {figures}"
        return wrong("count.exact", f"{text}, and it does not say `approximate`.")
    return wrong("count.exact", f"It counts {count} for {asked} and serves {truth}.")


def _approximate(count: int, truth: int, asked: str) -> Finding:
    text = f"It counts about {count} for {asked} and serves {truth}."
    if abs(count - truth) > max(_FAR * truth, 2):
        return wrong("count.exact", text)
    return noted("count.exact", text)


def limited(counted: CountExchange, truth: int) -> Finding | None:
    """Require that `limit` does not change a count.

    `truth`: the number of matching events without the limit.
    """
    asked = counted.filters[0].limit
    if counted.count is None or asked is None:
        return None
    if counted.count == truth:
        return right("count.limit") if truth > asked else None
    if counted.count == asked:
        return noted("count.limit", f"`limit` caps a count: {asked} for {plural(truth, 'event')}.")
    return wrong("count.limit", f"It counts {counted.count} of {truth} with `limit` {asked}.")


def union(counted: CountExchange, each: Sequence[int], truth: int) -> Finding | None:
    """Require the count of the union for several filters.

    `each`: number of events of each filter. `truth`: number of events of the union.
    """
    count = counted.count
    if count is None:
        return None
    if count == truth:
        return right("count.union") if truth not in (*each[:1], *each[-1:], sum(each)) else None
    if count == each[0]:
        said = "the first alone"
    elif count == each[-1]:
        said = "the last alone"
    elif count == sum(each):
        said = "an event of both twice"
    else:
        said = f"{count} instead of {truth}"
    return wrong("count.union", f"Of several filters in a COUNT it counts {said}.")


def false_zero(given: CountExchange) -> Finding | None:
    """Require that an invalid filter gets no count."""
    if given.count is not None:
        return wrong("count.zero", f"It counts {given.count} for an invalid filter.")
    if given.is_refused:
        return right("count.zero")
    return wrong("count.zero", f"An invalid filter is not refused by CLOSED: {given.in_words}.")


def registers(counted: CountExchange, events: Sequence[Event]) -> Finding | None:
    """Require the registers of the authors of `events`, which are all that the relay serves."""
    asked = counted.filters[0]
    offset = hll.offset(asked.to_dict())
    if counted.count is None or offset is None:
        return None
    if counted.hll is None:
        return noted("count.registers", "It sends no registers.")
    truth = sketch(events, offset)
    if counted.hll == truth:
        return right("count.registers") if events else None
    return wrong("count.registers", _difference(counted.hll, truth, events, offset, asked))


def sketch(events: Sequence[Event], offset: int) -> bytes:
    """Return the registers of the authors of events."""
    return hll.from_pubkeys({one.pubkey for one in events}, offset)


def _difference(
    said: bytes, truth: bytes, events: Sequence[Event], offset: int, asked: Filter
) -> str:
    if said == hll.EMPTY:
        return f"Its registers for {asked.to_json()} are all zero, and it serves {len(events)}."
    for other in OFFSETS:
        if said == sketch(events, other):
            return f"Its registers have the offset {other} instead of {offset}."
    if said == hll.from_pubkeys({one.id for one in events}, offset):
        return "Its registers are those of event ids, not of authors."
    high = sum(a > b for a, b in zip(said, truth, strict=True))
    low = sum(a < b for a, b in zip(said, truth, strict=True))
    return f"Of its 256 registers {high} are too high and {low} too low for what it serves."
