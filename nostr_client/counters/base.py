"""What every backend of counters does, in the same words: `CounterStore` holds streams, `Counters`
is one of them. Backends: `sqlite` (embedded) and `jetstream` (a nats-server).

A stream's name and a counter's subject are NATS names; every subject of a stream is a counter.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from nostr_client.counters.config import StreamConfig
from nostr_client.counters.rules import Headers
from nostr_client.errors import CounterError, Duplicate

if TYPE_CHECKING:
    from nostr_client.counters.audit import Recount


class NoStream(CounterError):
    """No stream of that name, or none that listens on that subject."""

    def __init__(self, what: str) -> None:
        super().__init__(f"no stream for {what}", code=10059, status=404)


class Ack(msgspec.Struct, frozen=True):
    """A message is stored as `seq`; `val` is the counter's value with it.

    `val` is None where the stream keeps no counters, and for a duplicate, whose `seq` is that of
    the message that was counted. `domain` is the JetStream domain, "" without one.
    """

    stream: str
    domain: str
    seq: int
    val: int | None = None
    duplicate: bool = False

    def value(self) -> int:
        """The value; raises Duplicate where it was counted before."""
        if self.duplicate or self.val is None:
            raise Duplicate(self.seq)
        return self.val


class BatchAck(msgspec.Struct, frozen=True):
    """A whole batch is stored; `seq` is that of its last message."""

    stream: str
    seq: int
    batch: str
    count: int


class Entry(msgspec.Struct, frozen=True):
    """One counter as of message `seq`: its value and what makes it up.

    `sources`: stream -> original subject -> last seen value. `incr` is None where the message
    carries no increment. `ts` is in nanoseconds since 1970.
    """

    subject: str
    value: int
    incr: int | None
    seq: int
    sources: Mapping[str, Mapping[str, int]]
    headers: Headers
    ts: int = 0

    @property
    def local(self) -> int:
        """What was added in this stream itself: the value less what its sources brought."""
        return self.value - sum(sum(subjects.values()) for subjects in self.sources.values())


class Message(msgspec.Struct, frozen=True):
    """A stored message as JetStream shows it; `ts` is in nanoseconds since 1970."""

    seq: int
    subject: str
    headers: Headers
    body: bytes
    ts: int = 0


class Outgoing(msgspec.Struct, frozen=True):
    """A message to publish; `headers` in the order and number given."""

    subject: str
    headers: Headers = ()
    body: bytes = b""


class StreamState(msgspec.Struct, frozen=True):
    """How much a stream holds; `first_seq` of an emptied stream is the one after its last."""

    messages: int
    first_seq: int
    last_seq: int
    subjects: int


class SourceStatus(msgspec.Struct, frozen=True):
    """How far a source was read; `stalled` says why it does not go on, "" when it does."""

    name: str
    filters: str
    destinations: str
    seq: int
    lag: int
    stalled: str = ""


class StreamInfo(msgspec.Struct, frozen=True):
    """A stream's configuration and state; `required_api_level` is None where none is."""

    config: StreamConfig
    state: StreamState
    sources: tuple[SourceStatus, ...] = ()
    required_api_level: int | None = None


class Counters(Protocol):
    """The counters of one stream. Cancelling a call is safe: it happened whole or not at all."""

    @property
    def name(self) -> str: ...

    async def publish(
        self,
        subject: str,
        n: int,
        *,
        headers: Mapping[str, str] | None = None,
        msg_id: str | None = None,
    ) -> Ack:
        """Add `n`, which may be negative or 0, and return where it went.

        The same `msg_id` again within the stream's duplicate window adds nothing: the ack then
        says `duplicate`. Raises CounterError (the stream refuses), NoStream.
        """
        ...

    async def add(self, subject: str, n: int, *, msg_id: str | None = None) -> int:
        """Add `n` and return the new value; raises Duplicate, CounterError, NoStream."""
        ...

    async def add_many(self, items: Sequence[tuple[str, int]]) -> list[Ack | CounterError]:
        """Add to many counters; each item has its own result, in the order given."""
        ...

    async def load(self, subject: str) -> int:
        """The value of one counter; raises CounterError 10037 where there is none."""
        ...

    def load_many(self, *patterns: str) -> AsyncIterator[tuple[str, int]]:
        """Subject and value of every counter that a pattern names; none given: all."""
        ...

    async def get(self, subject: str, *, at_seq: int | None = None) -> Entry:
        """One counter with its sources, now or as of a sequence; raises CounterError 10037."""
        ...

    def get_many(self, *patterns: str, at_seq: int | None = None) -> AsyncIterator[Entry]:
        """Every counter that a pattern names, each once, now or as of a sequence."""
        ...

    def history(self, subject: str, *, after_seq: int = 0) -> AsyncIterator[Entry]:
        """The kept messages of one counter, oldest first."""
        ...

    async def recount(self, subject: str) -> Recount:
        """Add up the kept increments and check that each message follows from the last."""
        ...

    async def reset(self, subject: str) -> int:
        """Publish minus the value, drop the history before that, return the value then.

        0 says that nobody added meanwhile. Sources keep their place: what they brought is not
        brought again. Raises CounterError 10037 where there is no such counter.
        """
        ...

    async def delete(self, subject: str) -> int:
        """Remove a counter (or all that a pattern names); return how many messages went."""
        ...

    def watch(self, *patterns: str, after_seq: int | None = None) -> AsyncGenerator[Entry, None]:
        """The current entry of each counter, then every change as it comes.

        With `after_seq`: every kept message after that one instead, which resumes a watch. Ends
        when the caller stops; changes of one subject come in order.
        """
        ...


class CounterStore(Protocol):
    """Streams by name, and messages as JetStream sees them."""

    async def counters(self, stream: str) -> Counters:
        """Bind to one stream; raises CounterError where it keeps no counters, NoStream."""
        ...

    async def create_stream(self, config: StreamConfig) -> StreamInfo:
        """Make a stream; raises CounterError with the server's code where it may not be."""
        ...

    async def update_stream(self, config: StreamConfig) -> StreamInfo:
        """Replace a stream's configuration by this one, whole."""
        ...

    async def delete_stream(self, name: str) -> None: ...

    async def stream_info(self, name: str) -> StreamInfo: ...

    async def streams(self) -> list[StreamInfo]:
        """Every stream, by name."""
        ...

    async def publish_message(self, message: Outgoing) -> Ack:
        """Publish any message to whichever stream listens on its subject."""
        ...

    async def publish_batch(self, messages: Sequence[Outgoing], batch_id: str) -> BatchAck:
        """Publish messages to one stream, all or none (ADR-50)."""
        ...

    async def last_message(self, stream: str, subject: str) -> Message: ...

    async def last_messages(
        self, stream: str, patterns: Sequence[str], *, up_to_seq: int | None = None
    ) -> list[Message]:
        """The newest message of every matching subject, in the order of sequences."""
        ...

    async def message(self, stream: str, seq: int) -> Message: ...

    def messages(self, stream: str, *, after_seq: int = 0) -> AsyncIterator[Message]:
        """Every kept message, oldest first."""
        ...

    async def purge(self, stream: str, *, filter: str = "", seq: int = 0, keep: int = 0) -> int:
        """Remove the messages below `seq`, or all but the newest `keep`, or all."""
        ...

    async def delete_message(self, stream: str, seq: int) -> None: ...

    async def subscribe(self, pattern: str) -> AsyncIterator[Message]:
        """What streams republish (their `republish` setting) from now on; may drop when slow."""
        ...

    async def settle(self) -> None:
        """Bring every source up to date, as far as it can be now."""
        ...

    async def close(self) -> None: ...
