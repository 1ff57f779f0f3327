"""Connect to a nats-server and call its JetStream API.

A call sends JSON, and returns JSON or raises an error.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from nats.errors import MaxPayloadError

from nostr_client.counters.base import Message, NoStream
from nostr_client.counters.jetstream.dial import COUNTED, DONE, api_error, dial, mapped
from nostr_client.errors import NetworkError, ProtocolError, Unsupported, clip, without_user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from nostr_client.counters.jetstream.dial import NatsOptions

T = TypeVar("T")

CRLF = "\r\n"
HEADER_FRAME = len(f"NATS/1.0{CRLF}{CRLF}")

_CHANGES: Final = frozenset(
    {"STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.PURGE", "STREAM.MSG.DELETE"}
)
"""Calls of the API whose result is unknown if their answer is lost."""

log = logging.getLogger(__name__)

CLOSE_S = 5.0
"""Seconds that closing may take. Messages that are not sent by then have an unknown result."""


class JetStreamConnection:
    """A nats-py client that raises the errors of this package. Create it with `connect`."""

    def __init__(self, client: Client, url: str, prefix: str, timeout: float) -> None:
        self.client = client
        self.url = url
        self.prefix = prefix
        self.timeout = timeout

    @classmethod
    async def connect(
        cls,
        url: str | Sequence[str],
        options: NatsOptions,
    ) -> Self:
        """Connect, and reconnect until closed.

        Raises:

        - NetworkError: no server could be reached.
        - Unsupported: the server is older than 2.12.
        - InvalidInput: no URL, no credentials in the file, or both a domain and a prefix.
        """
        urls, prefix = [url] if isinstance(url, str) else list(url), options.prefix
        client = await dial(urls, options)
        return await cls(client, without_user(urls[0]), prefix, options.timeout_s)._checked()

    async def _checked(self) -> Self:
        if not has_counters(self.version):
            await self.close()
            raise Unsupported("nats-server 2.12 is the first with counters", relay=self.url)
        text = caution(self.version)
        if text is not None:
            log.warning("%s: %s", self.url, text)
        return self

    @property
    def version(self) -> Version:
        """Version of the server that is connected now."""
        found = self.client.connected_server_version
        try:
            return (found.major, found.minor, found.patch)
        except ValueError:
            return (0, 0, 0)

    async def close(self) -> None:
        """Close the connection, also during a reconnect. Ignores errors.

        `close` of nats-py runs in its own task, because it cancels a future on which it waits. In
        the caller's task, this would look like a cancellation of the caller.
        """
        closing = asyncio.ensure_future(self.client.close())
        try:
            await asyncio.wait({closing}, timeout=CLOSE_S)
        finally:
            closing.cancel()
        if closing.done() and not closing.cancelled() and closing.exception() is not None:
            log.debug("%s: closing: %s", self.url, clip(str(closing.exception())))

    async def request(
        self,
        subject: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        doubt: str = "",
    ) -> Msg:
        """Send a request and wait for the answer.

        Raises NoStream (nobody listens), DeadlineExceeded and NetworkError. `doubt` describes what
        may have happened if the answer is lost. It is part of the text of the last two errors.
        """
        with mapped(self.url, subject, doubt):
            sent = dict(headers) if headers else None
            self._check_size(body, headers or {})
            return await self.client.request(subject, body, timeout=self.timeout, headers=sent)

    async def deliver(
        self,
        subject: str,
        body: bytes,
        headers: Mapping[str, str] | None,
        acknowledged: Callable[[object], T],
    ) -> T:
        """Send a message to be stored, and read its acknowledgement with `acknowledged`.

        Raises the errors of `request`, and CounterError if the server refuses. The message may be
        stored although the answer is lost or cannot be read (ProtocolError). Each such error says
        so.
        """
        answer = await self.request(subject, body, headers, doubt=COUNTED)
        try:
            return acknowledged(self.decode(answer.data, subject))
        except ProtocolError as error:
            raise ProtocolError(f"{error}; {COUNTED}") from error

    async def publish(
        self, subject: str, body: bytes, headers: Mapping[str, str], reply: str = ""
    ) -> None:
        with mapped(self.url, subject):
            self._check_size(body, headers)
            await self.client.publish(subject, body, reply=reply, headers=dict(headers))

    def _check_size(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Raise MaxPayloadError if body and headers are too large.

        nats-py checks only the body, and the server closes the connection after a larger message.
        """
        lines = sum(len(f"{name}: {value}".encode()) + len(CRLF) for name, value in headers.items())
        if len(body) + lines + HEADER_FRAME > self.client.max_payload:
            raise MaxPayloadError

    async def api(self, name: str, request: object = None) -> dict[str, Any]:
        """Call `$JS.API.<name>`.

        Raises CounterError with the server's code, and the errors of `request`. Raises NetworkError
        if nobody listens. The cause may be a server without JetStream, a wrong domain or prefix, or
        a disconnected leaf node.
        """
        body = b"" if request is None else json.dumps(request).encode()
        call, about = name.rsplit(".", 1)
        doubt = DONE if call in _CHANGES else ""
        try:
            answer = await self.request(f"{self.prefix}.{name}", body, doubt=doubt)
        except NoStream as error:
            text = f"no JetStream answers at {self.prefix}"
            raise NetworkError(text, relay=self.url) from error
        return self.decode(answer.data, about)

    def decode(self, data: bytes, about: str) -> dict[str, Any]:
        """Decode a JSON answer.

        Raises CounterError for an answer with an error, and ProtocolError for invalid JSON. `about`
        is the stream or subject of the request, for the error's text.
        """
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ProtocolError("the answer is not JSON", relay=self.url) from error
        if not isinstance(found, dict):
            raise ProtocolError("the answer is not an object", relay=self.url)
        if "error" in found:
            raise api_error(found["error"], self.url, about)
        return found

    @asynccontextmanager
    async def inbox(self) -> AsyncIterator[tuple[str, Subscription]]:
        """Create a new inbox subject and a subscription of its messages."""
        with mapped(self.url):
            subject = self.client.new_inbox()
            subscription = await self.client.subscribe(subject)
        try:
            yield subject, subscription
        finally:
            if not self.client.is_closed:
                with mapped(self.url):
                    await subscription.unsubscribe()

    @asynccontextmanager
    async def listening(self, wake: Callable[[Msg], Awaitable[None]]) -> AsyncIterator[str]:
        """Create a new inbox subject and call `wake` with each of its messages."""
        with mapped(self.url):
            subject = self.client.new_inbox()
            subscription = await self.client.subscribe(subject, cb=wake)
        try:
            yield subject
        finally:
            if not self.client.is_closed:
                with mapped(self.url):
                    await subscription.unsubscribe()

    async def subscribe(self, pattern: str) -> AsyncIterator[Message]:
        """Return the core messages of a pattern, from the return of this call on."""
        with mapped(self.url, pattern):
            subscription = await self.client.subscribe(pattern)
            await self.client.flush()
        return self._drain(subscription)

    async def _drain(self, subscription: Subscription) -> AsyncIterator[Message]:
        try:
            async for message in subscription.messages:
                headers = tuple((message.headers or {}).items())
                yield Message(0, message.subject, headers, message.data)
        finally:
            if not self.client.is_closed:
                with mapped(self.url):
                    await subscription.unsubscribe()

    async def next(self, subscription: Subscription) -> Msg:
        """Return the next message of a subscription. Raises DeadlineExceeded and NetworkError."""
        with mapped(self.url):
            return await subscription.next_msg(self.timeout)


Version = tuple[int, int, int]

FIRST: Version = (2, 12, 0)
"""The first version with counters (ADR-49)."""

SOUND: Version = (2, 14, 5)
"""The first version without bugs that break counters.

Without replication, atomic batches stored empty bodies before 2.14.3, and sources of such streams
stalled.
"""


def has_counters(version: Version) -> bool:
    return version >= FIRST


def batches_are_safe(version: Version) -> bool:
    return version >= SOUND


def caution(version: Version) -> str | None:
    """Return a warning for the owner of this server, or None."""
    if not has_counters(version) or batches_are_safe(version):
        return None
    shown = ".".join(map(str, version))
    return f"nats-server {shown} has bugs that break counters; use 2.14.5 or later"
