"""An answer of a nats-server that is lost: the error says what may have happened there."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from nostr_client.counters.base import Outgoing
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.jetstream import JetStreamCounters, JetStreamCounterStore, NatsOptions
from nostr_client.errors import DeadlineExceeded, Duplicate, NetworkError
from tests.nats_peer import NatsServer, running_server
from tests.nats_proxy import FaultyNats

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.interop

CONFIG = StreamConfig(
    name="C", subjects=("count.*",), allow_msg_counter=True, allow_direct=True, allow_atomic=True
)
IMPATIENT = NatsOptions(timeout_s=0.5)


@asynccontextmanager
async def behind(
    server: NatsServer, fault: str
) -> AsyncIterator[tuple[JetStreamCounterStore, JetStreamCounters, FaultyNats]]:
    """A store that reaches the server through a network with this fault alone."""
    async with (
        FaultyNats(lambda: server.port, 1, kinds=(fault,)) as proxy,
        await JetStreamCounterStore.connect(proxy.url, IMPATIENT) as store,
    ):
        proxy.rate = 1.0
        yield store, await store.counters("C"), proxy


@pytest.mark.parametrize("fault", ["lost ack", "cut after", "lost request"])
async def test_a_lost_acknowledgement_says_that_it_may_have_been_counted(fault: str) -> None:
    with running_server() as server:
        async with await JetStreamCounterStore.connect(server.url) as direct:
            await direct.create_stream(CONFIG)
            sure = await direct.counters("C")
            await sure.add("count.a", 1)
            async with behind(server, fault) as (_, counters, proxy):
                with pytest.raises(DeadlineExceeded, match="may have been counted: repeat it"):
                    await counters.add("count.a", 2, msg_id="m1")
                proxy.rate = 0.0
                if fault == "lost request":
                    assert await sure.load("count.a") == 1
                    assert await sure.add("count.a", 2, msg_id="m1") == 3
                else:
                    assert await sure.load("count.a") == 3
                    with pytest.raises(Duplicate):
                        await sure.add("count.a", 2, msg_id="m1")


async def test_every_kind_of_message_says_so() -> None:
    three = Outgoing("count.a", (("Nats-Incr", "3"),))
    with running_server() as server:
        async with await JetStreamCounterStore.connect(server.url) as direct:
            await direct.create_stream(CONFIG)
            async with behind(server, "lost ack") as (store, counters, _):
                for work in (
                    counters.reset("count.a"),
                    store.publish_message(three),
                    store.publish_batch([three], "b1"),
                ):
                    await (await direct.counters("C")).add("count.a", 1)
                    with pytest.raises(DeadlineExceeded, match="may have been counted: repeat it"):
                        await work


async def test_what_was_never_sent_leaves_no_doubt() -> None:
    with running_server() as server:
        store = await JetStreamCounterStore.connect(server.url)
        await store.create_stream(CONFIG)
        counters = await store.counters("C")
        await store.close()
        with pytest.raises(NetworkError) as caught:
            await counters.add("count.a", 1)
        assert "may have" not in str(caught.value)


async def test_a_change_of_a_stream_that_is_not_answered_may_have_been_done() -> None:
    with running_server() as server:
        store = await JetStreamCounterStore.connect(server.url, IMPATIENT)
        await store.create_stream(CONFIG)
        server.kill()
        try:
            with pytest.raises(DeadlineExceeded, match="the server may have done it"):
                await store.purge("C")
            with pytest.raises(DeadlineExceeded) as caught:
                await store.stream_info("C")
            assert "may have" not in str(caught.value)
        finally:
            await store.close()
