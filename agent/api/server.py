"""Serves the table of routes over HTTP; of the API only this module imports aiohttp.web.

async with serve(access, bind("127.0.0.1", 0)) as server:
    server.backend = backend
    print(server.url)
"""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from aiohttp import web

from agent.api.contract import AgentApi, find
from agent.api.document import document
from agent.api.guard import bearer_of, check
from agent.api.routes import JSON, TEXT
from agent.api.schema import ApiRefusal, Health, Permission, Problem, Ready, Scope
from agent.relay.bounded import BoundedServer, listen
from agent.specs import in_words
from nostr_client.errors import CounterError, InvalidInput, NostrTallyError, StoreError, clip
from nostr_client.network.pacing import TokenBucket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from socket import socket

    from agent.api.feed import ApiFeed, FeedStream
    from agent.api.guard import ApiAccess
    from agent.api.routes import Route
    from agent.api.schema import StateSnapshot

BODY_S: Final = 10.0
"""How long a client may take to send its body: it is small, and on this machine."""

REQUEST_S: Final = 130.0
"""How long an answer may take: a count may take its longest timeout."""

HEARTBEAT_S: Final = 15.0
"""A comment on a quiet stream, so that each side notices when the other has disconnected."""

STALL_S: Final = 20.0
"""How long a stream client may take nothing before it is cut."""

HANDSHAKE_S: Final = 10.0
"""How long a new socket may take to ask for something."""

CLOSE_S: Final = 1.0

BADGE_S: Final = 10.0
"""How long a badge is shown before it is made again."""

BADGE_AGE_S: Final = 300
"""How long browsers and proxies keep a badge."""

BADGES_PER_SECOND: Final = 50.0

_BADGES: Final = frozenset({"badge", "shield"})

_encode: Final = msgspec.json.Encoder().encode


class Bounds(NamedTuple):
    """Bytes of a body, and open connections."""

    body: int = 1024 * 1024
    connections: int = 128


DEFAULT_BOUNDS: Final = Bounds()


class Backend(AgentApi):
    """What answers for an agent: overrides the contract's methods that the server does not answer.

    Methods raise ApiRefusal, InvalidInput, StoreError, CounterError.
    """

    @property
    def feed(self) -> ApiFeed:
        """The event stream's deltas."""
        raise NotImplementedError

    def snapshot(self) -> StateSnapshot:
        """Where an event stream begins."""
        raise NotImplementedError


class ApiServer:
    """A running API; made by `serve`."""

    def __init__(self, access: ApiAccess, bounds: Bounds, began: float) -> None:
        self.backend: Backend | None = None
        """Answers requests; None while the agent starts: then only health is reported."""
        self._began = began
        self.access = access
        """May be replaced while it runs."""
        self._bounds = bounds
        self._badges: dict[tuple[str, str], tuple[float, object]] = {}
        """Open badges and when they were made: `api.badges` bounds them."""
        self._badge_rate = TokenBucket(BADGES_PER_SECOND, debt=1.0, now=began)
        self.port = 0
        self.url = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; what was refused says why, as `Problem`."""
        origin = request.headers.get("Origin")
        try:
            if request.method == "OPTIONS":
                return self._preflight(origin)
            response = await self._answer(request, origin)
        except ApiRefusal as refusal:
            response = _problem(refusal.status, refusal.code, str(refusal))
        except NostrTallyError as error:
            response = _problem(*_known(error))
        if not response.prepared and origin is not None and origin.lower() in self.access.origins:
            response.headers.update(_cors(origin))
        return response

    async def _answer(self, request: web.BaseRequest, origin: str | None) -> web.StreamResponse:
        route, params, allowed = find(request.method, request.rel_url.raw_path)
        scope = check(
            self.access,
            self._needs(route, params),
            request.headers.get("Host", ""),
            origin,
            bearer_of(request.headers.get("Authorization")),
        )
        if route is None:
            return _lost(allowed)
        given = await self._given(request, route, params)
        if scope is Scope.NONE and route.name in _BADGES:
            return await self._badge(route, given)
        if route.name == "events":
            return await self._events(request, given["last"])
        answer = self._own(route, scope)
        if answer is None:
            answer = await self._asked(route, given)
        is_unready = isinstance(answer, Ready) and not answer.ready
        return _answered(503 if is_unready else route.status, answer, route.media)

    def _needs(self, route: Route | None, params: Mapping[str, str]) -> Scope:
        """The scope that a request needs; what no route answers needs the one that reads."""
        if route is None:
            return Scope.READ
        is_open = route.name == "metrics" and self.access.open_metrics
        return Scope.NONE if is_open or self._is_open_badge(route, params) else route.scope

    def _is_open_badge(self, route: Route, params: Mapping[str, str]) -> bool:
        return route.name in _BADGES and params.get("name") in self.access.badges

    async def _given(
        self, request: web.BaseRequest, route: Route, params: dict[str, str]
    ) -> dict[str, Any]:
        """The arguments of a request. Raises ApiRefusal for what the contract does not allow."""
        # Without a token no client can hold a connection by a slow body.
        body = await _body(request, self._bounds.body) if route.scope else b""
        query = _query(request)
        if route.name == "events":  # browsers send the number that they saw last as a header
            query["last"] = query.get("last") or request.headers.get("Last-Event-ID") or ""
        try:
            return route.given(params, query, body)
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
            raise ApiRefusal(400, "invalid", clip(in_words(str(error)))) from error

    async def _badge(self, route: Route, given: dict[str, Any]) -> web.Response:
        """A badge for anybody: made once in BADGE_S, so that a crowd costs no more than one."""
        if self._badge_rate.take(time.monotonic()) > 0:
            raise ApiRefusal(429, "too_many", "too many badges are asked for: try again later")
        key = (route.name, given["name"])
        at, answer = self._badges.get(key, (-math.inf, None))
        if time.monotonic() - at >= BADGE_S:
            answer = await self._asked(route, given)
            self._badges[key] = time.monotonic(), answer
        response = _answered(route.status, answer, route.media)
        response.headers["Cache-Control"] = f"public, max-age={BADGE_AGE_S}"
        return response

    def _own(self, route: Route, scope: Scope) -> object:
        """The answer that needs no backend, None where one is needed."""
        if route.name == "health":
            return Health(alive=True, uptime=round(time.monotonic() - self._began, 3))
        if route.name == "ready" and self.backend is None:
            return Ready(ready=False, reasons=("starting",))
        if route.name == "access":
            return Permission(scope="manage" if scope >= Scope.MANAGE else "read")
        return document() if route.name == "document" else None

    async def _asked(self, route: Route, given: dict[str, Any]) -> object:
        """What the backend's method of the route's name answers."""
        answer = getattr(self._ready_backend(), route.name)
        try:
            async with asyncio.timeout(REQUEST_S):
                found: object = await answer(**given)
        except TimeoutError as error:
            raise ApiRefusal(503, "timeout", f"no answer within {REQUEST_S:g} s") from error
        return found

    def _ready_backend(self) -> Backend:
        if self.backend is None:
            raise ApiRefusal(503, "starting", "the agent is starting: ask again in a moment")
        return self.backend

    async def _events(self, request: web.BaseRequest, last: str) -> web.StreamResponse:
        """The event stream, until the client disconnects, is too slow, or the agent stops.

        `last` is the run and the number that the client saw last, `run:n`, or "".
        """
        backend = self._ready_backend()
        run, colon, number = last.partition(":")
        seen = (run, int(number)) if colon else None
        stream = backend.feed.open(seen, backend.snapshot)
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

    async def _pour(self, run: str, stream: FeedStream, response: web.StreamResponse) -> None:
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
            raise ApiRefusal(
                403, "foreign_origin", "pages of this web origin may not call the agent"
            )
        return web.Response(status=204, headers=_cors(origin))


def _frame(run: str, n: int, data: bytes) -> bytes:
    """One message as a server-sent event; a client resumes from its id."""
    head = f"id: {run}:{n}\n".encode() if n else b""
    return head + b"data: " + data + b"\n\n"


def _query(request: web.BaseRequest) -> dict[str, str]:
    """The query string; a key that occurs twice is refused."""
    found: dict[str, str] = {}
    for key, value in request.query.items():
        if key in found:
            raise ApiRefusal(400, "invalid", f"{clip(key, 64)} is given twice")
        found[key] = value
    return found


async def _body(request: web.BaseRequest, most: int) -> bytes:
    """The body, never more than `most` bytes of it in memory."""
    too_large = ApiRefusal(413, "too_large", f"the body is above {most} bytes")
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
        raise ApiRefusal(408, "slow", f"the body took more than {BODY_S:g} s") from error
    except web.RequestPayloadError as error:
        raise ApiRefusal(400, "invalid", "the body cannot be read") from error
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
    response = _answered(status, Problem(code=code, message=message))
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
"""What Prometheus calls its text format."""


def _answered(status: int, value: object, media: str = JSON) -> web.Response:
    """An answer: JSON, a picture, or the text of metrics."""
    is_json = media == JSON
    return web.Response(
        status=status,
        body=_encode(value) if is_json else str(value).encode(),
        headers={
            "Content-Type": _PROMETHEUS if media == TEXT else media,
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        },
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
    access: ApiAccess, listener: socket, *, bounds: Bounds = DEFAULT_BOUNDS
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
