"""Calls the agent's API with types, for the command line and the terminal application."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Self

import aiohttp
import msgspec

from agent.api import schema
from agent.api.contract import AgentApi
from agent.api.routes import JSON
from agent.api.schema import Message
from agent.specs import check_agent_url
from nostr_client.errors import (
    DeadlineExceeded,
    InvalidInput,
    NetworkError,
    NostrTallyError,
    clip,
    host_alone,
    without_tls,
)
from nostr_client.network.access.sessions import Sessions
from nostr_client.options import ConnectionOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    from agent.api.routes import ApiRequest, Route

TIMEOUT_S: Final = 30.0
QUIET_S: Final = 45.0
"""Seconds without a message after which a stream is dead: the agent sends one every 15."""

_WRONG_NAMES: Final = ((404, "not_found"), (409, "duplicate"))

MOST_BYTES: Final = 64 * 1024 * 1024

_encode: Final = msgspec.json.Encoder().encode
_message: Final = msgspec.json.Decoder(Message)


class ApiError(NostrTallyError):
    """The agent refused; `status` is HTTP's, `code` the agent's word."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class InvalidRequest(ApiError, InvalidInput):
    """The agent says that what it was given cannot be used: 400, or a name unknown to it, or taken.

    A counter that is not there is a plain ApiError, as for a counter server.
    """


class UnreadableAnswer(InvalidInput):
    """What answers is no agent, or one whose words this version does not know."""

    code: Final = "unreadable"


class AgentClient(AgentApi):
    """Talks to the agent at `url` with its token; use it as an async context manager.

    Its methods are those of the contract.

    `connection` says by which proxy; by default one of the environment, which is not for this
    machine's own addresses. Making one raises InvalidInput for a bad URL. Every
    method may raise ApiError (refused), NetworkError (no agent there), DeadlineExceeded,
    UnreadableAnswer.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = TIMEOUT_S,
        most_bytes: int = MOST_BYTES,
        connection: ConnectionOptions | None = None,
    ) -> None:
        try:
            check_agent_url(url)
        except InvalidInput as error:
            raise InvalidInput(f"the URL of the agent's API {error}") from error
        self.url = url.rstrip("/")
        self._host = host_alone(url)
        self._timeout = timeout
        self._most_bytes = most_bytes
        self._sessions = Sessions(
            connection or ConnectionOptions(),
            headers={
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/json",
                "Accept-Encoding": "identity",
            },
            auto_decompress=False,  # what is limited is what comes, not what it unpacks to
            timeout=_NO_TIMEOUT,
        )
        self._closed = False

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
        """Close the connections, for good; safe twice."""
        self._closed = True
        await self._sessions.close()

    async def events(self, last: str = "") -> AsyncIterator[tuple[str, Message]]:
        """The stream: pairs of an id to resume from, and a message; ends after a `StreamEnd`.

        `last`: the id seen last, to go on from there. Raises NetworkError when it breaks off.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=QUIET_S)
        url = f"{self.url}/v1/events"
        try:
            async with self._open().get(url, params={"last": last}, timeout=timeout) as response:
                await _checked(response, self._most_bytes)
                id, seen = last, b""
                async for line in _lines(response.content):
                    if line.startswith(b"id: "):
                        id = line[4:].decode()
                    elif line.startswith(b"data: "):
                        seen = line[6:]
                    elif not line and seen:
                        yield id, _decoded(seen, _message)
                        seen = b""
        except TimeoutError as error:
            raise NetworkError(f"the agent at {self._host} has gone quiet") from error
        except (aiohttp.ClientError, OSError) as error:
            raise NetworkError(f"the stream broke off: {without_tls(error)}") from error

    async def send(self, route: Route, request: ApiRequest) -> Any:
        """Send a request of the contract and return its answer."""
        seconds = self._timeout + route.takes
        data = None if request.body is None else _encode(request.body)
        url = self.url + request.path
        try:
            async with (
                asyncio.timeout(seconds),
                self._open().request(
                    route.method, url, data=data, params=request.query, allow_redirects=False
                ) as response,
            ):
                raw = await _checked(response, self._most_bytes, route.also)
        except TimeoutError as error:
            doubt = "" if route.method == "GET" else "; it may have done what was asked"
            raise DeadlineExceeded(
                f"the agent gave no answer within {seconds:g} s{doubt}"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise NetworkError(f"no agent at {self._host}: {without_tls(error)}") from error
        return _decoded(raw, route.decoder) if route.media == JSON else raw.decode()

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise NetworkError(f"the client of {self._host} was closed")
        return self._sessions.session_for(self.url)


_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10.0)


async def _checked(
    response: aiohttp.ClientResponse, most: int, also: tuple[int, ...] = ()
) -> bytes:
    """The body of a good answer ("" of a stream); raises ApiError for another.

    `also` are further statuses of good answers.
    """
    if response.content_type == "text/event-stream" and response.status == 200:
        return b""
    raw = b""
    while chunk := await response.content.read(most + 1 - len(raw)):
        raw += chunk
    if len(raw) > most:
        raise InvalidInput(f"the agent's answer has more than {most} bytes")
    if response.status < 300 or response.status in also:
        return raw
    try:
        problem = msgspec.json.decode(raw, type=schema.Problem)
    except msgspec.MsgspecError:
        text = clip(raw.decode("utf-8", "replace"))
        problem = schema.Problem(code="http", message=f"HTTP {response.status}: {text}")
    given = response.status == 400 or (response.status, problem.code) in _WRONG_NAMES
    refusal = InvalidRequest if given else ApiError
    raise refusal(response.status, problem.code, problem.message)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length: a snapshot of 2,000 watches is some megabytes."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


def _decoded(raw: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        return decoder.decode(raw)
    except msgspec.MsgspecError as error:
        raise UnreadableAnswer(
            f"the agent's answer cannot be read; is it of another version? {error}"
        ) from error
