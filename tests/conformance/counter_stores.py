"""Every backend of the counters, as fixtures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.counters.config import StreamConfig
from nostr_client.counters.jetstream import JetStreamCounterStore
from nostr_client.counters.sqlite import SqliteCounterStore
from tests.nats_peer import running_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nostr_client.counters.base import Counters, CounterStore


@pytest.fixture(params=["embedded", pytest.param("nats-server", marks=pytest.mark.interop)])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[CounterStore]:
    if request.param == "embedded":
        async with await SqliteCounterStore.open(":memory:") as embedded:
            yield embedded
        return
    with running_server() as server:
        async with await JetStreamCounterStore.connect(server.url) as jetstream:
            yield jetstream


def config(name: str = "C", *subjects: str, **more: Any) -> StreamConfig:
    fields: dict[str, Any] = {"allow_msg_counter": True, "allow_direct": True, **more}
    return StreamConfig(name=name, subjects=subjects, **fields)


@pytest.fixture
async def counters(store: CounterStore) -> Counters:
    await store.create_stream(config("C", "c.>"))
    return await store.counters("C")
