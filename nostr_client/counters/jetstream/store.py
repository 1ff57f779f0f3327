"""Keep streams of counters on a nats-server: the CounterStore of JetStream."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from nostr_client.counters import rules
from nostr_client.counters.base import CounterStore
from nostr_client.counters.calls import check_purge
from nostr_client.counters.config import check_name, check_seq, check_values
from nostr_client.counters.jetstream import direct, wire
from nostr_client.counters.jetstream.connection import (
    JetStreamConnection,
    batches_are_safe,
    caution,
)
from nostr_client.counters.jetstream.counters import JetStreamCounters
from nostr_client.counters.jetstream.dial import NatsOptions
from nostr_client.counters.subjects import check_patterns, check_subject
from nostr_client.errors import CounterError, DeadlineExceeded, InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from types import TracebackType

    from nostr_client.counters.base import Ack, BatchAck, Message, Outgoing, StreamInfo
    from nostr_client.counters.config import StreamConfig

SETTLE_S = 0.05
"""Seconds between two checks of the lag of the server's sources."""


_DEFAULTS = NatsOptions()


class JetStreamCounterStore(CounterStore):
    """Holds streams of counters on a nats-server of version 2.12 or later. Create it by `connect`.

    CounterStore describes the methods that are not in this section.
    """

    def __init__(self, connection: JetStreamConnection) -> None:
        self.connection = connection

    @classmethod
    async def connect(cls, url: str | Sequence[str], options: NatsOptions = _DEFAULTS) -> Self:
        """Connect to a server, or to several servers of one cluster.

        The connection reconnects until you close it. Raises NetworkError, InvalidInput, and
        Unsupported for a server before 2.12.
        """
        return cls(await JetStreamConnection.connect(url, options))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self.connection.close()

    @property
    def caution(self) -> str | None:
        """A warning about known errors of this version of the server, or None."""
        return caution(self.connection.version)

    async def counters(self, stream: str) -> JetStreamCounters:
        """Return the counters of one stream.

        A mirror of counters is readable, too. Raises NoStream, and CounterError if the stream has
        no counters or does not allow direct get.
        """
        info = await self.stream_info(stream)
        if not info.config.allow_msg_counter and not (info.config.mirror or info.config.sources):
            raise rules.disabled().named(stream)
        if not info.config.allow_direct:
            text = "counters are read by direct get; set allow_direct"
            raise CounterError(text, code=0, about=stream)
        return JetStreamCounters(self.connection, stream, info.config.subjects)

    async def _api(self, call: str, stream: str, request: object = None) -> dict[str, Any]:
        """Call the API about one stream.

        The name is checked first, because a name with a dot or a `*` would ask for something else.
        """
        return await self.connection.api(f"{call}.{check_name(stream)}", request)

    async def create_stream(self, config: StreamConfig) -> StreamInfo:
        check_values(config)
        found = await self._api("STREAM.CREATE", config.name, config.to_api())
        return wire.stream_info(found)

    async def update_stream(self, config: StreamConfig) -> StreamInfo:
        check_values(config)
        found = await self._api("STREAM.UPDATE", config.name, config.to_api())
        return wire.stream_info(found)

    async def delete_stream(self, name: str) -> None:
        await self._api("STREAM.DELETE", name)

    async def stream_info(self, name: str) -> StreamInfo:
        return wire.stream_info(await self._api("STREAM.INFO", name))

    async def streams(self) -> list[StreamInfo]:
        infos: list[StreamInfo] = []
        while True:
            found = await self.connection.api("STREAM.LIST", {"offset": len(infos)})
            page, total = wire.stream_page(found)
            infos += page
            if not page or len(infos) >= total:
                return sorted(infos, key=lambda info: info.config.name)

    async def publish_message(self, message: Outgoing) -> Ack:
        headers = wire.sendable(message.headers)
        subject = check_subject(message.subject)
        return await self.connection.deliver(subject, message.body, headers or None, wire.ack)

    async def publish_batch(self, messages: Sequence[Outgoing], batch_id: str) -> BatchAck:
        """Publish several messages to one stream in one step (ADR-50).

        The stream stores all messages or none. Raises CounterError, and InvalidInput on a server
        whose batches break counters.
        """
        if not batches_are_safe(self.connection.version):
            raise InvalidInput(self.caution or "this server has no batches")
        if not messages:
            raise InvalidInput("a batch holds at least one message")
        rules.check_syntax(((rules.BATCH_ID, batch_id),))
        for message in messages:
            check_subject(message.subject)
        for number, message in enumerate(messages[:-1], 1):
            await self._stage(message, batch_id, number)
        headers = {**_marks(batch_id, len(messages)), **wire.sendable(messages[-1].headers)}
        headers["Nats-Batch-Commit"] = "1"
        last = messages[-1]
        return await self.connection.deliver(last.subject, last.body, headers, wire.batch_ack)

    async def _stage(self, message: Outgoing, batch_id: str, number: int) -> None:
        """Send one message before the commit.

        The server's answer to the first message is empty or an error.
        """
        headers = {**_marks(batch_id, number), **wire.sendable(message.headers)}
        if number > 1:
            await self.connection.publish(message.subject, message.body, headers)
            return
        answer = await self.connection.request(message.subject, message.body, headers)
        if answer.data:
            self.connection.decode(answer.data, message.subject)

    async def last_message(self, stream: str, subject: str) -> Message:
        return await self._stored(stream, {"last_by_subj": check_patterns([subject])[0]})

    async def last_messages(
        self, stream: str, patterns: Sequence[str], *, up_to_seq: int | None = None
    ) -> list[Message]:
        wanted = check_patterns(patterns)
        if up_to_seq is not None:
            check_seq(up_to_seq)
        chunks = direct.newest(self.connection, check_name(stream), wanted, up_to_seq)
        every = [message async for chunk in chunks for message in chunk]
        return sorted(every, key=lambda message: message.seq)

    async def message(self, stream: str, seq: int) -> Message:
        return await self._stored(stream, {"seq": check_seq(seq)})

    async def messages(self, stream: str, *, after_seq: int = 0) -> AsyncIterator[Message]:
        check_seq(after_seq)
        while True:
            try:
                request = {"seq": after_seq + 1, "next_by_subj": ">"}
                message = await self._stored(stream, request)
            except CounterError as error:
                if error.code == rules.NO_MESSAGE:
                    return
                raise
            yield message
            after_seq = message.seq

    async def _stored(self, stream: str, request: dict[str, Any]) -> Message:
        found = await self._api("STREAM.MSG.GET", stream, request)
        return wire.stored_message(found.get("message"))

    async def purge(self, stream: str, *, filter: str = "", seq: int = 0, keep: int = 0) -> int:
        check_purge(filter, seq, keep)
        return await purge(self.connection, check_name(stream), filter=filter, seq=seq, keep=keep)

    async def delete_message(self, stream: str, seq: int) -> None:
        await self._api("STREAM.MSG.DELETE", stream, {"seq": check_seq(seq)})

    async def subscribe(self, pattern: str) -> AsyncIterator[Message]:
        check_patterns([pattern])
        return await self.connection.subscribe(pattern)

    async def settle(self) -> None:
        """Wait until no source of any stream reports a lag.

        A server reports the lag that it knows. If a message is very new, the server may not have
        included it in the lag yet. Raises DeadlineExceeded.
        """
        try:
            async with asyncio.timeout(self.connection.timeout):
                await self._settle()
        except TimeoutError as error:
            url = self.connection.url
            raise DeadlineExceeded("sources still lag", relay=url) from error

    async def _settle(self) -> None:
        while True:
            infos = await self.streams()
            if not any(source.lag for info in infos for source in info.sources):
                return
            await asyncio.sleep(SETTLE_S)


async def purge(
    connection: JetStreamConnection, stream: str, *, filter: str = "", seq: int = 0, keep: int = 0
) -> int:
    """Remove messages as STREAM.PURGE does. Return their number."""
    wanted = {"filter": filter, "seq": seq, "keep": keep}
    request = {name: value for name, value in wanted.items() if value}
    found = await connection.api(f"STREAM.PURGE.{stream}", request)
    return wire.purged(found)


def _marks(batch_id: str, number: int) -> dict[str, str]:
    return {rules.BATCH_ID: batch_id, "Nats-Batch-Sequence": str(number)}
