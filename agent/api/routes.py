"""Every route of the API in one table: it routes, it validates, and the document is made of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from agent.api import about, schema
from agent.api.schema import Body
from agent.specs import Name, SyncSpec, Url, WatchSpec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from agent.api.backend import Backend

Limit = Annotated[int, Meta(ge=1, le=10_000)]
StreamName = Annotated[str, Meta(min_length=1, max_length=255)]


class Nothing(Body, frozen=True):
    """No parameters."""


class Named(Body, frozen=True):
    """A watch or a sync in the path."""

    name: Name


class InStream(Body, frozen=True):
    """A stream of counters in the path."""

    stream: StreamName


class HistoryQuery(Body, frozen=True):
    """From when, and how many at most: the newest ones."""

    since: Annotated[float, Meta(ge=0, le=1e12)] = 0.0
    limit: Limit = 2000


class CountersQuery(Body, frozen=True):
    """Which counters: a subject, where `*` stands for one token and a last `>` for the rest."""

    pattern: Annotated[str, Meta(min_length=1, max_length=256)] = ">"
    limit: Limit = 1000


class CounterHistoryQuery(Body, frozen=True):
    """One counter's messages after a sequence."""

    subject: schema.Subject
    after: Annotated[int, Meta(ge=0, le=2**53)] = 0
    limit: Limit = 1000


class RelayQuery(Body, frozen=True):
    """Which relay, as /v1/relays names it."""

    url: Url


class OfLink(Body, frozen=True):
    """A link of counters in the path."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]


class LogQuery(Body, frozen=True):
    """The lines after a number, and how many at most: the newest ones."""

    after: Annotated[int, Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class EventsQuery(Body, frozen=True):
    """The run and number that were seen last, `run:n`, to go on from there."""

    last: Annotated[
        str, Meta(max_length=64, pattern=r"^([A-Za-z0-9]{1,40}:[0-9]{1,15})?(?!\n)$")
    ] = ""


class Call(NamedTuple):
    """A validated request: what stood in the path, the query string and the body."""

    path: Any
    query: Any
    body: Any


class Route(NamedTuple):
    """One thing that can be asked; `run` answers with a value of `answer`."""

    method: str
    path: str
    summary: str
    answer: Any
    run: Callable[[Backend, Call], Awaitable[object]]
    params: type[Body] = Nothing
    query: type[Body] = Nothing
    body: Any = None
    status: int = 200


R = Route
ROUTES: tuple[Route, ...] = (
    R("GET", "/v1/watches", "All watches.", schema.Watches, lambda b, c: b.watches()),
    R(
        "POST",
        "/v1/watches",
        "Add a watch.",
        schema.Watch,
        lambda b, c: b.add_watch(c.body),
        body=WatchSpec,
        status=201,
    ),
    R(
        "GET",
        "/v1/watches/{name}",
        "One watch.",
        schema.Watch,
        lambda b, c: b.watch(c.path.name),
        Named,
    ),
    R(
        "PUT",
        "/v1/watches/{name}",
        "Change a watch; its name stays.",
        schema.Watch,
        lambda b, c: b.change_watch(c.path.name, c.body),
        Named,
        body=WatchSpec,
    ),
    R(
        "DELETE",
        "/v1/watches/{name}",
        "Remove a watch.",
        schema.Done,
        lambda b, c: b.remove_watch(c.path.name),
        Named,
    ),
    R(
        "POST",
        "/v1/watches/{name}/count",
        "Ask every relay of a watch again, now.",
        schema.Done,
        lambda b, c: b.recount(c.path.name),
        Named,
        status=202,
    ),
    R(
        "GET",
        "/v1/watches/{name}/explain",
        "What the number of a watch is made of.",
        schema.Counted,
        lambda b, c: b.explain(c.path.name),
        Named,
    ),
    R(
        "GET",
        "/v1/watches/{name}/history",
        "The numbers of a watch.",
        schema.History,
        lambda b, c: b.history(c.path.name, c.query.since, c.query.limit),
        Named,
        HistoryQuery,
    ),
    R(
        "POST",
        "/v1/counts",
        "Count once, now.",
        schema.Counted,
        lambda b, c: b.count(c.body),
        body=schema.CountBody,
    ),
    R("GET", "/v1/syncs", "All syncs.", schema.Syncs, lambda b, c: b.syncs()),
    R(
        "POST",
        "/v1/syncs",
        "Add a sync.",
        schema.Sync,
        lambda b, c: b.add_sync(c.body),
        body=SyncSpec,
        status=201,
    ),
    R(
        "GET",
        "/v1/syncs/{name}",
        "One sync and its progress.",
        schema.Sync,
        lambda b, c: b.sync(c.path.name),
        Named,
    ),
    R(
        "DELETE",
        "/v1/syncs/{name}",
        "Remove a sync.",
        schema.Done,
        lambda b, c: b.remove_sync(c.path.name),
        Named,
    ),
    R(
        "POST",
        "/v1/syncs/{name}/run",
        "Run a sync now.",
        schema.Done,
        lambda b, c: b.run_sync(c.path.name),
        Named,
        status=202,
    ),
    R(
        "POST",
        "/v1/syncs/{name}/cancel",
        "Stop a sync that runs; what was stored stays.",
        schema.Done,
        lambda b, c: b.cancel_sync(c.path.name),
        Named,
    ),
    R("GET", "/v1/relays", "All relays.", schema.Relays, lambda b, c: b.relays()),
    R(
        "GET",
        "/v1/relays/info",
        "What a relay says of itself (NIP-11), asked for once.",
        about.RelayInfo,
        lambda b, c: b.relay_info(c.query.url),
        query=RelayQuery,
    ),
    R("GET", "/v1/streams", "All streams of counters.", schema.Streams, lambda b, c: b.streams()),
    R(
        "GET",
        "/v1/streams/{stream}/counters",
        "Counters by pattern.",
        schema.Counters,
        lambda b, c: b.counters(c.path.stream, c.query.pattern, c.query.limit),
        InStream,
        CountersQuery,
    ),
    R(
        "POST",
        "/v1/streams/{stream}/counters",
        "Add to a counter.",
        schema.Added,
        lambda b, c: b.add(c.path.stream, c.body),
        InStream,
        body=schema.AddBody,
    ),
    R(
        "GET",
        "/v1/streams/{stream}/history",
        "The kept increments of one counter.",
        schema.Counters,
        lambda b, c: b.counter_history(
            c.path.stream, c.query.subject, c.query.after, c.query.limit
        ),
        InStream,
        CounterHistoryQuery,
    ),
    R(
        "POST",
        "/v1/streams/{stream}/recount",
        "Add a counter up anew.",
        schema.Audit,
        lambda b, c: b.audit(c.path.stream, c.body.subject),
        InStream,
        body=schema.SubjectBody,
    ),
    R(
        "POST",
        "/v1/streams/{stream}/reset",
        "Set a counter to nothing; what its sources brought is not brought again.",
        schema.Added,
        lambda b, c: b.reset(c.path.stream, c.body.subject),
        InStream,
        body=schema.SubjectBody,
    ),
    R(
        "GET",
        "/v1/links",
        "How counters travel between this agent and others: sources, what is published and pushed.",
        schema.CounterLinks,
        lambda b, c: b.links(),
    ),
    R(
        "POST",
        "/v1/links/{name}/run",
        "Let a link take or send what there is, now.",
        schema.Done,
        lambda b, c: b.run_link(c.path.name),
        OfLink,
        status=202,
    ),
    R(
        "POST",
        "/v1/links/{name}/confirm",
        "Let a link go on that stopped because the other side went backwards.",
        schema.Done,
        lambda b, c: b.confirm_link(c.path.name),
        OfLink,
        status=202,
    ),
    R("GET", "/v1/store", "What the store holds.", schema.Store, lambda b, c: b.store_stats()),
    R(
        "GET",
        "/v1/retention",
        "What is removed when it gets old.",
        schema.Retention,
        lambda b, c: b.retention(),
    ),
    R(
        "GET",
        "/v1/log",
        "The newest lines of the log.",
        schema.Log,
        lambda b, c: b.log(c.query.after, c.query.limit),
        query=LogQuery,
    ),
)


async def _status(backend: Backend, call: Call) -> object:
    return backend.status()


ROUTES = (R("GET", "/v1/status", "The agent at a glance.", schema.Status, _status), *ROUTES)


class Found(NamedTuple):
    """What a method and path lead to: a route with its path parameters, or the methods allowed."""

    route: Route | None
    params: Mapping[str, str]
    allowed: tuple[str, ...] = ()


_PATTERNS = [
    (re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", route.path)), route) for route in ROUTES
]


def find(method: str, raw_path: str) -> Found:
    """The route of a request; `raw_path` still has its percent signs."""
    allowed: list[str] = []
    for pattern, route in _PATTERNS:
        match = pattern.fullmatch(raw_path)
        if match is None:
            continue
        if route.method == method:
            return Found(route, {key: unquote(text) for key, text in match.groupdict().items()})
        allowed.append(route.method)
    return Found(None, {}, tuple(dict.fromkeys(allowed)))


def validated(
    route: Route, params: Mapping[str, str], query: Mapping[str, str], body: bytes
) -> Call:
    """The request as values. Raises msgspec.ValidationError, msgspec.DecodeError."""
    return Call(
        msgspec.convert(params, route.params, strict=False),
        msgspec.convert(query, route.query, strict=False),
        None if route.body is None else msgspec.json.decode(body, type=route.body),
    )
