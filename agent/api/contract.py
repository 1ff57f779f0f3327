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
        description="a subject; `*` matches one token, and a last `>` matches the rest",
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
        description="the URL in the answer of /v1/relays",
    ),
]
LastSeen = Annotated[
    str,
    Meta(
        max_length=64,
        pattern=r"^([A-Za-z0-9]{1,40}:[0-9]{1,15})?(?!\n)$",
        description="run and number of the last message that you have, as `run:n`",
    ),
]


class AgentApi:
    """All requests that an agent answers.

    A client overrides `send`, and a backend overrides the other methods.
    """

    async def send(self, route: Route, request: ApiRequest) -> Any:
        """Send a request and return what `route.answer` says."""
        raise NotImplementedError(route.name)

    # The agent itself.

    @route("GET", "/healthz", scope=Scope.NONE)
    async def health(self) -> schema.Health:
        """Report that the event loop runs."""

    @route("GET", "/readyz", scope=Scope.NONE, also=(503,))
    async def ready(self) -> schema.Ready:
        """Report whether the agent does its work.

        If it does not, the status is 503.
        """

    @route("GET", "/metrics", media=TEXT)
    async def metrics(self) -> str:
        """Return the metrics for Prometheus."""

    @route("GET", "/v1/openapi.json")
    async def document(self) -> dict[str, Any]:
        """Return this API as an OpenAPI document."""

    @route("GET", "/v1/events", media=STREAM, answers=schema.Message)
    def events(self, last: LastSeen = "") -> AsyncIterator[tuple[str, schema.Message]]:
        """Stream a snapshot and then every change, as server-sent events.

        Each item is an id and a message. Send the last id to continue after it. The last message of
        a stream says why the stream ends.
        """

    @route("GET", "/v1/access")
    async def access(self) -> schema.Permission:
        """Return the scope of the token in this request."""

    @route("GET", "/v1/status")
    async def status(self) -> schema.AgentStatus:
        """Return the state of the agent."""

    @route("POST", "/v1/reload")
    async def reload(self) -> schema.Reloaded:
        """Read the configuration file again."""

    @route("GET", "/v1/log")
    async def log(self, after: After = 0, limit: SmallLimit = 200) -> schema.LogTail:
        """Return the newest lines of the log."""

    # Watches.

    @route("GET", "/v1/watches")
    async def watches(self) -> schema.Watches:
        """Return all watches."""

    @route("POST", "/v1/watches", status=201)
    async def add_watch(self, spec: Watch) -> schema.WatchState:
        """Add a watch."""

    @route("GET", "/v1/watches/{name}")
    async def watch(self, name: Name) -> schema.WatchState:
        """Return one watch."""

    @route("PUT", "/v1/watches/{name}")
    async def change_watch(self, name: Name, spec: Watch) -> schema.WatchState:
        """Change a watch. The name stays the same."""

    @route("DELETE", "/v1/watches/{name}")
    async def remove_watch(self, name: Name) -> schema.Done:
        """Remove a watch."""

    @route("POST", "/v1/watches/{name}/count", status=202)
    async def recount(self, name: Name) -> schema.Done:
        """Ask every relay of a watch now, without waiting for the answers.

        The stream of events has the new numbers.
        """

    @route("POST", "/v1/watches/{name}/ask", takes=120.0)
    async def ask_watch(self, name: Name) -> schema.CountReport:
        """Ask every relay of a watch now, and return the new number."""

    @route("GET", "/v1/watches/{name}/explain")
    async def explain(
        self,
        name: Name,
        excluded: Annotated[
            str,
            Meta(
                max_length=500,
                pattern=URL_OR_NONE,
                description="a relay to exclude; if the watch excludes it, to include again",
            ),
        ] = "",
        trusted: Annotated[
            str,
            Meta(
                max_length=500,
                pattern=URL_OR_NONE,
                description="a relay to trust; if the watch trusts it, to trust no longer",
            ),
        ] = "",
    ) -> schema.CountReport:
        """Return the number of a watch, and how each relay's answer changes the number."""

    @route("GET", "/v1/watches/{name}/claims")
    async def claims(self, name: Name, relay: RelayUrl) -> schema.PastClaims:
        """Return the answers of one relay to a watch: the last of each day, newest first."""

    @route("GET", "/v1/watches/{name}/overlap", takes=90.0)
    async def overlaps(self, name: Name) -> schema.WatchOverlaps:
        """Return how many people each pair of a watch's relays shares, without asking them."""

    @route("GET", "/v1/watches/{name}/history")
    async def history(
        self,
        name: Name,
        since: Since = 0.0,
        limit: Limit = 2000,
    ) -> schema.WatchHistory:
        """Return the past numbers of a watch.

        `limit` keeps the newest numbers.
        """

    @route("GET", "/v1/watches/{name}/people")
    async def people(
        self,
        name: Name,
        since: Since = 0.0,
        limit: Limit = 200,
    ) -> schema.People:
        """Return which people followed, reacted and so on, newest first.

        Names come from profiles in the store. `limit` keeps the newest people.
        """

    @route("GET", "/v1/digest", takes=90.0)
    async def digest(self, since: Since = 0.0) -> schema.Digest:
        """Return the changes of all watches since a time."""

    @route("GET", "/badge/{name}.svg", media=SVG)
    async def badge(self, name: Name) -> str:
        """Return the number of a watch as an SVG picture.

        If `api.badges` names the watch, the request needs no token.
        """

    @route("GET", "/badge/{name}.json")
    async def shield(self, name: Name) -> dict[str, Any]:
        """Return the number of a watch in the endpoint format of shields.io."""

    @route("POST", "/v1/counts", takes=120.0)
    async def count(self, body: schema.CountBody) -> schema.CountReport:
        """Count once, now."""

    @route("POST", "/v1/names", takes=30.0)
    async def look_up_name(self, body: schema.NameBody) -> schema.NamedKey:
        """Ask a domain for the public key of a name (NIP-05)."""

    # Syncs.

    @route("GET", "/v1/syncs")
    async def syncs(self) -> schema.Syncs:
        """Return all syncs."""

    @route("POST", "/v1/syncs", status=201)
    async def add_sync(self, spec: SyncSpec) -> schema.Sync:
        """Add a sync."""

    @route("GET", "/v1/syncs/{name}")
    async def sync(self, name: Name) -> schema.Sync:
        """Return one sync and its progress."""

    @route("DELETE", "/v1/syncs/{name}")
    async def remove_sync(self, name: Name) -> schema.Done:
        """Remove a sync."""

    @route("POST", "/v1/syncs/{name}/run", status=202)
    async def run_sync(self, name: Name) -> schema.Done:
        """Start a sync now."""

    @route("POST", "/v1/syncs/{name}/cancel")
    async def cancel_sync(self, name: Name) -> schema.Done:
        """Stop a running sync. The store keeps the events that the sync downloaded."""

    # Coverages.

    @route("GET", "/v1/coverages")
    async def coverages(self) -> schema.Coverages:
        """Return all coverages. A coverage shows which events of an author each relay has."""

    @route("GET", "/v1/coverages/{name}")
    async def coverage(self, name: Name) -> schema.CoverageState:
        """Return one coverage and its newest run."""

    @route("GET", "/v1/coverages/{name}/history")
    async def coverage_history(
        self,
        name: Name,
        since: Since = 0.0,
        limit: SmallLimit = 400,
    ) -> schema.CoverageHistory:
        """Return the past runs of a coverage.

        `limit` keeps the newest runs.
        """

    @route("POST", "/v1/coverages/{name}/run", status=202)
    async def run_coverage(self, name: Name) -> schema.Done:
        """Compare the relays of a coverage now. If the configuration says so, repair them."""

    # Relays.

    @route("GET", "/v1/relays")
    async def relays(self) -> schema.Relays:
        """Return all relays of the agent."""

    @route("GET", "/v1/relays/info")
    async def relay_info(self, url: RelayUrl) -> schema.RelayInfo:
        """Ask a relay for its description of itself (NIP-11)."""

    # Counters.

    @route("GET", "/v1/streams")
    async def streams(self) -> schema.StreamList:
        """Return all streams of counters."""

    @route("GET", "/v1/streams/{stream}/counters")
    async def counters(
        self,
        stream: StreamName,
        pattern: Pattern = ">",
        limit: Limit = 1000,
        at: Annotated[
            int, Meta(ge=0, le=2**53, description="values at this sequence; 0: current values")
        ] = 0,
    ) -> schema.CounterList:
        """Return the counters of a stream that match a pattern."""

    @route("DELETE", "/v1/streams/{stream}/counters")
    async def remove_counters(self, stream: StreamName, pattern: Pattern) -> schema.Removed:
        """Remove the counters of a stream that match a pattern."""

    @route("POST", "/v1/streams/{stream}/counters")
    async def add(
        self,
        stream: StreamName,
        subject: Subject,
        add: Increment,
        id: Annotated[
            str,
            Meta(max_length=256, description="a repeated id adds nothing, for some time"),
        ] = "",
    ) -> schema.CounterAdded:
        """Add a number to a counter."""

    @route("GET", "/v1/streams/{stream}/history")
    async def counter_history(
        self, stream: StreamName, subject: Subject, after: After = 0, limit: Limit = 1000
    ) -> schema.CounterList:
        """Return the stored increments of one counter."""

    @route("GET", "/v1/streams/{stream}/messages", scope=Scope.SOURCE)
    async def messages(
        self,
        stream: StreamName,
        after: After = 0,
        limit: Limit = 1000,
        newest: Annotated[
            bool, Meta(description="return only the newest message of each subject")
        ] = False,
    ) -> schema.Messages:
        """Return the stored messages of a stream, for an agent that reads the stream."""

    @route("POST", "/v1/streams/{stream}/recount", scope=Scope.READ)
    async def audit(self, stream: StreamName, subject: Subject) -> schema.Audit:
        """Add up the stored increments of a counter, and compare the sum with its value."""

    @route("POST", "/v1/streams/{stream}/reset")
    async def reset(self, stream: StreamName, subject: Subject) -> schema.CounterAdded:
        """Set a counter to 0. Its sources do not send their old counts again."""

    @route("GET", "/v1/links")
    async def links(self) -> schema.CounterLinks:
        """Return the links that carry counters between this agent and other places.

        The links are in the order of their names.
        """

    @route("POST", "/v1/links/{name}/run", status=202)
    async def run_link(self, name: LinkName) -> schema.Done:
        """Start one round of a link now."""

    @route("POST", "/v1/links/{name}/confirm", status=202)
    async def confirm_link(self, name: LinkName) -> schema.Done:
        """Accept lower values from the other side, so that a stopped link continues.

        Confirm only if the lower values are right.
        """

    # The store.

    @route("GET", "/v1/store")
    async def store(self) -> schema.Store:
        """Return the totals of the store."""

    @route("GET", "/v1/store/hot")
    async def hot(
        self,
        name: Annotated[str, Meta(min_length=1, max_length=64)] | None = None,
        kind: Annotated[int, Meta(ge=0, le=65_535)] | None = None,
        limit: SmallLimit = 50,
    ) -> schema.HotTargets:
        """Return the targets with the most events in the store."""

    @route("POST", "/v1/store/index/snapshot")
    async def index_snapshot(self) -> schema.IndexMark:
        """Return the position in the store at which a bulk rebuild begins."""

    @route("POST", "/v1/store/index/adopt", takes=90.0)
    async def adopt_index(
        self, path: Annotated[str, Meta(min_length=1, max_length=4096)]
    ) -> schema.IndexStats:
        """Install the derived tables that a bulk rebuild wrote since the snapshot.

        `path` is a file in the store's folder on the agent's machine. The agent copies the file.
        """

    @route("GET", "/v1/store/rebuild")
    async def rebuild(self) -> schema.Rebuild:
        """Return the newest bulk rebuild of the derived tables."""

    @route("POST", "/v1/store/rebuild", status=202)
    async def start_rebuild(self, body: schema.RebuildBody) -> schema.Rebuild:
        """Rebuild the derived tables from the events, in a separate process."""

    @route("DELETE", "/v1/store/rebuild")
    async def cancel_rebuild(self) -> schema.Done:
        """Cancel the bulk rebuild. The current derived tables stay in use."""

    @route("GET", "/v1/assertions")
    async def assertions(self) -> schema.Assertions:
        """Return the result of the newest publication of cards (NIP-85)."""

    @route("POST", "/v1/assertions/run", status=202)
    async def run_assertions(self) -> schema.Done:
        """Publish all changed cards (NIP-85) now."""

    @route("GET", "/v1/retention")
    async def retention(self) -> schema.Retention:
        """Return the rules that remove old events, and the result of the newest run."""

    @route("POST", "/v1/retention/run", status=202)
    async def run_retention(self) -> schema.Done:
        """Remove old events now, by the rules."""


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
