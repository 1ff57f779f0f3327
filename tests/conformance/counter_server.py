"""The cases' steps against a real nats-server, through the JetStream backend."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from nostr_client.errors import CounterError, InvalidInput
from tests.conformance.counter_steps import Outcome, ack_outcome, config_of, created
from tests.nats_peer import until

if TYPE_CHECKING:
    from nostr_client.counters.base import Message, Outgoing
    from nostr_client.counters.jetstream import JetStreamCounterStore
    from tests.nats_peer import RawClient

SETTLE_S = 1.5
"""How long to wait for a source that shows no sign of having been read (it may be stalled)."""


class ServerDriver:
    """JetStreamCounterStore, and the wire itself for what nats-py would tidy away."""

    def __init__(self, store: JetStreamCounterStore, raw: RawClient) -> None:
        self.store = store
        self.raw = raw

    async def api(self, name: str, request: object = None) -> dict[str, Any]:
        return await self.store.connection.api(name, request)

    async def create(self, config: dict[str, Any]) -> Outcome:
        info = await self.api(f"STREAM.CREATE.{config['name']}", config)
        level = info["config"]["metadata"]["_nats.req.level"]
        return created(int(level))

    async def update(self, config: dict[str, Any]) -> Outcome:
        await self.api(f"STREAM.UPDATE.{config['name']}", config)
        return {"ok": True}

    async def publish(self, message: Outgoing) -> Outcome:
        try:
            return ack_outcome(await self.store.publish_message(message))
        except InvalidInput:
            return self._publish_raw(message)

    def _publish_raw(self, message: Outgoing) -> Outcome:
        reply = self.raw.request(message.subject, message.body, message.headers or None)
        if reply.status.startswith("503"):
            return {"no_responders": True}
        found = json.loads(reply.body)
        return {"error": found["error"]} if "error" in found else {"ack": found}

    async def start_batch(self, batch_id: str, message: Outgoing) -> Outcome:
        marks = (("Nats-Batch-Id", batch_id), ("Nats-Batch-Sequence", "1"))
        reply = self.raw.request(message.subject, message.body, (*marks, *message.headers))
        return {"flow_ack_empty": reply.body == b""}

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def settle(self, stream: str) -> None:
        """Wait for a message of each source's newest; a while where there is none to be seen."""
        config = config_of((await self.api(f"STREAM.INFO.{stream}"))["config"])
        wanted = [await self._newest(s.name, s.filters, s.destinations) for s in config.sources]
        if config.mirror is not None:
            wanted.append(await self._newest(config.mirror.name, ">", ">"))
        mirror = config.mirror is not None
        await until(lambda: self._has(stream, [w for w in wanted if w], mirror), SETTLE_S)

    async def _newest(self, name: str, filters: str, destinations: str) -> tuple[str, int] | None:
        found: list[int] = []
        for pattern in filters.split("\f"):
            try:
                found.append((await self.store.last_message(name, pattern)).seq)
            except CounterError:
                continue
        if not found:
            return None
        return f"{name} {max(found)} {filters} {destinations} ", max(found)

    async def _has(self, stream: str, wanted: list[tuple[str, int]], mirror: bool) -> bool:
        if mirror:
            last = (await self.store.stream_info(stream)).state.last_seq
            return all(last >= seq for _, seq in wanted)
        sources = [_source(m) async for m in self.store.messages(stream)]
        return all(any(s.startswith(text) for s in sources) for text, _ in wanted)

    async def restore(self, step: dict[str, Any]) -> Outcome:
        """A plain stream's snapshot, restored with other settings.

        Another stream stays beside it: the server removes the folder of its last one while the
        restore is already making it anew.
        """
        name = step["name"]
        await self.create({"name": "SPARE", "subjects": ["spare"]})
        config = {"name": name, "subjects": step["subjects"], "allow_direct": True}
        await self.create(config)
        for message in step["messages"]:
            self.raw.request(message["subject"], message["body"].encode())
        snapshot = await self._snapshot(name)
        await self.api(f"STREAM.DELETE.{name}")
        info = await self._restore(name, snapshot, step["target_config"])
        counts = info["config"].get("allow_msg_counter", False)
        return {"ok": True, "allow_msg_counter": counts, "messages": info["state"]["messages"]}

    async def _snapshot(self, name: str) -> tuple[dict[str, Any], list[bytes]]:
        inbox = "_INBOX.snapshot"
        sid = self.raw.subscribe(inbox)
        request = {"deliver_subject": inbox, "chunk_size": 65_536}
        answer = await self.api(f"STREAM.SNAPSHOT.{name}", request)
        chunks: list[bytes] = []
        while True:
            chunk = self.raw.next()
            if not chunk.body:
                self.raw.unsubscribe(sid)
                return answer, chunks
            chunks.append(chunk.body)
            if chunk.reply:
                self.raw.publish(chunk.reply, b"", None)

    async def _restore(
        self, name: str, snapshot: tuple[dict[str, Any], list[bytes]], changes: dict[str, Any]
    ) -> dict[str, Any]:
        answer, chunks = snapshot
        request = {"config": {**answer["config"], **changes}, "state": answer["state"]}
        target = (await self.api(f"STREAM.RESTORE.{name}", request))["deliver_subject"]
        for chunk in chunks:
            self.raw.request(target, chunk)
        found: dict[str, Any] = json.loads(self.raw.request(target, b"").body)
        assert "error" not in found, found
        return found


def _source(message: Message) -> str:
    return next((v for n, v in message.headers if n == "Nats-Stream-Source"), "") + " "
