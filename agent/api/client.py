"""The typed client of the agent's API, for the command line and the terminal application."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from agent.api import about, holdings, rebuilds, schema
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
from nostr_client.options import ConnectionOptions
from nostr_client.sessions import Sessions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    from agent.specs import SyncSpec, WatchSpec

A = TypeVar("A", bound=schema.Answer)

TIMEOUT_S: Final = 30.0
QUIET_S: Final = 45.0
"""A stream without a word for so long is dead: the agent sends one every 15."""

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


class AgentClient:
    """Talks to the agent at `url` with its token; use it as an async context manager.

    `connection` says by which proxy; by default one of the environment, which is not for this
    machine's own addresses. Making one raises InvalidInput for what is no URL of an API. Every
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

    async def access(self) -> schema.Permission:
        """What the token of this client may do.

        An agent of an earlier version has one token, which may do everything.
        """
        try:
            return await self._get("/v1/access", schema.Permission)
        except ApiError as error:
            if error.status != 404:
                raise
            return schema.Permission(scope="manage")

    async def status(self) -> schema.Status:
        return await self._get("/v1/status", schema.Status)

    async def reload(self) -> schema.Reloaded:
        """Have the agent read its configuration again."""
        return await self._send("POST", "/v1/reload", schema.Reloaded)

    async def ready(self) -> schema.Ready:
        return await self._get("/readyz", schema.Ready)

    # Watches.

    async def watches(self) -> schema.Watches:
        return await self._get("/v1/watches", schema.Watches)

    async def watch(self, name: str) -> schema.Watch:
        return await self._get(f"/v1/watches/{_part(name)}", schema.Watch)

    async def add_watch(self, spec: WatchSpec) -> schema.Watch:
        return await self._send("POST", "/v1/watches", schema.Watch, spec)

    async def change_watch(self, spec: WatchSpec) -> schema.Watch:
        return await self._send("PUT", f"/v1/watches/{_part(spec.name)}", schema.Watch, spec)

    async def remove_watch(self, name: str) -> schema.Done:
        return await self._send("DELETE", f"/v1/watches/{_part(name)}", schema.Done)

    async def recount(self, name: str) -> schema.Done:
        """Ask every relay of a watch again; the numbers come over the stream."""
        return await self._send("POST", f"/v1/watches/{_part(name)}/count", schema.Done)

    async def explain(self, name: str) -> schema.Counted:
        return await self._get(f"/v1/watches/{_part(name)}/explain", schema.Counted)

    async def history(self, name: str, *, since: float = 0.0, limit: int = 2000) -> schema.History:
        path = f"/v1/watches/{_part(name)}/history"
        return await self._get(path, schema.History, since=since, limit=limit)

    async def count(self, body: schema.CountBody) -> schema.Counted:
        timeout = body.timeout + TIMEOUT_S
        return await self._send("POST", "/v1/counts", schema.Counted, body, timeout=timeout)

    # Syncs.

    async def syncs(self) -> schema.Syncs:
        return await self._get("/v1/syncs", schema.Syncs)

    async def sync(self, name: str) -> schema.Sync:
        return await self._get(f"/v1/syncs/{_part(name)}", schema.Sync)

    async def add_sync(self, spec: SyncSpec) -> schema.Sync:
        return await self._send("POST", "/v1/syncs", schema.Sync, spec)

    async def remove_sync(self, name: str) -> schema.Done:
        return await self._send("DELETE", f"/v1/syncs/{_part(name)}", schema.Done)

    async def run_sync(self, name: str) -> schema.Done:
        return await self._send("POST", f"/v1/syncs/{_part(name)}/run", schema.Done)

    async def cancel_sync(self, name: str) -> schema.Done:
        return await self._send("POST", f"/v1/syncs/{_part(name)}/cancel", schema.Done)

    # Relays, counters, store, log.

    async def relays(self) -> schema.Relays:
        return await self._get("/v1/relays", schema.Relays)

    async def relay_info(self, url: str) -> about.RelayInfo:
        """What a relay says of itself (NIP-11)."""
        return await self._get("/v1/relays/info", about.RelayInfo, url=url)

    async def streams(self) -> schema.Streams:
        return await self._get("/v1/streams", schema.Streams)

    async def counters(
        self, stream: str, pattern: str = ">", *, limit: int = 1000
    ) -> schema.Counters:
        path = f"/v1/streams/{_part(stream)}/counters"
        return await self._get(path, schema.Counters, pattern=pattern, limit=limit)

    async def counter_history(
        self, stream: str, subject: str, *, after: int = 0, limit: int = 1000
    ) -> schema.Counters:
        path = f"/v1/streams/{_part(stream)}/history"
        return await self._get(path, schema.Counters, subject=subject, after=after, limit=limit)

    async def messages(
        self, stream: str, *, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> schema.Messages:
        """What others that source this stream read of it."""
        path = f"/v1/streams/{_part(stream)}/messages"
        word = "true" if newest else "false"
        return await self._get(path, schema.Messages, after=after, limit=limit, newest=word)

    async def add(self, stream: str, subject: str, n: int, id: str = "") -> schema.Added:
        body = schema.AddBody(subject=subject, add=str(n), id=id)
        return await self._send("POST", f"/v1/streams/{_part(stream)}/counters", schema.Added, body)

    async def audit(self, stream: str, subject: str) -> schema.Audit:
        body = schema.SubjectBody(subject=subject)
        return await self._send("POST", f"/v1/streams/{_part(stream)}/recount", schema.Audit, body)

    async def reset(self, stream: str, subject: str) -> schema.Added:
        body = schema.SubjectBody(subject=subject)
        return await self._send("POST", f"/v1/streams/{_part(stream)}/reset", schema.Added, body)

    async def links(self) -> schema.CounterLinks:
        return await self._get("/v1/links", schema.CounterLinks)

    async def run_link(self, name: str) -> schema.Done:
        return await self._send("POST", f"/v1/links/{_part(name)}/run", schema.Done)

    async def confirm_link(self, name: str) -> schema.Done:
        """Let a link go on whose other side went backwards: the lower values are right."""
        return await self._send("POST", f"/v1/links/{_part(name)}/confirm", schema.Done)

    async def store(self) -> schema.Store:
        return await self._get("/v1/store", schema.Store)

    async def hot(
        self, *, name: str | None = None, kind: int | None = None, limit: int = 50
    ) -> holdings.HotTargets:
        given = {"name": name, "kind": kind}
        query = {key: value for key, value in given.items() if value is not None}
        return await self._get("/v1/store/hot", holdings.HotTargets, limit=limit, **query)

    async def index_snapshot(self) -> holdings.IndexMark:
        """Where a bulk rebuild of the derived tables begins."""
        return await self._send("POST", "/v1/store/index/snapshot", holdings.IndexMark)

    async def adopt_index(self, path: str, *, timeout: float = 120.0) -> holdings.Index:
        """Have the agent take a file of derived tables, which is copied."""
        body = holdings.AdoptBody(path=path)
        url = "/v1/store/index/adopt"
        return await self._send("POST", url, holdings.Index, body, timeout=timeout)

    async def rebuild(self) -> rebuilds.Rebuild:
        """The newest bulk rebuild."""
        return await self._get("/v1/store/rebuild", rebuilds.Rebuild)

    async def start_rebuild(self, body: rebuilds.RebuildBody) -> rebuilds.Rebuild:
        """Have the agent rebuild its derived tables; `rebuild` tells how it goes."""
        return await self._send("POST", "/v1/store/rebuild", rebuilds.Rebuild, body)

    async def cancel_rebuild(self) -> schema.Done:
        """End the bulk rebuild that runs."""
        return await self._send("DELETE", "/v1/store/rebuild", schema.Done)

    async def retention(self) -> schema.Retention:
        return await self._get("/v1/retention", schema.Retention)

    async def run_retention(self) -> schema.Done:
        """Remove what is old now; `retention` tells when that was done."""
        return await self._send("POST", "/v1/retention/run", schema.Done)

    async def log(self, *, after: int = 0, limit: int = 200) -> schema.Log:
        return await self._get("/v1/log", schema.Log, after=after, limit=limit)

    async def events(self, last: str = "") -> AsyncIterator[tuple[str, Message]]:
        """The stream: pairs of an id to come back with, and a message; ends after a `Cut`.

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

    async def _get(self, path: str, answer: type[A], **query: object) -> A:
        text = {key: str(value) for key, value in query.items()}
        return await self._send("GET", path, answer, query=text)

    async def _send(
        self,
        method: str,
        path: str,
        answer: type[A],
        body: msgspec.Struct | None = None,
        *,
        query: dict[str, str] | None = None,
        timeout: float | None = None,
    ) -> A:
        seconds = timeout or self._timeout
        data = None if body is None else _encode(body)
        try:
            async with (
                asyncio.timeout(seconds),
                self._open().request(
                    method, self.url + path, data=data, params=query, allow_redirects=False
                ) as response,
            ):
                raw = await _checked(response, self._most_bytes, ready=path == "/readyz")
        except TimeoutError as error:
            doubt = "" if method == "GET" else "; it may have done what was asked"
            raise DeadlineExceeded(
                f"the agent gave no answer within {seconds:g} s{doubt}"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise NetworkError(f"no agent at {self._host}: {without_tls(error)}") from error
        decoded: A = _decoded(raw, msgspec.json.Decoder(answer))
        return decoded

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise NetworkError(f"the client of {self._host} was closed")
        return self._sessions.session_for(self.url)


_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10.0)


async def _checked(response: aiohttp.ClientResponse, most: int, *, ready: bool = False) -> bytes:
    """The body of a good answer ("" of a stream); raises ApiError for another."""
    if response.content_type == "text/event-stream" and response.status == 200:
        return b""
    raw = b""
    while chunk := await response.content.read(most + 1 - len(raw)):
        raw += chunk
    if len(raw) > most:
        raise InvalidInput(f"the agent's answer has more than {most} bytes")
    if response.status < 300 or (ready and response.status == 503):
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


def _part(text: str) -> str:
    return quote(text, safe="")
