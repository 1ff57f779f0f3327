"""The counters of one stream on a nats-server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from nostr_client.counters import audit, rules
from nostr_client.counters.base import Ack, Entry, NoStream
from nostr_client.counters.jetstream import direct, wire
from nostr_client.counters.numbers import parse_integer
from nostr_client.counters.subjects import check_patterns, is_subject, matches
from nostr_client.errors import CounterError, InvalidInput
from nostr_client.taskgroup import task_group

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence

    from nats.aio.msg import Msg

    from nostr_client.counters.jetstream.connection import Connection

IN_FLIGHT = 256
"""Publishes of `add_many` that wait for their acks at once."""

POLL_S = 1.0
"""How soon a watch notices what the server's notification did not reach it for."""

_IDLE_NS = 60_000_000_000
"""A watch's consumer is removed by the server when nobody listened for so long."""


class JetStreamCounters:
    """One stream; see `base.Counters`. Made by `JetStreamCounterStore.counters`.

    An error after the request was sent (DeadlineExceeded, NetworkError) leaves open whether it
    counted: repeat it with the same message id.
    """

    def __init__(self, connection: Connection, name: str, subjects: Sequence[str]) -> None:
        self._connection = connection
        self._name = name
        self._subjects = tuple(subjects)

    @property
    def name(self) -> str:
        return self._name

    async def publish(
        self,
        subject: str,
        n: int,
        *,
        headers: Mapping[str, str] | None = None,
        msg_id: str | None = None,
    ) -> Ack:
        lines = rules.increment_headers(n, headers, msg_id)
        return await self._publish(subject, wire.sendable(lines))

    async def _publish(self, subject: str, headers: Mapping[str, str]) -> Ack:
        await self._check_ours(subject)
        answer = await self._connection.request(subject, b"", headers)
        ack = wire.ack(self._connection.decode(answer.data))
        if ack.stream != self._name:
            raise CounterError(f"{subject} went to the stream {ack.stream}", code=0)
        return ack

    async def _check_ours(self, subject: str) -> None:
        """A server routes by subject alone: refuse what would be added to another stream."""
        if not is_subject(subject):
            raise InvalidInput(f"not a subject: {subject!r}")
        if any(matches(pattern, subject) for pattern in self._subjects):
            return
        info = wire.stream_info(await self._connection.api(f"STREAM.INFO.{self._name}"))
        self._subjects = info.config.subjects
        if not any(matches(pattern, subject) for pattern in self._subjects):
            raise NoStream(f"{subject} in {self._name}")

    async def add(self, subject: str, n: int, *, msg_id: str | None = None) -> int:
        return (await self.publish(subject, n, msg_id=msg_id)).value()

    async def add_many(self, items: Sequence[tuple[str, int]]) -> list[Ack | CounterError]:
        room = asyncio.Semaphore(IN_FLIGHT)

        async def one(subject: str, n: int) -> Ack | CounterError:
            async with room:
                try:
                    return await self.publish(subject, n)
                except CounterError as error:
                    return error

        async with task_group() as group:
            tasks = [group.create_task(one(subject, n)) for subject, n in items]
        return [task.result() for task in tasks]

    async def load(self, subject: str) -> int:
        message = await direct.last(self._connection, self._name, subject)
        return parse_integer(rules.read_body(message.body))

    async def load_many(self, *patterns: str) -> AsyncIterator[tuple[str, int]]:
        wanted = check_patterns(patterns)
        async for chunk in direct.newest(self._connection, self._name, wanted):
            for message in chunk:
                yield message.subject, parse_integer(rules.read_body(message.body))

    async def get(self, subject: str, *, at_seq: int | None = None) -> Entry:
        if at_seq is None:
            return wire.entry(await direct.last(self._connection, self._name, subject))
        found = await direct.multi_last(self._connection, self._name, [subject], at_seq)
        if not found:
            raise rules.no_message()
        return wire.entry(found[0])

    async def get_many(self, *patterns: str, at_seq: int | None = None) -> AsyncIterator[Entry]:
        wanted = check_patterns(patterns)
        async for chunk in direct.newest(self._connection, self._name, wanted, at_seq):
            for message in chunk:
                yield wire.entry(message)

    async def history(self, subject: str, *, after_seq: int = 0) -> AsyncIterator[Entry]:
        while page := await direct.following(self._connection, self._name, subject, after_seq):
            for message in page:
                yield wire.entry(message)
            after_seq = page[-1].seq

    async def recount(self, subject: str) -> audit.Recount:
        entries = [entry async for entry in self.history(subject)]
        return audit.recount(audit.Step(e.seq, e.incr, e.value) for e in entries)

    async def reset(self, subject: str) -> int:
        value = await self.load(subject)
        ack = await self.publish(subject, -value)
        await self._purge(filter=subject, seq=ack.seq)
        return ack.value()

    async def delete(self, subject: str) -> int:
        check_patterns([subject])
        return await self._purge(filter=subject)

    async def _purge(self, **request: Any) -> int:
        found = await self._connection.api(f"STREAM.PURGE.{self._name}", request)
        return wire.purged(found)

    async def watch(
        self, *patterns: str, after_seq: int | None = None
    ) -> AsyncGenerator[Entry, None]:
        wanted = check_patterns(patterns)
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
                    await _wait(news)

    async def _changes(self, patterns: Sequence[str], after: int) -> list[Entry]:
        """What comes next over all patterns, in order, and nothing beyond a page that was cut."""
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
        """An event that is set soon after a matching message, by a consumer of the server's."""
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


async def _wait(news: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(POLL_S):
            await news.wait()
    except TimeoutError:
        return
