"""What the API's types are made of, and all of them that are about counters.

Counters are decimal strings, since they have no largest value.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Integer = Annotated[str, Meta(pattern=r"^-?[0-9]+(?!\n)$", description="an integer of any size")]
Increment = Annotated[
    str, Meta(pattern=r"^[+-]?[0-9]+(?!\n)$", max_length=4096, description="an integer of any size")
]
Subject = Annotated[str, Meta(min_length=1, max_length=256)]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Anything that the API says."""


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Anything that is told to the API; unknown fields are refused."""


class Stream(Answer, frozen=True):
    """A stream of counters."""

    name: str
    subjects: tuple[str, ...]
    messages: int
    counters: int
    last_seq: int


class Streams(Answer, frozen=True):
    """All streams, by name."""

    streams: tuple[Stream, ...]


class Counter(Answer, frozen=True):
    """One counter: its value, and what other streams brought to it."""

    subject: str
    value: Integer
    seq: int
    ts: float
    incr: Integer | None = None
    local: Integer = "0"
    sources: dict[str, dict[str, Integer]] = {}


class Counters(Answer, frozen=True):
    """Counters of one stream; `more` is true when the limit left some out."""

    stream: str
    counters: tuple[Counter, ...]
    more: bool = False


class AddBody(Body, frozen=True):
    """Add to a counter. The same `id` again, within the stream's window, adds nothing."""

    subject: Subject
    add: Increment
    id: Annotated[str, Meta(max_length=256)] = ""


class Added(Answer, frozen=True):
    """What was added; `value` is null where the id says that it was counted before."""

    seq: int
    value: Integer | None
    duplicate: bool = False


class SubjectBody(Body, frozen=True):
    """Which counter."""

    subject: Subject


class Audit(Answer, frozen=True):
    """A counter added up anew from its kept messages; `ok` is false where they do not fit."""

    subject: str
    value: Integer
    ok: bool
    problems: tuple[str, ...] = ()


Told = Annotated[str, Meta(description="an integer of any size; whoever reads it checks that")]


class Raw(Answer, frozen=True):
    """A message of a stream, as others that source it need it; `value` null: not a counter's.

    What is no integer is one bad message, not an answer that cannot be read.
    """

    seq: int
    subject: str
    value: Told | None
    ts: float
    incr: Told | None = None


class Messages(Answer, frozen=True):
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
    messages: tuple[Raw, ...]
    more: bool = False
    runs: tuple[tuple[str, int], ...] = ()
    lineage: tuple[tuple[str, ...], ...] = ()


class CounterLink(Answer, frozen=True):
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


class CounterLinks(Answer, frozen=True):
    """All links, by name."""

    links: tuple[CounterLink, ...]
