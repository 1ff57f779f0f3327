"""Declares the types of the agent's API, in both directions; OpenAPI is made from them.

Light on purpose: the terminal application imports it. Times are Unix seconds.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from agent.api.shapes import (
    ApiRefusal,
    Assertions,
    CounterAdded,
    CounterLink,
    CounterLinks,
    CounterList,
    Done,
    HotTargets,
    Increment,
    IndexMark,
    Messages,
    Problem,
    Rebuild,
    RebuildBody,
    RebuildStage,
    Removed,
    RequestBody,
    ResponseBody,
    Retention,
    Store,
    Stream,
    StreamList,
    Subject,
    not_found,
    read_only,
)
from agent.specs import CoverageSpec, SyncSpec
from nostr_client.assertions.report import Asserted
from nostr_client.codecs.nip11 import RelayInfo
from nostr_client.count.figures import (
    CountReport,
    Figure,
    PastClaim,
    RelayOverlaps,
    SharedPeople,
    UncomparedRelay,
    WeighedClaim,
    Within,
)
from nostr_client.counters.lineage import Arrival
from nostr_client.counters.shown import Audit, Counter, Integer
from nostr_client.network.relay_state import Capabilities
from nostr_client.store.base import Difference, HotTarget, IndexStats
from nostr_client.sync.coverage_report import CoverageRun, HeldKind, RelayCoverage
from nostr_client.sync.report import RelayReport
from nostr_client.watch.definition import AlertSpec, FilterObject, Name, QueryName, Url, Watch
from nostr_client.watch.digest import Digest
from nostr_client.watch.history import Point
from nostr_client.watch.people import People, Person

Origin = Annotated[
    Literal["file", "api"], Meta(description="where it was configured; of the file: read-only")
]


class Scope(enum.IntEnum):
    """What a token may do; a scope includes those below it."""

    NONE = 0
    SOURCE = 1
    """Read the messages of streams."""
    READ = 2
    MANAGE = 3
    """Change what the agent does and stores, and have it ask relays."""


class Permission(ResponseBody, frozen=True):
    """What the token of this request may do."""

    scope: Literal["read", "manage"]


class Health(ResponseBody, frozen=True):
    """The event loop answers."""

    alive: bool
    uptime: float


class Ready(ResponseBody, frozen=True):
    """Whether the agent does its work; `reasons` say why not."""

    ready: bool
    reasons: tuple[str, ...] = ()


class AgentStatus(ResponseBody, frozen=True):
    """The agent at a glance."""

    version: str
    pid: int
    started_at: float
    uptime: float
    ready: bool
    reasons: tuple[str, ...]
    config: str
    store: str
    relay_url: str
    watches: int
    syncs: int
    relays: int
    relays_connected: int
    tasks: int
    running: int
    overdue: int
    restart_for: tuple[str, ...] = ()
    """Keys of the configuration that have changed and wait for a restart."""


class Reloaded(ResponseBody, frozen=True):
    """What reading the configuration again did: keys that changed at once, those that need a
    restart; or, where it was refused whole, every mistake."""

    ok: bool
    applied: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()


class WatchState(ResponseBody, frozen=True):
    """A watch and how it stands; `changes` over an hour, a day and a week, where known.

    `since`: the time of the first number; until a span after it, its change is not known.
    `updated_at`: the time of the newest merge, whether a relay answered or not. `answered_at`: the
    newest time at which a relay that counts was asked and answered.
    `asserted`: what its providers assert (NIP-85), which is no part of `figure`.
    """

    spec: Watch
    origin: Origin
    unit: Literal["distinct_authors", "events"] | None = None
    figure: Figure | None = None
    updated_at: float | None = None
    answered_at: float | None = None
    asked: int = 0
    answered: int = 0
    warnings: tuple[str, ...] = ()
    changes: dict[str, int] = field(default_factory=dict)
    spark: tuple[int, ...] = ()
    since: float | None = None
    failing: tuple[str, ...] = ()
    within: Within | None = None
    asserted: tuple[Asserted, ...] = ()


class Watches(ResponseBody, frozen=True):
    """All watches, by name."""

    watches: tuple[WatchState, ...]


class WatchHistory(ResponseBody, frozen=True):
    """The numbers of one watch, oldest first, and when it was asked last."""

    watch: str
    points: tuple[Point, ...]
    asked_at: int | None = None


class PastClaims(ResponseBody, frozen=True):
    """What one relay answered over time: the last answer of each day, newest first."""

    watch: str
    relay: str
    claims: tuple[PastClaim, ...]


class WatchOverlaps(RelayOverlaps, ResponseBody, frozen=True):
    """The people that each pair of a watch's relays shares, by the claims in its number."""

    watch: str


class CountBody(RequestBody, frozen=True):
    """A question to be asked now; either `query` and `target`, or `filters`."""

    query: QueryName | None = None
    target: Annotated[str, Meta(max_length=4096)] = ""
    filters: Annotated[tuple[FilterObject, ...], Meta(max_length=10)] = ()
    relays: Annotated[tuple[Url, ...], Meta(max_length=50)] = ()
    timeout: Annotated[float, Meta(gt=0, le=120)] = 15.0


class NameBody(RequestBody, frozen=True):
    """A person's name at a domain (NIP-05)."""

    name: Annotated[str, Meta(max_length=400, description="as bob@example.com")]


class NamedKey(ResponseBody, frozen=True):
    """Whose key a name is today, by its domain."""

    name: str
    pubkey: str


class Sync(ResponseBody, frozen=True):
    """A sync and its newest run."""

    spec: SyncSpec
    origin: Origin
    running: bool = False
    started_at: float | None = None
    ended_at: float | None = None
    outcome: str = ""
    relays: tuple[RelayReport, ...] = ()


class Syncs(ResponseBody, frozen=True):
    """All syncs, by name."""

    syncs: tuple[Sync, ...]


class CoverageState(ResponseBody, frozen=True):
    """A coverage and its newest run; `why`: the reason if a later one failed."""

    spec: CoverageSpec
    running: bool = False
    why: str = ""
    run: CoverageRun | None = None


class Coverages(ResponseBody, frozen=True):
    """All coverages, by name."""

    coverages: tuple[CoverageState, ...]


class CoverageHistory(ResponseBody, frozen=True):
    """The runs of one coverage, oldest first."""

    coverage: str
    runs: tuple[CoverageRun, ...]


class RelayState(ResponseBody, frozen=True):
    """A relay: its connection, its numbers, and the work that it has."""

    url: str
    status: str
    connected_at: float | None = None
    latency_ms: float | None = None
    success_rate: float = 0.0
    attempts: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    frames: int = 0
    rejected: int = 0
    faults: int = 0
    last_error: str = ""
    notices: tuple[str, ...] = ()
    capabilities: Capabilities = Capabilities()
    tasks: int = 0
    failing: int = 0
    trusted: bool = False


class Relays(ResponseBody, frozen=True):
    """All relays that the agent has to do with."""

    relays: tuple[RelayState, ...]


class LogLine(ResponseBody, frozen=True):
    """A line of the log; `n` counts up from the start of the agent."""

    n: int
    at: float
    level: str
    event: str
    fields: dict[str, Any] = field(default_factory=dict)


class LogTail(ResponseBody, frozen=True):
    """The newest lines, oldest first."""

    lines: tuple[LogLine, ...]


class StateSnapshot(ResponseBody, frozen=True, tag="snapshot"):
    """Where a stream begins: all that deltas with a higher `n` than this change."""

    n: int
    run: str
    status: AgentStatus
    watches: tuple[WatchState, ...]
    syncs: tuple[Sync, ...]
    relays: tuple[RelayState, ...]
    links: tuple[CounterLink, ...] = ()
    coverages: tuple[CoverageState, ...] = ()


class Delta(ResponseBody, frozen=True, tag="delta"):
    """One change; what is not null replaces what was known under its name or URL.

    `stream` reports that counters in it have changed; ask for those that are shown.
    """

    n: int
    watch: WatchState | None = None
    sync: Sync | None = None
    relay: RelayState | None = None
    log: LogLine | None = None
    status: AgentStatus | None = None
    counter: Counter | None = None
    stream: Stream | None = None
    link: CounterLink | None = None
    coverage: CoverageState | None = None
    removed_watch: str | None = None
    removed_sync: str | None = None
    removed_relay: str | None = None
    removed_link: str | None = None
    removed_coverage: str | None = None


class StreamEnd(ResponseBody, frozen=True, tag="cut"):
    """The last message of a stream: why it ends. Come again with the last number seen."""

    reason: str


Message = StateSnapshot | Delta | StreamEnd

__all__ = [
    "AgentStatus",
    "AlertSpec",
    "ApiRefusal",
    "Arrival",
    "Assertions",
    "Audit",
    "Capabilities",
    "CountBody",
    "CountReport",
    "Counter",
    "CounterAdded",
    "CounterLink",
    "CounterLinks",
    "CounterList",
    "CoverageHistory",
    "CoverageRun",
    "CoverageState",
    "Coverages",
    "Delta",
    "Difference",
    "Digest",
    "Done",
    "Figure",
    "Health",
    "HeldKind",
    "HotTarget",
    "HotTargets",
    "Increment",
    "IndexMark",
    "IndexStats",
    "Integer",
    "LogLine",
    "LogTail",
    "Message",
    "Messages",
    "Name",
    "Origin",
    "PastClaim",
    "PastClaims",
    "People",
    "Permission",
    "Person",
    "Point",
    "Problem",
    "Ready",
    "Rebuild",
    "RebuildBody",
    "RebuildStage",
    "RelayCoverage",
    "RelayInfo",
    "RelayReport",
    "RelayState",
    "Relays",
    "Reloaded",
    "Removed",
    "RequestBody",
    "ResponseBody",
    "Retention",
    "Scope",
    "SharedPeople",
    "StateSnapshot",
    "Store",
    "Stream",
    "StreamEnd",
    "StreamList",
    "Subject",
    "Sync",
    "Syncs",
    "UncomparedRelay",
    "WatchHistory",
    "WatchOverlaps",
    "WatchState",
    "Watches",
    "WeighedClaim",
    "Within",
    "not_found",
    "read_only",
]
