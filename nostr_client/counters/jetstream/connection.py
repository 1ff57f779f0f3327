"""One connection to a nats-server, and the JetStream API over it: JSON in, JSON or an error out."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import nats
import nats.errors

from nostr_client.counters.base import Message, NoStream
from nostr_client.counters.jetstream.version import (
    Version,
    caution,
    has_counters,
)
from nostr_client.errors import (
    CounterError,
    DeadlineExceeded,
    InvalidInput,
    NetworkError,
    ProtocolError,
    Unsupported,
    clip,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence

    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

log = logging.getLogger(__name__)

TIMEOUT_S = 5.0
"""How long one request may take: a server answers in milliseconds, a leader election in seconds."""

CONNECT_S = 5
"""How long one server may take to answer before the next is tried."""

_OFTEN = -1  # nats-py: reconnect for as long as the client is open


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsOptions:
    """How to reach JetStream on a nats-server."""

    domain: str | None = None
    """A JetStream domain, e.g. of a leaf node."""

    api_prefix: str | None = None
    """What stands in for `$JS.API`: an import of another account's. Excludes a domain."""

    credentials: str | None = None
    """The path of a .creds file."""

    tls: ssl.SSLContext | None = None
    token: str | None = None

    timeout_s: float = TIMEOUT_S

    @property
    def prefix(self) -> str:
        """Where the API answers; raises InvalidInput for a domain beside a prefix."""
        if self.domain and self.api_prefix:
            raise InvalidInput("give a JetStream domain or an API prefix, not both")
        if self.domain:
            return f"$JS.{self.domain}.API"
        return (self.api_prefix or "$JS.API").rstrip(".")


class Connection:
    """A nats-py client with the errors of this package; make it by `connect`."""

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
        """Connect, and go on reconnecting until closed.

        Raises NetworkError, Unsupported (a server before 2.12), InvalidInput (both a domain and
        a prefix).
        """
        servers = [url] if isinstance(url, str) else list(url)
        try:
            async with asyncio.timeout(CONNECT_S * len(servers)):
                client = await _connect(servers, options)
        except TimeoutError as error:
            raise NetworkError("no nats-server could be reached", relay=servers[0]) from error
        return await cls(client, servers[0], options.prefix, options.timeout_s)._checked()

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
        """Of the server that is connected now."""
        found = self.client.connected_server_version
        try:
            return (found.major, found.minor, found.patch)
        except ValueError:
            return (0, 0, 0)

    async def close(self) -> None:
        with _errors(self.url):
            await self.client.close()

    async def request(
        self, subject: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Msg:
        """Ask and wait; raises NoStream (nobody listens), DeadlineExceeded, NetworkError.

        After DeadlineExceeded what was asked may have happened: repeat it with a message id.
        """
        with _errors(self.url, subject):
            sent = dict(headers) if headers else None
            return await self.client.request(subject, body, timeout=self.timeout, headers=sent)

    async def publish(
        self, subject: str, body: bytes, headers: Mapping[str, str], reply: str = ""
    ) -> None:
        with _errors(self.url, subject):
            await self.client.publish(subject, body, reply=reply, headers=dict(headers))

    async def api(self, name: str, request: object = None) -> dict[str, Any]:
        """Call `$JS.API.<name>`; raises CounterError with the server's code, and as `request`."""
        body = b"" if request is None else json.dumps(request).encode()
        answer = await self.request(f"{self.prefix}.{name}", body)
        return self.decode(answer.data)

    def decode(self, data: bytes) -> dict[str, Any]:
        """A JSON answer; raises CounterError for one that holds an error, ProtocolError."""
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ProtocolError("the answer is not JSON", relay=self.url) from error
        if not isinstance(found, dict):
            raise ProtocolError("the answer is not an object", relay=self.url)
        if "error" in found:
            raise _api_error(found["error"], self.url)
        return found

    @asynccontextmanager
    async def inbox(self) -> AsyncIterator[tuple[str, Subscription]]:
        """A subject of our own, and what arrives there."""
        with _errors(self.url):
            subject = self.client.new_inbox()
            subscription = await self.client.subscribe(subject)
        try:
            yield subject, subscription
        finally:
            if not self.client.is_closed:
                with _errors(self.url):
                    await subscription.unsubscribe()

    @asynccontextmanager
    async def listening(self, wake: Callable[[Msg], Awaitable[None]]) -> AsyncIterator[str]:
        """A subject of our own; `wake` is called with what arrives there."""
        with _errors(self.url):
            subject = self.client.new_inbox()
            subscription = await self.client.subscribe(subject, cb=wake)
        try:
            yield subject
        finally:
            if not self.client.is_closed:
                with _errors(self.url):
                    await subscription.unsubscribe()

    async def subscribe(self, pattern: str) -> AsyncIterator[Message]:
        """Core messages of a pattern, from the moment that this returns."""
        with _errors(self.url, pattern):
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
                with _errors(self.url):
                    await subscription.unsubscribe()

    async def next(self, subscription: Subscription) -> Msg:
        """The next message of a subscription; raises DeadlineExceeded, NetworkError."""
        with _errors(self.url):
            return await subscription.next_msg(self.timeout)


async def _connect(servers: list[str], options: NatsOptions) -> Client:
    """nats-py tries for ever, also the first time: the caller has the deadline."""
    with _errors(servers[0]):
        return await nats.connect(
            servers,
            error_cb=_log_error,
            connect_timeout=CONNECT_S,
            max_reconnect_attempts=_OFTEN,
            allow_reconnect=True,
            user_credentials=options.credentials,
            tls=options.tls,
            token=options.token,
        )


def _api_error(error: object, url: str) -> CounterError:
    if not isinstance(error, dict):
        raise ProtocolError("an error without a code", relay=url)
    code, status = error.get("err_code", 0), error.get("code", 0)
    description = error.get("description", "")
    if not isinstance(code, int) or not isinstance(status, int):
        raise ProtocolError("an error without a code", relay=url)
    if code == 10059:
        return NoStream("that name on the server")
    return CounterError(clip(str(description)), code=code, status=status)


@contextmanager
def _errors(url: str, subject: str = "") -> Iterator[None]:
    """Turn nats-py's errors into this package's."""
    try:
        yield
    except nats.errors.NoRespondersError as error:
        raise NoStream(subject) from error
    except nats.errors.TimeoutError as error:
        raise DeadlineExceeded("no answer from nats-server in time", relay=url) from error
    except (nats.errors.BadSubjectError, nats.errors.BadHeaderError) as error:
        raise InvalidInput(f"cannot be sent: {error}") from error
    except nats.errors.MaxPayloadError as error:
        raise CounterError("message size exceeds maximum allowed", code=10054) from error
    except (nats.errors.Error, OSError) as error:
        raise NetworkError(clip(str(error) or type(error).__name__), relay=url) from error


async def _log_error(error: Exception) -> None:
    log.debug("nats: %s", clip(str(error) or type(error).__name__))
