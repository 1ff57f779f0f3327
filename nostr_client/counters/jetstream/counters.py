"""Read and change the counters of one stream on a nats-server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from nostr_client.counters import audit, rules
from nostr_client.counters.base import Ack, Entry, NoStream
from nostr_client.counters.calls import BaseCounters
from nostr_client.counters.config import check_seq
from nostr_client.counters.jetstream import direct, wire
from nostr_client.counters.rules import parse_integer
from nostr_client.counters.subjects import check_patterns, matches
from nostr_client.errors import CounterError
from nostr_client.network.waiting import set_within, task_group

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from nats.aio.msg import Msg

    from nostr_client.counters.jetstream.connection import JetStreamConnection

IN_FLIGHT = 256
"""Most publishes of `add_many` that wait for acknowledgements at once."""

POLL_S = 1.0
"""Seconds after which a watch reads without a notification of the server."""

_IDLE_NS = 60_000_000_000
"""Nanoseconds after which the server removes a watch's consumer if nobody listens."""


class JetStreamCounters(BaseCounters):
    """Counters of one stream, created by `JetStreamCounterStore.counters`. See `base.Counters`.

    After DeadlineExceeded, NetworkError or ProtocolError, a sent increment may have been counted.
    The error then says so. Repeat the call with the same message id.
    """

    def __init__(self, connection: JetStreamConnection, name: str, subjects: Sequence[str]) -> None:
        super().__init__(name)
        self._connection = connection
        self._subjects = tuple(subjects)

    async def _publish(self, subject: str, headers: rules.Headers) -> Ack:
        lines = wire.sendable(headers)
        await self._check_ours(subject)
        ack = await self._connection.deliver(subject, b"", lines, wire.ack)
        if ack.stream != self._name:
            raise CounterError(f"{subject} went to the stream {ack.stream}", code=0)
        return ack

    async def _check_ours(self, subject: str) -> None:
        """Refuse a subject of another stream.

        A server routes by subject only, and would add to the other stream.
        """
        if any(matches(pattern, subject) for pattern in self._subjects):
            return
        info = wire.stream_info(await self._connection.api(f"STREAM.INFO.{self._name}"))
        self._subjects = info.config.subjects
        if not any(matches(pattern, subject) for pattern in self._subjects):
            raise NoStream(f"{subject} in {self._name}")

    async def _publish_many(
        self, items: Sequence[tuple[str, rules.Headers]]
    ) -> list[Ack | CounterError]:
        room = asyncio.Semaphore(IN_FLIGHT)

        async def one(subject: str, headers: rules.Headers) -> Ack | CounterError:
            async with room:
                try:
                    return await self._publish(subject, headers)
                except CounterError as error:
                    return error

        async with task_group() as group:
            tasks = [group.create_task(one(*item)) for item in items]
        return [task.result() for task in tasks]

    async def _value(self, subject: str) -> str:
        message = await direct.last(self._connection, self._name, subject)
        return rules.read_body(message.body)

    async def load_many(self, *patterns: str) -> AsyncIterator[tuple[str, int]]:
        wanted = check_patterns(patterns)
        async for chunk in direct.newest(self._connection, self._name, wanted):
            for message in chunk:
                yield message.subject, parse_integer(rules.read_body(message.body))

    async def _entry(self, subject: str, at_seq: int | None) -> Entry:
        if at_seq is None:
            return wire.entry(await direct.last(self._connection, self._name, subject))
        found = await direct.multi_last(self._connection, self._name, [subject], at_seq)
        if not found:
            raise rules.no_message(subject)
        return wire.entry(found[0])

    async def get_many(self, *patterns: str, at_seq: int | None = None) -> AsyncIterator[Entry]:
        wanted = check_patterns(patterns)
        if at_seq is not None:
            check_seq(at_seq)
        async for chunk in direct.newest(self._connection, self._name, wanted, at_seq):
            for message in chunk:
                yield wire.entry(message)

    async def _history_page(self, subject: str, after: int) -> list[Entry]:
        page = await direct.following(self._connection, self._name, subject, after)
        return [wire.entry(message) for message in page]

    async def _recount(self, subject: str) -> audit.Recount:
        steps: list[audit.AuditStep] = []
        after = 0
        while page := await self._history_page(subject, after):
            steps += [audit.AuditStep(e.seq, e.incr, e.value) for e in page]
            after = page[-1].seq
        return audit.recount(steps)

    async def _reset(self, subject: str) -> Ack:
        value = await self.load(subject)
        ack = await self.publish(subject, -value)
        await self._purged(filter=subject, seq=ack.seq)
        return ack

    async def _purge(self, pattern: str) -> int:
        return await self._purged(filter=pattern)

    async def _purged(self, **request: Any) -> int:
        found = await self._connection.api(f"STREAM.PURGE.{self._name}", request)
        return wire.purged(found)

    async def watch(
        self, *patterns: str, after_seq: int | None = None
    ) -> AsyncGenerator[Entry, None]:
        wanted = check_patterns(patterns)
        if after_seq is not None:
            check_seq(after_seq)
        async with self._news(wanted) as news:
            if after_seq is None:
                info = wire.stream_info(await self._connection.api(f"STREAM.INFO.{self._name}"))
                after_seq = info.state.last_seq
                async for entry in self.get_many(*wanted, at_seq=after_seq):
                    yield entry
            while True:
                news.clear()
                entries = await self._changes(wanted, after_seq)
                for entry in entries:
                    yield entry
                if entries:
                    after_seq = entries[-1].seq
                else:
                    await set_within(news, POLL_S)

    async def _changes(self, patterns: Sequence[str], after: int) -> list[Entry]:
        """Return the next changes of all patterns, in order.

        If a page of a pattern is full, later changes of the other patterns wait for the next call.
        """
        pages = [
            await direct.following(self._connection, self._name, pattern, after)
            for pattern in patterns
        ]
        full = [page[-1].seq for page in pages if len(page) == direct.PAGE]
        upto = min(full) if full else None
        found = {m.seq: m for page in pages for m in page if upto is None or m.seq <= upto}
        return [wire.entry(found[seq]) for seq in sorted(found)]

    @asynccontextmanager
    async def _news(self, patterns: Sequence[str]) -> AsyncIterator[asyncio.Event]:
        """Create an event that is set soon after a matching message.

        A consumer of the server sends the notifications.
        """
        event = asyncio.Event()

        async def wake(_: Msg) -> None:
            event.set()

        async with self._connection.listening(wake) as inbox:
            await self._connection.api(
                f"CONSUMER.CREATE.{self._name}",
                {"stream_name": self._name, "config": _consumer(inbox, patterns)},
            )
            yield event


def _consumer(inbox: str, patterns: Sequence[str]) -> dict[str, Any]:
    return {
        "deliver_subject": inbox,
        "deliver_policy": "new",
        "ack_policy": "none",
        "headers_only": True,
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": _IDLE_NS,
        "filter_subjects": list(patterns),
    }
