"""From the SDK's results to what the API says. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from agent.api import schema
from nostr_client import hll
from nostr_client.codecs.relay_url import normalize
from nostr_client.count.told import Told
from nostr_client.counters.rules import format_integer

if TYPE_CHECKING:
    from collections.abc import Collection

    from nostr_client.count.merge import Claim, Figure
    from nostr_client.count.merge.values import Part
    from nostr_client.count.result import CountResult
    from nostr_client.counters.base import Entry, StreamInfo
    from nostr_client.counters.engine.served import Page
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import IndexStats, StoreStats
    from nostr_client.watch.history import Point

LARGEST = 2**63 - 1
"""The largest number that the store and JSON readers take; no honest count comes near it."""


def figure(found: Figure | None) -> Figure | None:
    """A merged number, none of it above LARGEST."""
    if found is None or max(found.value, found.low, found.high or 0) <= LARGEST:
        return found
    return msgspec.structs.replace(
        found,
        value=min(found.value, LARGEST),
        low=min(found.low, LARGEST),
        high=None if found.high is None else min(found.high, LARGEST),
    )


def counted(result: CountResult, left_out: Collection[str] = ()) -> schema.Counted:
    """A whole result, with what became of every claim; `left_out` by the user, normalised."""
    merged = result.merged
    parts = {part.relay: part for part in merged.parts}
    excluded = {*merged.excluded, *(c.relay for c in result.relays if c.relay in left_out)}
    return schema.Counted(
        query=result.query.name,
        target=result.query.target,
        filters=tuple(one.to_dict() for one in result.query.filters),
        unit=_unit(result),
        figure=figure(merged.figure),
        authors=figure(merged.authors),
        events=figure(merged.events),
        corroborated=figure(merged.corroborated),
        amount=figure(merged.amount),
        relays=tuple(
            claim(one, parts.get(one.relay), excluded=one.relay in excluded)
            for one in result.relays
        ),
    )


def _unit(result: CountResult) -> Any:
    return str(result.unit)


def claim(said: Claim, part: Part | None, *, excluded: bool) -> schema.Claim:
    """One relay's claim, with its part in the number."""
    summary = {name: getattr(said, name) for name in Told.__struct_fields__}
    if said.count is not None:
        summary["count"] = min(said.count, LARGEST)
    return schema.Claim(
        **summary,
        estimate=None if said.registers is None else round(hll.estimate(said.registers), 1),
        used=() if part is None else part.used,
        share=None if part is None else part.share,
        reasons=_reasons(part, excluded=excluded),
        excluded=excluded,
    )


def _reasons(part: Part | None, *, excluded: bool) -> tuple[str, ...]:
    if part is not None:
        return part.reasons
    return ("left out by the watch",) if excluded else ()


def point(found: Point) -> schema.Point:
    """A number of the past."""
    return schema.Point(
        at=found.at,
        value=found.value,
        low=found.low,
        high=found.high,
        exact=found.exact,
        as_said=found.as_said,
    )


def relay(one: Relay, *, tasks: int, failing: int, trusted: Collection[str]) -> schema.Relay:
    """A relay with its connection's numbers."""
    stats = one.stats
    return schema.Relay(
        url=one.url,
        status=str(one.status),
        connected_at=stats.connected_at,
        latency_ms=None if stats.latency_ms is None else round(stats.latency_ms, 1),
        success_rate=round(stats.success_rate, 3),
        attempts=stats.attempts,
        bytes_sent=stats.bytes_sent,
        bytes_received=stats.bytes_received,
        frames=stats.frames,
        rejected=stats.rejected,
        faults=stats.faults,
        last_error=stats.last_error,
        notices=one.notices,
        capabilities=one.capabilities,
        tasks=tasks,
        failing=failing,
        trusted=normalize(one.url) in trusted,
    )


def unmet_relay(url: str, *, tasks: int, trusted: Collection[str]) -> schema.Relay:
    """A relay that nobody has asked anything yet."""
    return schema.Relay(url=url, status="initialized", tasks=tasks, trusted=url in trusted)


def counter(entry: Entry) -> schema.Counter:
    """One counter; its numbers as text."""
    sources = {
        stream: {subject: format_integer(value) for subject, value in subjects.items()}
        for stream, subjects in entry.sources.items()
    }
    return schema.Counter(
        subject=entry.subject,
        value=format_integer(entry.value),
        seq=entry.seq,
        ts=entry.ts / 1e9,
        incr=None if entry.incr is None else format_integer(entry.incr),
        local=format_integer(entry.local),
        sources=sources,
    )


def stream(info: StreamInfo) -> schema.Stream:
    """A stream of counters."""
    return schema.Stream(
        name=info.config.name,
        subjects=tuple(info.config.subjects),
        messages=info.state.messages,
        counters=info.state.subjects,
        last_seq=info.state.last_seq,
    )


def messages(stream: str, page: Page) -> schema.Messages:
    """A page of a stream for those who source it."""
    head = page.head
    return schema.Messages(
        store=head.store,
        epoch=head.epoch,
        stream=stream,
        first_seq=head.first_seq,
        last_seq=head.last_seq,
        runs=head.runs,
        lineage=page.ways,
        messages=page.arrivals,
        more=page.more,
    )


def store(path: str, stats: StoreStats, index: IndexStats | None) -> schema.Store:
    """What the store holds; the hundred commonest kinds."""
    totals = msgspec.structs.asdict(stats)
    totals["kinds"] = dict(list(stats.kinds.items())[:100])
    return schema.Store(path=path, index=index, **totals)
