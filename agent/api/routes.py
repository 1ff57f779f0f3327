"""Every route of the API in one table: it routes, it validates, and the document is made of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import msgspec

from agent.api import about, holdings, params, rebuilds, schema
from agent.api.params import Nothing
from agent.api.schema import Scope
from agent.specs import SyncSpec, WatchSpec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from agent.api.backend import Backend
    from agent.api.shapes import Body


class Call(NamedTuple):
    """A validated request: its path, query string and body, and what its token may do."""

    path: Any
    query: Any
    body: Any
    scope: Scope


class Route(NamedTuple):
    """One thing that can be asked; `run` answers with a value of `answer`.

    `scope` is what a token needs; None: to read for GET, else to manage.
    """

    method: str
    path: str
    summary: str
    answer: Any
    run: Callable[[Backend, Call], Awaitable[object]]
    params: type[Body] = Nothing
    query: type[Body] = Nothing
    body: Any = None
    status: int = 200
    scope: Scope | None = None

    @property
    def needs(self) -> Scope:
        """The least scope of a token that may ask this."""
        if self.scope is not None:
            return self.scope
        return Scope.READ if self.method == "GET" else Scope.MANAGE


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
        params.Named,
    ),
    R(
        "PUT",
        "/v1/watches/{name}",
        "Change a watch; its name stays.",
        schema.Watch,
        lambda b, c: b.change_watch(c.path.name, c.body),
        params.Named,
        body=WatchSpec,
    ),
    R(
        "DELETE",
        "/v1/watches/{name}",
        "Remove a watch.",
        schema.Done,
        lambda b, c: b.remove_watch(c.path.name),
        params.Named,
    ),
    R(
        "POST",
        "/v1/watches/{name}/count",
        "Ask every relay of a watch again, now.",
        schema.Done,
        lambda b, c: b.recount(c.path.name),
        params.Named,
        status=202,
    ),
    R(
        "GET",
        "/v1/watches/{name}/explain",
        "What the number of a watch is made of.",
        schema.Counted,
        lambda b, c: b.explain(c.path.name),
        params.Named,
    ),
    R(
        "GET",
        "/v1/watches/{name}/history",
        "The numbers of a watch.",
        schema.History,
        lambda b, c: b.history(c.path.name, c.query.since, c.query.limit),
        params.Named,
        params.HistoryQuery,
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
        params.Named,
    ),
    R(
        "DELETE",
        "/v1/syncs/{name}",
        "Remove a sync.",
        schema.Done,
        lambda b, c: b.remove_sync(c.path.name),
        params.Named,
    ),
    R(
        "POST",
        "/v1/syncs/{name}/run",
        "Run a sync now.",
        schema.Done,
        lambda b, c: b.run_sync(c.path.name),
        params.Named,
        status=202,
    ),
    R(
        "POST",
        "/v1/syncs/{name}/cancel",
        "Stop a sync that runs; what was stored stays.",
        schema.Done,
        lambda b, c: b.cancel_sync(c.path.name),
        params.Named,
    ),
    R("GET", "/v1/relays", "All relays.", schema.Relays, lambda b, c: b.relays()),
    R(
        "GET",
        "/v1/relays/info",
        "What a relay says of itself (NIP-11), asked for once.",
        about.RelayInfo,
        lambda b, c: b.relay_info(c.query.url),
        query=params.RelayQuery,
    ),
    R("GET", "/v1/streams", "All streams of counters.", schema.Streams, lambda b, c: b.streams()),
    R(
        "GET",
        "/v1/streams/{stream}/counters",
        "Counters by pattern.",
        schema.Counters,
        lambda b, c: b.counters(c.path.stream, c.query.pattern, c.query.limit),
        params.InStream,
        params.CountersQuery,
    ),
    R(
        "POST",
        "/v1/streams/{stream}/counters",
        "Add to a counter.",
        schema.Added,
        lambda b, c: b.add(c.path.stream, c.body),
        params.InStream,
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
        params.InStream,
        params.CounterHistoryQuery,
    ),
    R(
        "GET",
        "/v1/streams/{stream}/messages",
        "The kept messages of a stream, for others that source it.",
        schema.Messages,
        lambda b, c: b.messages(c.path.stream, c.query.after, c.query.limit, c.query.newest),
        params.InStream,
        params.MessagesQuery,
        scope=Scope.SOURCE,
    ),
    R(
        "POST",
        "/v1/streams/{stream}/recount",
        "Add a counter up anew.",
        schema.Audit,
        lambda b, c: b.audit(c.path.stream, c.body.subject),
        params.InStream,
        body=schema.SubjectBody,
        scope=Scope.READ,
    ),
    R(
        "POST",
        "/v1/streams/{stream}/reset",
        "Set a counter to nothing; what its sources brought is not brought again.",
        schema.Added,
        lambda b, c: b.reset(c.path.stream, c.body.subject),
        params.InStream,
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
        params.OfLink,
        status=202,
    ),
    R(
        "POST",
        "/v1/links/{name}/confirm",
        "Let a link go on that stopped because the other side went backwards.",
        schema.Done,
        lambda b, c: b.confirm_link(c.path.name),
        params.OfLink,
        status=202,
    ),
    R("GET", "/v1/store", "What the store holds.", schema.Store, lambda b, c: b.store_stats()),
    R(
        "GET",
        "/v1/store/hot",
        "The targets with most events in the store.",
        holdings.HotTargets,
        lambda b, c: b.hot(c.query.name, c.query.kind, c.query.limit),
        query=params.HotQuery,
    ),
    R(
        "POST",
        "/v1/store/index/snapshot",
        "Say where a bulk rebuild of the derived tables begins.",
        holdings.IndexMark,
        lambda b, c: b.index_snapshot(),
    ),
    R(
        "POST",
        "/v1/store/index/adopt",
        "Take derived tables that were built in bulk since the snapshot.",
        holdings.Index,
        lambda b, c: b.adopt_index(c.body.path),
        body=holdings.AdoptBody,
    ),
    R(
        "GET",
        "/v1/store/rebuild",
        "The newest bulk rebuild of the derived tables.",
        rebuilds.Rebuild,
        lambda b, c: b.rebuild(),
    ),
    R(
        "POST",
        "/v1/store/rebuild",
        "Rebuild the derived tables from the events, in a process of its own.",
        rebuilds.Rebuild,
        lambda b, c: b.start_rebuild(c.body),
        body=rebuilds.RebuildBody,
        status=202,
    ),
    R(
        "DELETE",
        "/v1/store/rebuild",
        "Cancel the bulk rebuild; what is live stays as it is.",
        schema.Done,
        lambda b, c: b.cancel_rebuild(),
    ),
    R(
        "GET",
        "/v1/retention",
        "What is removed when it gets old.",
        schema.Retention,
        lambda b, c: b.retention(),
    ),
    R(
        "POST",
        "/v1/retention/run",
        "Remove what is old, now.",
        schema.Done,
        lambda b, c: b.run_retention(),
        status=202,
    ),
    R(
        "GET",
        "/v1/log",
        "The newest lines of the log.",
        schema.Log,
        lambda b, c: b.log(c.query.after, c.query.limit),
        query=params.LogQuery,
    ),
)


async def _status(backend: Backend, call: Call) -> object:
    return backend.status()


async def _permission(_: Backend, call: Call) -> object:
    return schema.Permission(scope="manage" if call.scope >= Scope.MANAGE else "read")


ROUTES = (
    R("GET", "/v1/access", "What this token may do.", schema.Permission, _permission),
    R("GET", "/v1/status", "The agent at a glance.", schema.Status, _status),
    R(
        "POST",
        "/v1/reload",
        "Read the configuration again.",
        schema.Reloaded,
        lambda b, c: b.reload(),
    ),
    *ROUTES,
)


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
    route: Route,
    params: Mapping[str, str],
    query: Mapping[str, str],
    body: bytes,
    scope: Scope,
) -> Call:
    """The request as values. Raises msgspec.ValidationError, msgspec.DecodeError."""
    return Call(
        msgspec.convert(params, route.params, strict=False),
        msgspec.convert(query, route.query, strict=False),
        None if route.body is None else msgspec.json.decode(body, type=route.body),
        scope,
    )
