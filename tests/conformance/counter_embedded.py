"""The cases' steps on the embedded store, with a clock that nobody waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.counters.base import Outgoing
from nostr_client.counters.engine.batch import publish_batch
from tests.conformance.counter_steps import Outcome, ack_outcome, config_of, created

if TYPE_CHECKING:
    from nostr_client.counters.engine.session import CounterSession
    from nostr_client.counters.sqlite import SqliteCounterStore


class Clock:
    """Nanoseconds that pass by themselves a little, and by `sleep` at once."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000_000

    def __call__(self) -> int:
        self.now += 1_000
        return self.now


class Uncommitted(Exception):
    """Rolls a started batch back."""


class EmbeddedDriver:
    """The embedded store in memory, with a clock that steps do not have to wait for."""

    def __init__(self, store: SqliteCounterStore, clock: Clock) -> None:
        self.store = store
        self.clock = clock

    async def create(self, config: dict[str, Any]) -> Outcome:
        info = await self.store.create_stream(config_of(config))
        return created(info.required_api_level)

    async def update(self, config: dict[str, Any]) -> Outcome:
        await self.store.update_stream(config_of(config))
        return {"ok": True}

    async def publish(self, message: Outgoing) -> Outcome:
        return ack_outcome(await self.store.publish_message(message))

    async def start_batch(self, batch_id: str, message: Outgoing) -> Outcome:
        def work(session: CounterSession) -> None:
            publish_batch(session, [message, message], batch_id)
            raise Uncommitted

        with pytest.raises(Uncommitted):
            await self.store.write(work)
        return {"flow_ack_empty": True}

    async def settle(self, stream: str) -> None:
        await self.store.settle()

    async def sleep(self, seconds: float) -> None:
        self.clock.now += int(seconds * 1e9)

    async def restore(self, step: dict[str, Any]) -> Outcome:
        config = config_of(
            {
                "name": step["name"],
                "subjects": step["subjects"],
                "allow_direct": True,
                **step["target_config"],
            }
        )
        messages = [Outgoing(m["subject"], (), m["body"].encode()) for m in step["messages"]]
        info = await self.store.import_stream(config, messages)
        counts = info.config.allow_msg_counter
        return {"ok": True, "allow_msg_counter": counts, "messages": info.state.messages}
