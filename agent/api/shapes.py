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
    """Anything that the API says."""


class RequestBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that the API accepts; unknown fields are refused."""


class Problem(ResponseBody, frozen=True):
    """Why a request was not done; `code` is one word, stable."""

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
    """It is done, or asked for."""

    done: bool = True


# Counters.


class Stream(ResponseBody, frozen=True):
    """A stream of counters."""

    name: str
    subjects: tuple[str, ...]
    messages: int
    counters: int
    last_seq: int
    counts: Annotated[bool, Meta(description="whether it keeps counters")] = True
    targets: Annotated[tuple[str, ...], Meta(description="patterns of what its sources bring")] = ()


class StreamList(ResponseBody, frozen=True):
    """All streams, by name."""

    streams: tuple[Stream, ...]


class CounterList(ResponseBody, frozen=True):
    """Counters of one stream; `more` is true when the limit left some out."""

    stream: str
    counters: tuple[Counter, ...]
    more: bool = False


class CounterAdded(ResponseBody, frozen=True):
    """What was added; `value` is null where the id says that it was counted before."""

    seq: int
    value: Integer | None
    duplicate: bool = False


class Removed(ResponseBody, frozen=True):
    """How many kept messages of counters were removed."""

    messages: int


class Messages(ResponseBody, frozen=True):
    """The kept messages of a stream after a sequence, oldest first, and which stream it is.

    `runs`: the newest runs of the agent, each with the sequence at which it began: who has read
    further within an older run has read what a backup took away. `lineage`: the ways that counts
    take into this stream, each from the stream itself to its far end, as `stream@store`.
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
    """One way that counts take between this agent and another place, and how it does.

    `state`: waiting (not asked yet), ok, behind (more is there than was taken), failing (tried
    again), stopped (only a change or a confirmation brings it on; `why` says which). `lag` is in
    messages (agent), counters (nats), or seconds between the newest event and the one taken
    (nostr). `path` is the cycle or the diamond of a refusal.
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
        bool, Meta(description="POST /v1/links/{name}/confirm lets it go on")
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
    moved: Annotated[int, Meta(description="messages taken or sent, in all")] = 0
    gaps: Annotated[int, Meta(description="places where messages were gone before they came")] = 0
    lost: Annotated[int, Meta(description="messages that were gone; their sum is not")] = 0
    parked: Annotated[int, Meta(description="subjects that could not be taken, and are kept")] = 0
    left_out: Annotated[int, Meta(description="subjects that the source may not bring")] = 0
    problems: tuple[str, ...] = ()


class CounterLinks(ResponseBody, frozen=True):
    """All links, by name."""

    links: tuple[CounterLink, ...]


# The store.


class HotTargets(ResponseBody, frozen=True):
    """The targets with most events, those first."""

    targets: tuple[HotTarget, ...]


class IndexMark(ResponseBody, frozen=True):
    """Where a bulk rebuild begins: what it is to write into the `about` of its file."""

    next_seq: int
    removals: int


class Store(StoreStats, ResponseBody, frozen=True):
    """Totals of the store, with its hundred commonest kinds; `index` is null where none is kept."""

    path: str
    index: IndexStats | None = None


class Retention(ResponseBody, frozen=True):
    """What is removed when it gets old, and what the newest run removed."""

    rules: tuple[RetentionRule, ...]
    ran_at: float | None = None
    removed: int = 0
    removed_total: int = 0


class Assertions(ResponseBody, frozen=True):
    """What became of the cards (NIP-85) of one key; `on` is false where none are published.

    `why`: why the newest run published nothing, or "". `report`: what it did, and what each relay
    took; null before the first run.
    """

    on: bool
    pubkey: str = ""
    relays: tuple[str, ...] = ()
    ran_at: float | None = None
    why: str = ""
    report: PublishReport | None = None


HEAP: Final = r"^([1-9][0-9]{0,3}g|(51[2-9]|5[2-9][0-9]|[6-9][0-9]{2}|[1-9][0-9]{3})m)(?!\n)$"
"""Sizes of memory that Spark can start with: 512m and more."""


class RebuildBody(RequestBody, frozen=True):
    """Rebuild the derived tables; `check` compares only, `repair` compares and repairs."""

    engine: Literal["auto", "spark", "reference"] = "auto"
    check: bool = False
    repair: bool = False
    memory: Annotated[str, Meta(pattern=HEAP)] = "4g"


class RebuildStage(msgspec.Struct, frozen=True):
    """One stage of a rebuild; `total` is 0 where it is not known."""

    name: str
    state: Literal["started", "running", "done", "skipped"]
    done: int = 0
    total: int = 0
    rows: int = 0
    seconds: float = 0.0


class Rebuild(ResponseBody, frozen=True):
    """The newest rebuild; `outcome` is empty while it runs, and before the first one.

    `found` counts all differences, null where nothing was compared.
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
