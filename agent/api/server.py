"""The API's sockets: aiohttp under the table of routes, and nothing else of it.

async with serve(access, bind("127.0.0.1", 0)) as server:
    server.backend = backend
    print(server.url)
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from aiohttp import web

from agent.api.backend import Refusal
from agent.api.document import document
from agent.api.guard import bearer_of, check
from agent.api.params import EventsQuery
from agent.api.routes import Route, find, validated
from agent.api.schema import Health, Problem, Ready, Scope
from agent.relay.bounded import BoundedServer, listen
from agent.specs import in_words
from nostr_client.errors import CounterError, InvalidInput, NostrTallyError, StoreError, clip

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from socket import socket

    from agent.api.backend import Backend
    from agent.api.feed import Stream
    from agent.api.guard import Access

BODY_S: Final = 10.0
"""How long a client may take to send its body: it is small, and on this machine."""

REQUEST_S: Final = 130.0
"""How long an answer may take: a count may take its longest timeout."""

HEARTBEAT_S: Final = 15.0
"""A comment on a quiet stream, so that both sides notice when the other is gone."""

STALL_S: Final = 20.0
"""How long a stream client may take nothing before it is cut."""

HANDSHAKE_S: Final = 10.0
"""How long a new socket may take to ask for something."""

CLOSE_S: Final = 1.0

_encode: Final = msgspec.json.Encoder().encode


class Bounds(NamedTuple):
    """Bytes of a body, and open connections."""

    body: int = 1024 * 1024
    connections: int = 128


DEFAULT_BOUNDS: Final = Bounds()


class ApiServer:
    """A running API; made by `serve`."""

    def __init__(self, access: Access, bounds: Bounds, began: float) -> None:
        self.backend: Backend | None = None
        """What answers; None while the agent starts: then only health is told."""
        self._began = began
        self.access = access
        """May be replaced while it runs."""
        self._bounds = bounds
        self.port = 0
        self.url = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; what was refused says why, as `Problem`."""
        origin = request.headers.get("Origin")
        try:
            if request.method == "OPTIONS":
                return self._preflight(origin)
            response = await self._answer(request, origin)
        except Refusal as refusal:
            response = _problem(refusal.status, refusal.code, str(refusal))
        except NostrTallyError as error:
            response = _problem(*_known(error))
        if not response.prepared and origin is not None and origin.lower() in self.access.origins:
            response.headers.update(_cors(origin))
        return response

    async def _answer(self, request: web.BaseRequest, origin: str | None) -> web.StreamResponse:
        path = request.rel_url.raw_path
        found = find(request.method, path)
        scope = check(
            self.access,
            self._needs(path, found.route),
            request.headers.get("Host", ""),
            origin,
            bearer_of(request.headers.get("Authorization")),
        )
        if path in _PLAIN:
            return await self._plain(request, path)
        if found.route is None:
            return _lost(found.allowed)
        return await self._routed(request, found.route, dict(found.params), scope)

    def _needs(self, path: str, route: Route | None) -> Scope:
        """The scope that a request needs; what no route answers needs the one that reads."""
        if path in OPEN or (path == "/metrics" and self.access.open_metrics):
            return Scope.NONE
        return Scope.READ if route is None else route.needs

    async def _routed(
        self, request: web.BaseRequest, route: Route, params: dict[str, str], scope: Scope
    ) -> web.Response:
        body = await _body(request, self._bounds.body)
        try:
            call = validated(route, params, _query(request), body, scope)
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
            raise Refusal(400, "invalid", clip(in_words(str(error)))) from error
        backend = self._ready_backend()
        try:
            async with asyncio.timeout(REQUEST_S):
                answer = await route.run(backend, call)
        except TimeoutError as error:
            raise Refusal(503, "timeout", f"no answer within {REQUEST_S:g} s") from error
        return _json(route.status, answer)

    async def _plain(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            return _lost(("GET",))
        if path == "/healthz":
            return _json(200, Health(alive=True, uptime=round(time.monotonic() - self._began, 3)))
        if path == "/readyz":
            starting = Ready(ready=False, reasons=("starting",))
            ready = starting if self.backend is None else self.backend.ready()
            return _json(200 if ready.ready else 503, ready)
        if path == "/v1/openapi.json":
            return _json(200, document())
        backend = self._ready_backend()
        if path == "/metrics":
            kind = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
            return web.Response(body=backend.metrics(), headers=kind)
        return await self._events(request, backend)

    def _ready_backend(self) -> Backend:
        if self.backend is None:
            raise Refusal(503, "starting", "the agent is starting: ask again in a moment")
        return self.backend

    async def _events(self, request: web.BaseRequest, backend: Backend) -> web.StreamResponse:
        """The event stream, until the client goes, is too slow, or the agent stops."""
        stream = backend.feed.open(_last_seen(request), backend.snapshot)
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        origin = request.headers.get("Origin")
        if origin is not None:
            response.headers.update(_cors(origin))
        try:
            await response.prepare(request)
            await self._pour(backend.feed.run, stream, response)
        except (ConnectionError, TimeoutError):
            _abort(request)
        finally:
            stream.close()
        return response

    async def _pour(self, run: str, stream: Stream, response: web.StreamResponse) -> None:
        while True:
            try:
                found = await stream.next(HEARTBEAT_S)
            except EOFError:
                return
            text = b": quiet\n\n" if found is None else _frame(run, *found)
            async with asyncio.timeout(STALL_S):
                await response.write(text)

    def _preflight(self, origin: str | None) -> web.Response:
        if origin is None or origin.lower() not in self.access.origins:
            raise Refusal(403, "foreign_origin", "pages of this web origin may not call the agent")
        return web.Response(status=204, headers=_cors(origin))


OPEN: Final = frozenset({"/healthz", "/readyz"})
"""What a supervisor asks without a token: whether the agent works, and nothing else."""

_PLAIN: Final = OPEN | {"/metrics", "/v1/openapi.json", "/v1/events"}


def _frame(run: str, n: int, data: bytes) -> bytes:
    """One message as a server-sent event; its id is what a client comes back with."""
    head = f"id: {run}:{n}\n".encode() if n else b""
    return head + b"data: " + data + b"\n\n"


def _last_seen(request: web.BaseRequest) -> tuple[str, int] | None:
    """Run and number seen last: from the query, else from what browsers send by themselves."""
    try:
        asked = msgspec.convert(_query(request), EventsQuery)
        header = request.headers.get("Last-Event-ID", "")
        last = asked.last or msgspec.convert({"last": header}, EventsQuery).last
    except msgspec.ValidationError as error:
        raise Refusal(400, "invalid", clip(str(error))) from error
    run, colon, number = last.partition(":")
    return (run, int(number)) if colon else None


def _query(request: web.BaseRequest) -> dict[str, str]:
    """The query string; a key that stands there twice is refused."""
    found: dict[str, str] = {}
    for key, value in request.query.items():
        if key in found:
            raise Refusal(400, "invalid", f"{clip(key, 64)} is given twice")
        found[key] = value
    return found


async def _body(request: web.BaseRequest, most: int) -> bytes:
    """The body, never more than `most` bytes of it in memory."""
    too_large = Refusal(413, "too_large", f"the body is above {most} bytes")
    if (request.content_length or 0) > most:
        raise too_large
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.content.iter_any():
                size += len(part)
                if size > most:
                    raise too_large
                parts.append(part)
    except TimeoutError as error:
        raise Refusal(408, "slow", f"the body took more than {BODY_S:g} s") from error
    except web.RequestPayloadError as error:
        raise Refusal(400, "invalid", "the body cannot be read") from error
    return b"".join(parts)


def _known(error: NostrTallyError) -> tuple[int, str, str]:
    """Status, word and text of an error of ours."""
    if isinstance(error, CounterError):
        return (404 if error.status == 404 else 409), "counter", clip(str(error))
    if isinstance(error, InvalidInput):
        return 400, "invalid", clip(str(error))
    if isinstance(error, StoreError):
        return 503, "store", clip(str(error))
    return 503, "failed", clip(str(error))


def _lost(allowed: tuple[str, ...]) -> web.Response:
    if not allowed:
        return _problem(404, "not_found", "there is no such path")
    response = _problem(405, "method", f"use {' or '.join(allowed)}")
    response.headers["Allow"] = ", ".join(allowed)
    return response


def _problem(status: int, code: str, message: str) -> web.Response:
    response = _json(status, Problem(code=code, message=message))
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _json(status: int, value: object) -> web.Response:
    return web.Response(
        status=status,
        body=_encode(value),
        content_type="application/json",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )


def _cors(origin: str) -> dict[str, str]:
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
        "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE",
        "Vary": "Origin",
    }


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


@asynccontextmanager
async def serve(
    access: Access, listener: socket, *, bounds: Bounds = DEFAULT_BOUNDS
) -> AsyncIterator[ApiServer]:
    """Serve the API while the block runs, on a socket that listens; it is closed in the end.

    Set `backend` as soon as there is one.
    """
    host = listener.getsockname()[0]
    api = ApiServer(access, bounds, time.monotonic())
    api.port = listener.getsockname()[1]
    api.url = f"http://{f'[{host}]' if ':' in host else host}:{api.port}"
    http = BoundedServer(api.handle, most=bounds.connections, silent_s=HANDSHAKE_S)
    runner = web.ServerRunner(http, shutdown_timeout=CLOSE_S, handle_signals=False)
    await runner.setup()
    try:
        await listen(runner, listener)
        yield api
    finally:
        if api.backend is not None:
            api.backend.feed.close()
        await runner.cleanup()
