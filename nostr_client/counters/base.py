"""Define the protocols of all counter backends.

`CounterStore` holds streams. `Counters` are the counters of one stream. The backends are `sqlite`
(embedded) and `jetstream` (a nats-server).

The name of a stream and the subject of a counter are NATS names. Every subject of a stream is a
counter.
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
    """The store has no stream with that name, or none that listens on that subject."""

    def __init__(self, what: str) -> None:
        super().__init__(f"no stream for {what}", code=10059, status=404)


class Ack(msgspec.Struct, frozen=True):
    """Acknowledgement of a message that is stored as `seq`.

    `val` is the counter's value with the message. `val` is None if the stream has no counters. It
    is also None for a duplicate, whose `seq` is that of the counted message. `domain` is the
    JetStream domain, or "" without one.
    """

    stream: str
    domain: str
    seq: int
    val: int | None = None
    duplicate: bool = False

    def value(self) -> int:
        """Return the value. Raises Duplicate if the message was counted before."""
        if self.duplicate or self.val is None:
            raise Duplicate(self.seq)
        return self.val


class BatchAck(msgspec.Struct, frozen=True):
    """Acknowledgement of a whole batch. `seq` is that of its last message."""

    stream: str
    seq: int
    batch: str
    count: int


class Entry(msgspec.Struct, frozen=True):
    """One counter as of message `seq`.

    `sources` maps stream to original subject to last seen value. `incr` is None if the message has
    no increment. `ts` is in nanoseconds since 1970.
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
        """The part that was added in this stream: the value minus the parts of its sources."""
        return self.value - sum(sum(subjects.values()) for subjects in self.sources.values())


class Message(msgspec.Struct, frozen=True):
    """A stored message as in JetStream. `ts` is in nanoseconds since 1970."""

    seq: int
    subject: str
    headers: Headers
    body: bytes
    ts: int = 0


class Outgoing(msgspec.Struct, frozen=True):
    """A message to publish. `headers` keep their order and number."""

    subject: str
    headers: Headers = ()
    body: bytes = b""


class StreamState(msgspec.Struct, frozen=True):
    """Size of a stream.

    `first_seq` of an emptied stream is the sequence after its last message.
    """

    messages: int
    first_seq: int
    last_seq: int
    subjects: int


class SourceStatus(msgspec.Struct, frozen=True):
    """How far a stream has read a source.

    `stalled` says why the stream reads no further, or is "".
    """

    name: str
    filters: str
    destinations: str
    seq: int
    lag: int
    stalled: str = ""


class StreamInfo(msgspec.Struct, frozen=True):
    """Configuration and state of a stream.

    `required_api_level` is None if the stream needs none.
    """

    config: StreamConfig
    state: StreamState
    sources: tuple[SourceStatus, ...] = ()
    required_api_level: int | None = None


class Counters(Protocol):
    """Counters of one stream.

    Safe to cancel: each call has done all of its work or none.
    """

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
        """Add `n` and return the acknowledgement. `n` may be negative or 0.

        If `msg_id` occurs again within the stream's duplicate window, the call adds nothing and the
        acknowledgement has `duplicate`. Raises CounterError if the stream refuses, and NoStream.
        """
        ...

    async def add(self, subject: str, n: int, *, msg_id: str | None = None) -> int:
        """Add `n` and return the new value.

        Raises Duplicate, CounterError and NoStream.
        """
        ...

    async def add_many(self, items: Sequence[tuple[str, int]]) -> list[Ack | CounterError]:
        """Add to many counters. Each item has its own result, in the order of the items."""
        ...

    async def load(self, subject: str) -> int:
        """Return the value of one counter.

        Raises CounterError 10037 if there is no such counter.
        """
        ...

    def load_many(self, *patterns: str) -> AsyncIterator[tuple[str, int]]:
        """Yield subject and value of every counter that matches a pattern.

        Without patterns, yields all counters.
        """
        ...

    async def get(self, subject: str, *, at_seq: int | None = None) -> Entry:
        """Return one counter with its sources, now or as of a sequence.

        Raises CounterError 10037 if there is no such counter.
        """
        ...

    def get_many(self, *patterns: str, at_seq: int | None = None) -> AsyncIterator[Entry]:
        """Yield each counter that matches a pattern once, now or as of a sequence."""
        ...

    def history(self, subject: str, *, after_seq: int = 0) -> AsyncIterator[Entry]:
        """Yield the stored messages of one counter, oldest first."""
        ...

    async def recount(self, subject: str) -> Recount:
        """Add up the stored increments and check that each message follows from the one before."""
        ...

    async def reset(self, subject: str) -> int:
        """Publish minus the value, drop the earlier history, and return the value after that.

        The result is 0 if nothing was added meanwhile. Sources keep their position, so counts of a
        source are not added twice. Raises CounterError 10037 if there is no such counter.
        """
        ...

    async def delete(self, subject: str) -> int:
        """Remove the counter, or all counters that match a pattern.

        Returns how many messages were removed.
        """
        ...

    def watch(self, *patterns: str, after_seq: int | None = None) -> AsyncGenerator[Entry, None]:
        """Yield the current entry of each counter, then every change.

        With `after_seq`, yield every stored message after that sequence instead. This resumes a
        watch. Changes of one subject are in order. The watch ends when the caller stops it.
        """
        ...


class CounterStore(Protocol):
    """Holds streams of counters by name, and gives their messages as JetStream does.

    Cancelling a call is safe: the store has done all of the call or none. Each method raises
    NoStream if the stream does not exist. SqliteCounterStore and JetStreamCounterStore implement
    these methods.
    """

    async def counters(self, stream: str) -> Counters:
        """Return the counters of one stream.

        Raises NoStream, and CounterError if the stream has no counters.
        """
        ...

    async def create_stream(self, config: StreamConfig) -> StreamInfo:
        """Create a stream, and return its configuration and state.

        Raises CounterError with the server's code if the configuration is not allowed.
        """
        ...

    async def update_stream(self, config: StreamConfig) -> StreamInfo:
        """Replace the whole configuration of a stream. Raises CounterError as `create_stream`."""
        ...

    async def delete_stream(self, name: str) -> None:
        """Delete a stream and all its messages. Raises NoStream."""
        ...

    async def stream_info(self, name: str) -> StreamInfo:
        """Return the configuration and the state of one stream. Raises NoStream."""
        ...

    async def streams(self) -> list[StreamInfo]:
        """Return the configuration and the state of every stream, in the order of their names."""
        ...

    async def publish_message(self, message: Outgoing) -> Ack:
        """Publish a message to the stream that listens on its subject.

        Raises NoStream, and CounterError if the stream refuses the message.
        """
        ...

    async def publish_batch(self, messages: Sequence[Outgoing], batch_id: str) -> BatchAck:
        """Publish several messages to one stream in one step (ADR-50).

        The stream stores all messages or none. Raises CounterError if the stream refuses the batch.
        """
        ...

    async def last_message(self, stream: str, subject: str) -> Message:
        """Return the newest message of one subject.

        Raises CounterError 10037 if the subject has no message.
        """
        ...

    async def last_messages(
        self, stream: str, patterns: Sequence[str], *, up_to_seq: int | None = None
    ) -> list[Message]:
        """Return the newest message of each subject that matches a pattern.

        The messages are in the order of their sequences. With `up_to_seq`, the method ignores
        messages after this sequence.
        """
        ...

    async def message(self, stream: str, seq: int) -> Message:
        """Return the message with one sequence. Raises CounterError 10037 if there is none."""
        ...

    def messages(self, stream: str, *, after_seq: int = 0) -> AsyncIterator[Message]:
        """Yield the messages of a stream after a sequence, oldest first."""
        ...

    async def purge(self, stream: str, *, filter: str = "", seq: int = 0, keep: int = 0) -> int:
        """Remove messages of a stream, and return their number.

        - `filter`: a pattern of subjects. By default, the method removes messages of all subjects.
        - `seq`: remove only messages below this sequence. Not with `keep`.
        - `keep`: keep this number of the newest messages. Not with `seq`.
        """
        ...

    async def delete_message(self, stream: str, seq: int) -> None:
        """Remove one message. Raises CounterError if there is none, or if the stream forbids it."""
        ...

    async def subscribe(self, pattern: str) -> AsyncIterator[Message]:
        """Yield the messages that streams republish from now on.

        A stream republishes messages if its configuration has `republish`. A slow subscriber may
        lose messages.
        """
        ...

    async def settle(self) -> None:
        """Bring every stream up to date with its sources, as far as possible now."""
        ...

    async def close(self) -> None:
        """Close the store. Further calls are not allowed."""
        ...
