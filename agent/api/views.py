"""Converts the SDK's results to the API's types. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from agent.api import schema
from nostr_client.codecs.relay_url import normalize
from nostr_client.watch.definition import shown_alerts

if TYPE_CHECKING:
    from collections.abc import Collection

    from nostr_client.counters.base import StreamInfo
    from nostr_client.counters.engine.served import MessagePage
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import IndexStats, StoreStats


def coverage(one: schema.CoverageState) -> schema.CoverageState:
    """A coverage as it is shown: of webhooks only the host, of commands only the program."""
    return msgspec.structs.replace(
        one, spec=msgspec.structs.replace(one.spec, alerts=shown_alerts(one.spec.alerts))
    )


def relay(one: Relay, *, tasks: int, failing: int, trusted: Collection[str]) -> schema.RelayState:
    """A relay with its connection's numbers."""
    stats = one.stats
    return schema.RelayState(
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


def unmet_relay(url: str, *, tasks: int, trusted: Collection[str]) -> schema.RelayState:
    """A relay that no task has asked yet."""
    return schema.RelayState(url=url, status="initialized", tasks=tasks, trusted=url in trusted)


def stream(info: StreamInfo) -> schema.Stream:
    """A stream of counters."""
    return schema.Stream(
        name=info.config.name,
        subjects=tuple(info.config.subjects),
        messages=info.state.messages,
        counters=info.state.subjects,
        last_seq=info.state.last_seq,
        counts=info.config.allow_msg_counter,
        targets=info.config.targets,
    )


def messages(stream: str, page: MessagePage) -> schema.Messages:
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
