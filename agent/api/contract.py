"""Declares each request of the agent's HTTP API once, with its parameters and its answer.

A method here is the route, the client's method, what the backend overrides, and an operation of the
OpenAPI document. Its signature gives the types that validate; its docstring gives the summary.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from msgspec import Meta

from agent.api import schema
from agent.api.routes import STREAM, SVG, TEXT, ApiRequest, Route, route, routes_of
from agent.api.schema import Increment, Scope, Subject
from agent.specs import SyncSpec
from nostr_client.watch.definition import Name, Watch

Limit = Annotated[int, Meta(ge=1, le=10_000)]
SmallLimit = Annotated[int, Meta(ge=1, le=1000)]
StreamName = Annotated[str, Meta(min_length=1, max_length=255)]
LinkName = Annotated[str, Meta(min_length=1, max_length=255)]
After = Annotated[int, Meta(ge=0, le=2**53)]
Pattern = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=256,
        description="a subject, where `*` stands for one token and a last `>` for the rest",
    ),
]
URL_OR_NONE = r"^[!-~]*(?!\n)$"
"""ASCII without blanks: two of them, each character as three, fit into a request line."""

Since = Annotated[float, Meta(ge=0, le=1e12)]
RelayUrl = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        pattern=r"^[!-~]+(?!\n)$",
        description="as /v1/relays names it: ASCII, so that it fits into a request line",
    ),
]
LastSeen = Annotated[
    str,
    Meta(
        max_length=64,
        pattern=r"^([A-Za-z0-9]{1,40}:[0-9]{1,15})?(?!\n)$",
        description="the run and number that were seen last, `run:n`, to go on from there",
    ),
]


class AgentApi:
    """Everything that can be asked of an agent.

    A client overrides `send`, a backend the methods.
    """

    async def send(self, route: Route, request: ApiRequest) -> Any:
        """Send a request and return what `route.answer` says."""
        raise NotImplementedError(route.name)

    # The agent itself.

    @route("GET", "/healthz", scope=Scope.NONE)
    async def health(self) -> schema.Health:
        """The event loop lives."""

    @route("GET", "/readyz", scope=Scope.NONE, also=(503,))
    async def ready(self) -> schema.Ready:
        """Whether the agent does its work.

        The status is 503 where it does not.
        """

    @route("GET", "/metrics", media=TEXT)
    async def metrics(self) -> str:
        """Numbers for Prometheus."""

    @route("GET", "/v1/openapi.json")
    async def document(self) -> dict[str, Any]:
        """This document."""

    @route("GET", "/v1/events", media=STREAM, answers=schema.Message)
    def events(self, last: LastSeen = "") -> AsyncIterator[tuple[str, schema.Message]]:
        """Server-sent events: a snapshot, then numbered deltas; ends with a word.

        Pairs of an id to come back with, and a message.
        """

    @route("GET", "/v1/access")
    async def access(self) -> schema.Permission:
        """What this token may do."""

    @route("GET", "/v1/status")
    async def status(self) -> schema.AgentStatus:
        """The agent at a glance."""

    @route("POST", "/v1/reload")
    async def reload(self) -> schema.Reloaded:
        """Read the configuration again."""

    @route("GET", "/v1/log")
    async def log(self, after: After = 0, limit: SmallLimit = 200) -> schema.LogTail:
        """The newest lines of the log."""

    # Watches.

    @route("GET", "/v1/watches")
    async def watches(self) -> schema.Watches:
        """All watches."""

    @route("POST", "/v1/watches", status=201)
    async def add_watch(self, spec: Watch) -> schema.WatchState:
        """Add a watch."""

    @route("GET", "/v1/watches/{name}")
    async def watch(self, name: Name) -> schema.WatchState:
        """One watch."""

    @route("PUT", "/v1/watches/{name}")
    async def change_watch(self, name: Name, spec: Watch) -> schema.WatchState:
        """Change a watch; its name stays."""

    @route("DELETE", "/v1/watches/{name}")
    async def remove_watch(self, name: Name) -> schema.Done:
        """Remove a watch."""

    @route("POST", "/v1/watches/{name}/count", status=202)
    async def recount(self, name: Name) -> schema.Done:
        """Ask every relay of a watch again, now.

        The numbers come over the stream of events.
        """

    @route("POST", "/v1/watches/{name}/ask", takes=120.0)
    async def ask_watch(self, name: Name) -> schema.CountReport:
        """Ask every relay of a watch now; its number once each was asked."""

    @route("GET", "/v1/watches/{name}/explain")
    async def explain(
        self,
        name: Name,
        excluded: Annotated[
            str,
            Meta(
                max_length=500,
                pattern=URL_OR_NONE,
                description="as if this relay were excluded, or no longer",
            ),
        ] = "",
        trusted: Annotated[
            str,
            Meta(
                max_length=500,
                pattern=URL_OR_NONE,
                description="as if this relay were trusted, or no longer",
            ),
        ] = "",
    ) -> schema.CountReport:
        """What the number of a watch is made of."""

    @route("GET", "/v1/watches/{name}/claims")
    async def claims(self, name: Name, relay: RelayUrl) -> schema.PastClaims:
        """What one relay of a watch answered: the last of each day, newest first."""

    @route("GET", "/v1/watches/{name}/overlap", takes=90.0)
    async def overlaps(self, name: Name) -> schema.WatchOverlaps:
        """How many people each pair of a watch's relays shares; no relay is asked."""

    @route("GET", "/v1/watches/{name}/history")
    async def history(
        self,
        name: Name,
        since: Since = 0.0,
        limit: Limit = 2000,
    ) -> schema.WatchHistory:
        """The numbers of a watch.

        The limit keeps the newest ones.
        """

    @route("GET", "/v1/watches/{name}/people")
    async def people(
        self,
        name: Name,
        since: Since = 0.0,
        limit: SmallLimit = 200,
    ) -> schema.People:
        """Who did what, newest first.

        Names come from profiles in the store. The limit keeps the newest ones.
        """

    @route("GET", "/v1/digest", takes=90.0)
    async def digest(self, since: Since = 0.0) -> schema.Digest:
        """What changed for all watches since a time."""

    @route("GET", "/badge/{name}.svg", media=SVG)
    async def badge(self, name: Name) -> str:
        """The number of a watch as a picture.

        It needs no token where `api.badges` names the watch.
        """

    @route("GET", "/badge/{name}.json")
    async def shield(self, name: Name) -> dict[str, Any]:
        """The same as shields.io reads it (its endpoint form)."""

    @route("POST", "/v1/counts", takes=120.0)
    async def count(self, body: schema.CountBody) -> schema.CountReport:
        """Count once, now."""

    @route("POST", "/v1/names", takes=30.0)
    async def look_up_name(self, body: schema.NameBody) -> schema.NamedKey:
        """Ask a domain whose key a name is (NIP-05)."""

    # Syncs.

    @route("GET", "/v1/syncs")
    async def syncs(self) -> schema.Syncs:
        """All syncs."""

    @route("POST", "/v1/syncs", status=201)
    async def add_sync(self, spec: SyncSpec) -> schema.Sync:
        """Add a sync."""

    @route("GET", "/v1/syncs/{name}")
    async def sync(self, name: Name) -> schema.Sync:
        """One sync and its progress."""

    @route("DELETE", "/v1/syncs/{name}")
    async def remove_sync(self, name: Name) -> schema.Done:
        """Remove a sync."""

    @route("POST", "/v1/syncs/{name}/run", status=202)
    async def run_sync(self, name: Name) -> schema.Done:
        """Run a sync now."""

    @route("POST", "/v1/syncs/{name}/cancel")
    async def cancel_sync(self, name: Name) -> schema.Done:
        """Stop a sync that runs; what was stored stays."""

    # Coverages.

    @route("GET", "/v1/coverages")
    async def coverages(self) -> schema.Coverages:
        """Which relays have an author's events: all coverages of the configuration."""

    @route("GET", "/v1/coverages/{name}")
    async def coverage(self, name: Name) -> schema.CoverageState:
        """One coverage and its newest run."""

    @route("GET", "/v1/coverages/{name}/history")
    async def coverage_history(
        self,
        name: Name,
        since: Since = 0.0,
        limit: SmallLimit = 400,
    ) -> schema.CoverageHistory:
        """The runs of a coverage.

        The limit keeps the newest ones.
        """

    @route("POST", "/v1/coverages/{name}/run", status=202)
    async def run_coverage(self, name: Name) -> schema.Done:
        """Compare the relays of a coverage now, and repair where the configuration says so."""

    # Relays.

    @route("GET", "/v1/relays")
    async def relays(self) -> schema.Relays:
        """All relays."""

    @route("GET", "/v1/relays/info")
    async def relay_info(self, url: RelayUrl) -> schema.RelayInfo:
        """What a relay says of itself (NIP-11), asked for once."""

    # Counters.

    @route("GET", "/v1/streams")
    async def streams(self) -> schema.StreamList:
        """All streams of counters."""

    @route("GET", "/v1/streams/{stream}/counters")
    async def counters(
        self,
        stream: StreamName,
        pattern: Pattern = ">",
        limit: Limit = 1000,
        at: Annotated[
            int, Meta(ge=0, le=2**53, description="as of this sequence; 0: as they are now")
        ] = 0,
    ) -> schema.CounterList:
        """Counters by pattern."""

    @route("DELETE", "/v1/streams/{stream}/counters")
    async def remove_counters(self, stream: StreamName, pattern: Pattern) -> schema.Removed:
        """Remove the counters that a pattern names."""

    @route("POST", "/v1/streams/{stream}/counters")
    async def add(
        self,
        stream: StreamName,
        subject: Subject,
        add: Increment,
        id: Annotated[
            str, Meta(max_length=256, description="the same id again, in time, adds nothing")
        ] = "",
    ) -> schema.CounterAdded:
        """Add to a counter."""

    @route("GET", "/v1/streams/{stream}/history")
    async def counter_history(
        self, stream: StreamName, subject: Subject, after: After = 0, limit: Limit = 1000
    ) -> schema.CounterList:
        """The kept increments of one counter."""

    @route("GET", "/v1/streams/{stream}/messages", scope=Scope.SOURCE)
    async def messages(
        self,
        stream: StreamName,
        after: After = 0,
        limit: Limit = 1000,
        newest: Annotated[
            bool, Meta(description="of each subject the newest message alone")
        ] = False,
    ) -> schema.Messages:
        """The kept messages of a stream, for others that source it."""

    @route("POST", "/v1/streams/{stream}/recount", scope=Scope.READ)
    async def audit(self, stream: StreamName, subject: Subject) -> schema.Audit:
        """Add up the kept messages of a counter, and compare."""

    @route("POST", "/v1/streams/{stream}/reset")
    async def reset(self, stream: StreamName, subject: Subject) -> schema.CounterAdded:
        """Set a counter to nothing; what its sources brought is not brought again."""

    @route("GET", "/v1/links")
    async def links(self) -> schema.CounterLinks:
        """How counters travel between this agent and others: sources, what is published and pushed.

        All links, by name.
        """

    @route("POST", "/v1/links/{name}/run", status=202)
    async def run_link(self, name: LinkName) -> schema.Done:
        """Let a link take or send what there is, now."""

    @route("POST", "/v1/links/{name}/confirm", status=202)
    async def confirm_link(self, name: LinkName) -> schema.Done:
        """Let a link go on that stopped because the other side went backwards.

        The lower values of the other side are right.
        """

    # The store.

    @route("GET", "/v1/store")
    async def store(self) -> schema.Store:
        """What the store holds."""

    @route("GET", "/v1/store/hot")
    async def hot(
        self,
        name: Annotated[str, Meta(min_length=1, max_length=64)] | None = None,
        kind: Annotated[int, Meta(ge=0, le=65_535)] | None = None,
        limit: SmallLimit = 50,
    ) -> schema.HotTargets:
        """The targets with most events in the store."""

    @route("POST", "/v1/store/index/snapshot")
    async def index_snapshot(self) -> schema.IndexMark:
        """Say where a bulk rebuild of the derived tables begins."""

    @route("POST", "/v1/store/index/adopt", takes=90.0)
    async def adopt_index(
        self, path: Annotated[str, Meta(min_length=1, max_length=4096)]
    ) -> schema.IndexStats:
        """Take derived tables that were built in bulk since the snapshot.

        `path` is a file of the agent's machine, in the store's folder; it is copied.
        """

    @route("GET", "/v1/store/rebuild")
    async def rebuild(self) -> schema.Rebuild:
        """The newest bulk rebuild of the derived tables."""

    @route("POST", "/v1/store/rebuild", status=202)
    async def start_rebuild(self, body: schema.RebuildBody) -> schema.Rebuild:
        """Rebuild the derived tables from the events, in a process of its own."""

    @route("DELETE", "/v1/store/rebuild")
    async def cancel_rebuild(self) -> schema.Done:
        """Cancel the bulk rebuild; what is live stays as it is."""

    @route("GET", "/v1/assertions")
    async def assertions(self) -> schema.Assertions:
        """What became of the published cards (NIP-85)."""

    @route("POST", "/v1/assertions/run", status=202)
    async def run_assertions(self) -> schema.Done:
        """Publish the cards that changed, now."""

    @route("GET", "/v1/retention")
    async def retention(self) -> schema.Retention:
        """What is removed when it gets old."""

    @route("POST", "/v1/retention/run", status=202)
    async def run_retention(self) -> schema.Done:
        """Remove what is old, now."""


ROUTES: Final = routes_of(AgentApi)


def find(method: str, raw_path: str) -> tuple[Route | None, dict[str, str], tuple[str, ...]]:
    """The route of a request, what its path names, and the methods that the path takes.

    HEAD asks what GET asks. `raw_path` still has its percent signs.
    """
    allowed: list[str] = []
    for one in ROUTES:
        params = one.match(raw_path)
        if params is None:
            continue
        if one.method == method or (method, one.method) == ("HEAD", "GET"):
            return one, params, ()
        allowed.append(one.method)
    return None, {}, tuple(dict.fromkeys(allowed))
