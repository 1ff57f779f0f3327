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
        """Bring the sources of every stream up to date, as far as possible now."""
        ...

    async def close(self) -> None:
        """Close the store. Further calls are not allowed."""
        ...
