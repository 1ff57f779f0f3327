"""Declares the base classes of the API's types, and the types of counters and the store.

Counters are decimal strings, since they have no largest value.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from agent.specs import RetentionRule
from nostr_client.assertions.report import PublishReport
from nostr_client.counters.lineage import Arrival
from nostr_client.counters.shown import Counter, Integer
from nostr_client.errors import NostrTallyError
from nostr_client.store.base import Difference, HotTarget, IndexStats, StoreStats

Increment = Annotated[
    str, Meta(pattern=r"^[+-]?[0-9]+(?!\n)$", max_length=4096, description="an integer of any size")
]
Subject = Annotated[str, Meta(min_length=1, max_length=256)]


class ResponseBody(msgspec.Struct, frozen=True, kw_only=True):
    """The base class of all answers of the API."""


class RequestBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base class of all values that the API accepts. The API refuses unknown fields."""


class Problem(ResponseBody, frozen=True):
    """Why the agent refuses a request.

    - `code`: a stable word for programs.
    - `message`: a sentence for people.
    """

    code: str
    message: str


class ApiRefusal(NostrTallyError):
    """A request that cannot be done: an HTTP status, a stable word, and why."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def not_found(what: str) -> ApiRefusal:
    """There is no such thing."""
    return ApiRefusal(404, "not_found", f"there is no {what}")


def read_only(what: str) -> ApiRefusal:
    """It stands in the file, which the API never writes."""
    return ApiRefusal(409, "read_only", f"{what} stands in the configuration file: change it there")


class Done(ResponseBody, frozen=True):
    """The agent has done the request, or has started it."""

    done: bool = True


# Counters.


class Stream(ResponseBody, frozen=True):
    """A stream of counters.

    - `messages`: number of stored messages.
    - `counters`: number of counters.
    - `last_seq`: sequence of the last message.
    """

    name: str
    subjects: tuple[str, ...]
    messages: int
    counters: int
    last_seq: int
    counts: Annotated[bool, Meta(description="whether the stream has counters")] = True
    targets: Annotated[tuple[str, ...], Meta(description="patterns of its sources' subjects")] = ()


class StreamList(ResponseBody, frozen=True):
    """All streams, in the order of their names."""

    streams: tuple[Stream, ...]


class CounterList(ResponseBody, frozen=True):
    """Counters of one stream.

    - `more`: whether the limit left counters out.
    """

    stream: str
    counters: tuple[Counter, ...]
    more: bool = False


class CounterAdded(ResponseBody, frozen=True):
    """The result of adding a number to a counter.

    - `value`: the new value. It is null if the stream counted the id before.
    - `duplicate`: whether the stream counted the id before.
    """

    seq: int
    value: Integer | None
    duplicate: bool = False


class Removed(ResponseBody, frozen=True):
    """The result of removing counters.

    - `messages`: number of removed messages.
    """

    messages: int


class Messages(ResponseBody, frozen=True):
    """Stored messages of a stream after a sequence, oldest first.

    - `store`: id of the store.
    - `epoch`: id of this stream. A new stream with the same name has a new id.
    - `more`: whether the limit left messages out.
    - `runs`: newest runs of the agent, each with its first sequence. If a reader read beyond the
      end of an older run, the agent has lost messages, for example after a restored backup.
    - `lineage`: paths over which counts reach this stream. Each begins at the stream and ends at
      the farthest source, as `stream@store`.
    """

    store: str
    epoch: str
    stream: str
    first_seq: int
    last_seq: int
    messages: tuple[Arrival, ...]
    more: bool = False
    runs: tuple[tuple[str, int], ...] = ()
    lineage: tuple[tuple[str, ...], ...] = ()


class CounterLink(ResponseBody, frozen=True):
    """A path over which counters travel between this agent and another place.

    - `state`: `waiting`: not asked yet. `ok`: up to date. `behind`: further messages wait.
      `failing`: the agent tries again. `stopped`: somebody must change or confirm something.
    - `why`: the reason for the state.
    - `path`: the streams of a cycle or of a double path, if the agent refuses the link for it.
    - `lag`: what is still missing. The unit is messages (agent), counters (nats) or seconds
      (nostr).
    - `subjects`: counters that the link has carried.
    - `problems`: further problems.
    """

    name: str
    direction: Literal["in", "out"]
    via: Literal["agent", "nostr", "nats"]
    stream: str
    peer: str
    state: Literal["waiting", "ok", "behind", "failing", "stopped"] = "waiting"
    why: str = ""
    path: tuple[str, ...] = ()
    confirmable: Annotated[
        bool, Meta(description="whether POST /v1/links/{name}/confirm continues the link")
    ] = False
    asked_at: float | None = None
    done_at: float | None = None
    changed_at: float | None = None
    seq: int = 0
    last_seq: int = 0
    lag: float | None = None
    subjects: int = 0
    last_subject: str = ""
    last_value: Integer | None = None
    moved: Annotated[int, Meta(description="number of messages that the link has carried")] = 0
    gaps: Annotated[int, Meta(description="how often the link missed removed messages")] = 0
    lost: Annotated[int, Meta(description="missed messages; their sum still counts")] = 0
    parked: Annotated[int, Meta(description="subjects with an error, kept for later")] = 0
    left_out: Annotated[int, Meta(description="subjects that the source must not send")] = 0
    problems: tuple[str, ...] = ()


class CounterLinks(ResponseBody, frozen=True):
    """All links, in the order of their names."""

    links: tuple[CounterLink, ...]


# The store.


class HotTargets(ResponseBody, frozen=True):
    """The targets with the most events, in descending order."""

    targets: tuple[HotTarget, ...]


class IndexMark(ResponseBody, frozen=True):
    """The position in the store at which a bulk rebuild begins.

    The rebuild writes both numbers into the table `about` of its file.
    """

    next_seq: int
    removals: int


class Store(StoreStats, ResponseBody, frozen=True):
    """The totals of the store.

    - `index`: the derived tables, or null if the store has none.
    - `tags`: rows of the tag index.
    - `kinds`: number of events of the hundred most frequent kinds.
    - `deleted_ids`: ids that their authors deleted.
    - `deleted_addresses`: addresses that their authors deleted.
    - `vanished`: keys that asked to vanish (NIP-62).
    - `expiring`: events with an expiration time.
    - `future`: events with a time in the future.
    - `bytes`: size of the file and its log.
    - `search`: whether the store answers `search` (NIP-50).
    """

    path: str
    index: IndexStats | None = None


class Retention(ResponseBody, frozen=True):
    """The rules that remove old events, and the result of the newest run.

    - `ran_at`: time of the newest run.
    - `removed`: events that the newest run removed.
    - `removed_total`: events that all runs removed.
    """

    rules: tuple[RetentionRule, ...]
    ran_at: float | None = None
    removed: int = 0
    removed_total: int = 0


class Assertions(ResponseBody, frozen=True):
    """The publication of cards (NIP-85) by one key.

    - `on`: whether the configuration publishes cards.
    - `pubkey`: the key.
    - `running`: whether a run has begun and not ended.
    - `ran_at`: when the newest run began.
    - `why`: why the newest run that ended published nothing, or "".
    - `report`: result of the newest run that ended; null before the first run.
    """

    on: bool
    pubkey: str = ""
    relays: tuple[str, ...] = ()
    running: bool = False
    ran_at: float | None = None
    why: str = ""
    report: PublishReport | None = None


HEAP: Final = r"^([1-9][0-9]{0,3}g|(51[2-9]|5[2-9][0-9]|[6-9][0-9]{2}|[1-9][0-9]{3})m)(?!\n)$"
"""Sizes of memory that Spark can start with: 512m and more."""


class RebuildBody(RequestBody, frozen=True):
    """Settings of a bulk rebuild of the derived tables.

    - `check`: compare the derived tables with the events, without a rebuild.
    - `repair`: compare, and correct the differences.
    - `memory`: memory for Spark.
    """

    engine: Literal["auto", "spark", "reference"] = "auto"
    check: bool = False
    repair: bool = False
    memory: Annotated[str, Meta(pattern=HEAP)] = "4g"


class RebuildStage(msgspec.Struct, frozen=True):
    """One stage of a rebuild.

    - `total`: amount of work; 0 if unknown.
    """

    name: str
    state: Literal["started", "running", "done", "skipped"]
    done: int = 0
    total: int = 0
    rows: int = 0
    seconds: float = 0.0


class Rebuild(ResponseBody, frozen=True):
    """The newest bulk rebuild of the derived tables.

    - `outcome`: empty during a rebuild and before the first rebuild.
    - `message`: the result as a sentence.
    - `engine`: the engine of the rebuild.
    - `why`: why the agent chose this engine.
    - `rows`: number of rows in each table.
    - `generation`: number of the new derived tables.
    - `found`: number of differences; null if the run compared nothing.
    - `differences`: the first differences.
    - `repaired`: number of corrected rows in each table.
    """

    running: bool = False
    outcome: Literal["", "done", "failed", "cancelled"] = ""
    message: str = ""
    engine: str = ""
    why: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    stages: tuple[RebuildStage, ...] = ()
    rows: dict[str, int] = msgspec.field(default_factory=dict)
    generation: int | None = None
    found: int | None = None
    differences: tuple[Difference, ...] = ()
    repaired: dict[str, int] = msgspec.field(default_factory=dict)
