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
    Literal["file", "api"],
    Meta(description="where the settings are; the API cannot change settings in the file"),
]


class Scope(enum.IntEnum):
    """The rights of a token. A scope includes the scopes below it."""

    NONE = 0
    SOURCE = 1
    """Read the messages of streams."""
    READ = 2
    MANAGE = 3
    """Change what the agent does and stores, and have it ask relays."""


class Permission(ResponseBody, frozen=True):
    """The scope of a token."""

    scope: Literal["read", "manage"]


class Health(ResponseBody, frozen=True):
    """The event loop runs."""

    alive: bool
    uptime: float


class Ready(ResponseBody, frozen=True):
    """Whether the agent does its work.

    - `reasons`: why the agent does not do its work.
    """

    ready: bool
    reasons: tuple[str, ...] = ()


class AgentStatus(ResponseBody, frozen=True):
    """The state of the agent.

    - `uptime`: seconds since the start.
    - `ready`: whether the agent does its work.
    - `reasons`: why the agent does not do its work.
    - `config`: path of the configuration file.
    - `store`: path of the store.
    - `relay_url`: URL of the agent's own relay.
    - `relays`: number of relays.
    - `tasks`: number of tasks of the scheduler.
    - `running`: tasks that run now.
    - `overdue`: tasks that are due, but wait for other tasks.
    - `restart_for`: changed keys of the configuration that need a restart.
    """

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


class Reloaded(ResponseBody, frozen=True):
    """The result of reading the configuration again.

    - `ok`: whether the new configuration is valid. If it is not, nothing changes.
    - `applied`: changed keys that are in force now.
    - `restart`: changed keys that need a restart.
    - `mistakes`: all mistakes in the configuration.
    """

    ok: bool
    applied: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()


class WatchPerson(ResponseBody, frozen=True):
    """The person in the question of a watch, or the author of the event in it.

    - `pubkey`: key of the person, in hex.
    - `name`: name in the stored profile. A name is no proof of identity.
    - `claimed`: true if only the link in the watch's target says whose event it is.
    """

    pubkey: str
    name: str | None = None
    claimed: bool = False


class WatchState(ResponseBody, frozen=True):
    """A watch and its current number.

    - `spec`: the settings of the watch.
    - `figure`: the number.
    - `updated_at`: time of the newest merge, whether or not a relay answered.
    - `answered_at`: newest time at which a relay that counts answered.
    - `asked`: number of relays.
    - `answered`: number of relays with an answer.
    - `changes`: change of the number over an hour (`1h`), a day (`1d`) and a week (`1w`), and since
      the first number (`first`) until that is a day old. If the number is an estimate, 0 means that
      no change is seen. Null means that the change is not known. A time before the first number is
      missing.
    - `spark`: recent numbers, for a small plot.
    - `since`: time of the first number.
    - `failing`: relays without an answer.
    - `within`: the number among the people in a web of trust.
    - `asserted`: numbers that the watch's providers assert (NIP-85). They are not part of `figure`.
    - `person`: the person in the question of the watch, or the author of the event in the
      question. It is null until the first number, and if no person is known.
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
    changes: dict[str, int | None] = field(default_factory=dict)
    spark: tuple[int, ...] = ()
    since: float | None = None
    failing: tuple[str, ...] = ()
    within: Within | None = None
    asserted: tuple[Asserted, ...] = ()
    person: WatchPerson | None = None


class Watches(ResponseBody, frozen=True):
    """All watches, in the order of their names."""

    watches: tuple[WatchState, ...]


class WatchHistory(ResponseBody, frozen=True):
    """The numbers of one watch, oldest first.

    - `asked_at`: time of the last request to a relay.
    """

    watch: str
    points: tuple[Point, ...]
    asked_at: int | None = None


class PastClaims(ResponseBody, frozen=True):
    """The answers of one relay to a watch: the last of each day, newest first."""

    watch: str
    relay: str
    claims: tuple[PastClaim, ...]


class WatchOverlaps(RelayOverlaps, ResponseBody, frozen=True):
    """How many people each pair of a watch's relays shares."""

    watch: str


class CountBody(RequestBody, frozen=True):
    """A question for one count.

    Give `query` and `target`, or give `filters`.

    - `query`: name of a canonical query.
    - `target`: whom or what to count: npub, nevent, naddr or hex.
    - `filters`: NIP-01 filters. An event counts if it matches one of them.
    - `relays`: relays to ask.
    - `timeout`: seconds for all relays.
    """

    query: QueryName | None = None
    target: Annotated[str, Meta(max_length=4096)] = ""
    filters: Annotated[tuple[FilterObject, ...], Meta(max_length=10)] = ()
    relays: Annotated[tuple[Url, ...], Meta(max_length=50)] = ()
    timeout: Annotated[float, Meta(gt=0, le=120)] = 15.0


class NameBody(RequestBody, frozen=True):
    """A name at a domain (NIP-05)."""

    name: Annotated[str, Meta(max_length=400, description="such as bob@example.com")]


class NamedKey(ResponseBody, frozen=True):
    """The public key that a domain gives now for a name."""

    name: str
    pubkey: str


class Sync(ResponseBody, frozen=True):
    """A sync and its newest run.

    - `outcome`: how the run ended.
    - `relays`: the result for each relay.
    """

    spec: SyncSpec
    origin: Origin
    running: bool = False
    started_at: float | None = None
    ended_at: float | None = None
    outcome: str = ""
    relays: tuple[RelayReport, ...] = ()


class Syncs(ResponseBody, frozen=True):
    """All syncs, in the order of their names."""

    syncs: tuple[Sync, ...]


class CoverageState(ResponseBody, frozen=True):
    """A coverage and its newest run.

    - `run`: the newest successful run.
    - `why`: why a later run failed.
    """

    spec: CoverageSpec
    running: bool = False
    why: str = ""
    run: CoverageRun | None = None


class Coverages(ResponseBody, frozen=True):
    """All coverages, in the order of their names."""

    coverages: tuple[CoverageState, ...]


class CoverageHistory(ResponseBody, frozen=True):
    """The runs of one coverage, oldest first."""

    coverage: str
    runs: tuple[CoverageRun, ...]


class RelayState(ResponseBody, frozen=True):
    """A relay, its connection and its statistics.

    - `success_rate`: share of successful connection attempts, from 0 to 1.
    - `attempts`: connection attempts.
    - `frames`: frames from the relay.
    - `rejected`: frames from the relay that are not a valid message.
    - `faults`: times that the client closed the connection because of an error of the relay.
    - `notices`: the newest NOTICE messages.
    - `tasks`: number of tasks that ask the relay.
    - `failing`: number of these tasks whose newest attempt failed.
    - `trusted`: whether the configuration trusts the relay.
    """

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
    """All relays of the agent."""

    relays: tuple[RelayState, ...]


class LogLine(ResponseBody, frozen=True):
    """One line of the log.

    - `n`: number of the line since the start of the agent.
    - `at`: time of the line.
    - `fields`: further values of the event.
    """

    n: int
    at: float
    level: str
    event: str
    fields: dict[str, Any] = field(default_factory=dict)


class LogTail(ResponseBody, frozen=True):
    """The newest lines of the log, oldest first."""

    lines: tuple[LogLine, ...]


class StateSnapshot(ResponseBody, frozen=True, tag="snapshot"):
    """The first message of a stream of events: the whole state.

    Only a delta with a higher `n` changes this state.

    - `run`: a random name for this run of the agent.
    """

    n: int
    run: str
    status: AgentStatus
    watches: tuple[WatchState, ...]
    syncs: tuple[Sync, ...]
    relays: tuple[RelayState, ...]
    links: tuple[CounterLink, ...] = ()
    coverages: tuple[CoverageState, ...] = ()


class Delta(ResponseBody, frozen=True, tag="delta"):
    """One change of the state.

    A value that is not null replaces the known value with the same name or URL.

    - `stream`: counters of this stream have changed. Request the counters that you show.
    - `removed_watch`: name of a removed watch.
    - `removed_sync`: name of a removed sync.
    - `removed_relay`: URL of a removed relay.
    - `removed_link`: name of a removed link.
    - `removed_coverage`: name of a removed coverage.
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
    """The last message of a stream of events.

    Connect again with the last id that you have.

    - `reason`: why the stream ends.
    """

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
