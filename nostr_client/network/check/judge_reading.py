"""Judge answers to REQ. All functions are pure."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from nostr_client.codecs.display import plural
from nostr_client.codecs.kinds import DELETION
from nostr_client.codecs.messages import Hint
from nostr_client.network.check.answers import ExchangeEnd
from nostr_client.network.check.findings import Finding, noted, right, untested, wrong
from nostr_client.store.rules import Coordinate, d_of, deletion, expiration, is_deletable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.network.check.answers import Exchange, ReqExchange

RECENT: Final = 60
"""Seconds before the check in which an event may still arrive during the check."""


def each_answer(reading: ReqExchange, now: int) -> list[Finding | None]:
    """Apply the rules for every answer to a REQ."""
    return [
        answer(reading),
        frames(reading),
        matches(reading),
        signatures(reading),
        repeats(reading),
        limit(reading),
        order(reading),
        expired(reading, now),
        versions(reading),
    ]


def answer(reading: Exchange) -> Finding | None:
    """Require EOSE at the end of a REQ."""
    if reading.end is ExchangeEnd.ANSWERED:
        return right("read.answer")
    if reading.end is ExchangeEnd.CLOSED:
        return noted("read.answer", f"It refuses a REQ: {reading.reason!r}.")
    return wrong("read.answer", f"A REQ is not ended by EOSE: {reading.in_words}.")


def frames(reading: Exchange) -> Finding | None:
    """Require that every frame is a valid message."""
    if not reading.malformed:
        return right("read.frames") if reading.end is ExchangeEnd.ANSWERED else None
    many = plural(len(reading.malformed), "frame")
    return wrong("read.frames", f"It sends {many} that no NIP has: {reading.malformed[0]}.")


def matches(reading: ReqExchange) -> Finding | None:
    """Require that only matching events come."""
    strange = [e for e in reading.events if not any(f.matches(e) for f in reading.filters)]
    if not strange:
        return None
    asked = reading.filters[0].to_json()
    text = f"{len(strange)} of {plural(len(reading.events), 'event')} do not match the filter"
    return wrong("read.filter", f"{text} {asked}.")


def signatures(reading: ReqExchange) -> Finding | None:
    """Require valid ids and signatures."""
    if not reading.forged:
        return right("read.signatures") if reading.events else None
    return wrong(
        "read.signatures",
        f"It serves {plural(len(reading.forged), 'event')} whose id or signature does not hold.",
    )


def repeats(reading: ReqExchange) -> Finding | None:
    """Require that no event comes twice."""
    twice = sum(times > 1 for times in Counter(one.id for one in reading.events).values())
    if not twice:
        return right("read.repeats") if reading.events else None
    return wrong(
        "read.repeats", f"{plural(twice, 'event comes', 'events come')} twice for one REQ."
    )


def limit(reading: ReqExchange) -> Finding | None:
    """Require no more events than the limit."""
    if len(reading.filters) != 1 or reading.filters[0].limit is None:
        return None
    most = reading.filters[0].limit
    if len(reading.events) <= most:
        return None
    sent = plural(len(reading.events), "event")
    return wrong("read.limit", f"For `limit` {most} it sends {sent}.")


def order(reading: ReqExchange) -> Finding | None:
    """Require the newest event first (NIP-01)."""
    times = [one.created_at for one in reading.matching]
    if len(reading.filters) != 1 or reading.filters[0].limit is None or len(set(times)) < 2:
        return None
    if all(a >= b for a, b in pairwise(times)):
        return right("read.order")
    if all(a <= b for a, b in pairwise(times)):
        return wrong("read.order", "It sends the oldest event first.")
    return wrong("read.order", "It sends events in no order of time.")


def expired(reading: ReqExchange, now: int) -> Finding | None:
    """Require that events which expired before the check do not come (NIP-40)."""
    ends = [end for one in reading.matching if (end := expiration(one)) is not None]
    gone = sum(end < now - RECENT for end in ends)
    if not ends:
        return untested("read.expired", "none of the events that it serves has an expiration")
    if not gone:
        return right("read.expired")
    return wrong("read.expired", f"It serves {plural(gone, 'event')} that expired before.")


def versions(reading: ReqExchange) -> Finding | None:
    """Require one version of each replaceable or addressable event."""
    found: Counter[Coordinate] = Counter()
    for event in {one.id: one for one in reading.matching}.values():
        if (d := d_of(event)) is not None:
            found[Coordinate(event.kind, event.pubkey, d)] += 1
    several = [address for address, times in found.items() if times > 1]
    if not found:
        return untested("read.versions", "none of the events that it serves is replaceable")
    if not several:
        return right("read.versions")
    first = several[0]
    text = f"It serves {found[first]} versions of a replaceable event of kind {first.kind}."
    return wrong("read.versions", text)


def newest(page: ReqExchange, above: ReqExchange, now: int) -> Finding | None:
    """Require the newest events on a page.

    `above`: the relay's events from the page's newest second on.
    """
    stamps = [one.created_at for one in page.matching]
    old = [one for one in above.matching if one.created_at < now - RECENT]
    more = [one for one in old if stamps and one.created_at > max(stamps)]
    if not more:
        return None
    text = f"A page without `until` leaves out the newest events, {len(more)} at least."
    return wrong("read.order", text)


def page(first: ReqExchange, rest: ReqExchange) -> Finding | None:
    """Report how many events one REQ returns.

    `rest`: the relay's events at and below the page's oldest second.
    """
    asked = first.filters[0].limit
    more = rest.ids - first.ids
    if asked is None or not first.events:
        return None
    if len(first.events) >= asked:
        return noted("read.page", f"One REQ brings {plural(asked, 'event')} or more.")
    if not more:
        text = f"It holds {plural(len(first.events), 'event')}, which come at once."
        return noted("read.page", text)
    return noted("read.page", f"One REQ brings {plural(len(first.events), 'event')} at most.")


def hint(first: ReqExchange, rest: ReqExchange) -> Finding | None:
    """Require that EOSE describes the rest of the events correctly (NIP-67)."""
    more = bool(rest.ids - first.ids)
    if first.hint is None:
        return noted("read.hint", "It says nothing at EOSE of what it did not send (NIP-67).")
    if first.hint is Hint.FINISH and more:
        return wrong("read.hint", "It says `finish` at EOSE and holds more.")
    if first.hint is Hint.MORE and rest.end is ExchangeEnd.ANSWERED and not more:
        return wrong("read.hint", "It says `more` at EOSE and holds no more.")
    return right("read.hint") if rest.end is ExchangeEnd.ANSWERED else None


def known_come(
    test: str, reading: ReqExchange, expected: Collection[str], what: str
) -> Finding | None:
    """Require that events which the relay sent before also come for another matching filter."""
    if not expected:
        return untested(test, "it serves no event by which this can be tested")
    if reading.end is not ExchangeEnd.ANSWERED:
        return None
    lacking = set(expected) - reading.ids
    if not lacking:
        return right(test)
    return wrong(test, f"{len(lacking)} of {plural(len(expected), 'event')} that it serves {what}.")


def seconds(
    second: int, both: ReqExchange, wider: Mapping[str, ReqExchange], known: Collection[str]
) -> Finding | None:
    """Require that `since` and `until` include their second.

    `wider`: readings with one end moved by one second.
    """
    if both.end is not ExchangeEnd.ANSWERED or not known:
        return None
    if set(known) <= both.ids:
        return right("read.range")
    for name, reading in wider.items():
        if set(known) <= reading.ids:
            return wrong("read.range", f"`{name}` {second} leaves out the events of that second.")
    return wrong("read.range", f"`since` and `until` {second} bring less than it holds there.")


def exactly(reading: ReqExchange, page_events: Sequence[Event]) -> Finding | None:
    """Require that a small limit is filled with the newest events.

    `page_events`: the events of the first page.
    """
    most = reading.filters[0].limit or 0
    if reading.end is not ExchangeEnd.ANSWERED or len(page_events) <= most:
        return None
    if len(reading.events) < most:
        text = f"For `limit` {most} it sends {len(reading.events)}, and holds more."
        return wrong("read.limit", text)
    times = sorted((one.created_at for one in page_events), reverse=True)
    if min(one.created_at for one in reading.events) < times[most - 1]:
        return wrong("read.order", f"For `limit` {most} it does not send the newest events.")
    return right("read.limit")


def long_id(reading: Exchange) -> Finding | None:
    """Require that a subscription id of 64 characters is accepted (NIP-01)."""
    if reading.end is ExchangeEnd.ANSWERED:
        return right("read.id")
    return wrong("read.id", f"A subscription id of 64 characters: {reading.in_words}.")


def refusal(given: Exchange) -> Finding | None:
    """Require CLOSED with a prefix for an invalid filter."""
    if given.end is ExchangeEnd.ANSWERED:
        return wrong("read.refusal", "It answers an invalid filter as if it were valid.")
    if given.is_refused:
        return right("read.refusal")
    return wrong("read.refusal", f"An invalid filter is not refused by CLOSED: {_form(given)}.")


def _form(given: Exchange) -> str:
    if given.end is not ExchangeEnd.CLOSED:
        return given.in_words
    return f"the reason has no prefix: {given.reason!r}"


def deleted(deletions: Iterable[Event], served: ReqExchange) -> Finding | None:
    """Require that events which their author deleted do not come.

    `served`: the answer to a REQ for the deleted ids.
    """
    asked: dict[str, list[Event]] = {}
    for one in deletions:
        for gone in deletion(one).ids:
            asked.setdefault(gone, []).append(one)
    still = [one for one in served.matching if is_deletable(one.kind) and _own(one, asked)]
    if not asked:
        return untested("read.deleted", "it has no deletion of an event")
    if not still:
        return right("read.deleted") if served.end is ExchangeEnd.ANSWERED else None
    return wrong(
        "read.deleted",
        f"It serves {plural(len(still), 'event')} that its author deleted "
        f"(kind {DELETION}), such as {still[0].id}.",
    )


def _own(event: Event, asked: Mapping[str, Sequence[Event]]) -> bool:
    return any(one.pubkey == event.pubkey for one in asked.get(event.id, ()))


def strays(late: Collection[str], first: ReqExchange) -> Finding | None:
    """Require stored events before EOSE. `late`: ids of events for requests that had ended."""
    if len(late) < 3:
        return None
    text = f"{plural(len(late), 'event')} came after the EOSE, or for no request."
    return wrong("read.frames" if first.events else "read.answer", text)


def stated_page_limit(said: int, first: ReqExchange, more: bool) -> Finding | None:
    """Require the relay's true page limit in its NIP-11 document.

    `more`: the relay has more events than it sent.
    """
    asked, sent = first.filters[0].limit or 0, len(first.events)
    if sent > said:
        return wrong("document.limits", f"It says `max_limit` {said} and sends {sent}.")
    if more and sent < min(said, asked):
        return wrong("document.limits", f"It says `max_limit` {said} and sends {sent} at most.")
    if not more:
        why = (
            f"it serves {plural(sent, 'event')} in all, which does not show its `max_limit` {said}"
        )
        return untested("document.limits", why)
    return right("document.limits")
