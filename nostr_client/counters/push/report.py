"""Define the options and the report of a push, and the configurations of the remote streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.codecs.display import plural
from nostr_client.counters import rules
from nostr_client.counters.config import SourceConfig, StreamConfig, TransformConfig
from nostr_client.counters.subjects import check_patterns, is_subject
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from nostr_client.counters.base import Entry


PREFIX = "count"
"""The first token of every subject to which agents push."""


class PushOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Sets which counters a Pusher pushes, and to which subjects."""

    agent: str
    """The token of this agent in subjects. The token must be unique and must never change."""
    into: str
    """The name of the remote stream."""
    patterns: tuple[str, ...] = (">",)
    """Patterns of the local counters that the Pusher pushes."""
    prefix: str = PREFIX
    """The first token of the remote subjects."""
    total: str = ""
    """The name of the stream that adds up all agents, or "". The Pusher reports source maps of this
    stream that are nearly full."""

    at_once: int = 32
    """Most counters that the Pusher pushes at the same time. Each counter has one push at a time.
    """

    attempts: int = 3
    """Most attempts for one counter in a round. The next round tries again."""

    most_subjects: int = 10_000
    """Most counters that the Pusher pushes. The report has the number of further counters."""

    def __post_init__(self) -> None:
        if not is_subject(self.agent) or "." in self.agent:
            raise InvalidInput(f"an agent is one token of a subject, not {self.agent!r}")
        if not is_subject(self.prefix):
            raise InvalidInput(f"not the beginning of a subject: {self.prefix!r}")
        check_patterns(self.patterns)
        if min(self.at_once, self.attempts, self.most_subjects) < 1:
            raise InvalidInput("at_once, attempts and most_subjects are at least 1")

    def target(self, subject: str) -> str:
        """Return the remote subject of a local counter."""
        return f"{self.prefix}.{self.agent}.{subject}"

    @property
    def own(self) -> str:
        """The pattern of all remote subjects of this agent."""
        return f"{self.prefix}.{self.agent}.>"


class Stopped(msgspec.Struct, frozen=True):
    """A counter that waits for a confirmation.

    The remote value `there` is larger than the local value `here`.
    """

    subject: str
    there: int
    here: int


class PushReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one round of pushes."""

    subjects: int
    """Number of counters."""
    even: int
    """Counters whose remote value equals the local value."""
    sent: int = 0
    """Pushes that the remote stream counted."""
    doubtful: tuple[tuple[str, str], ...] = ()
    """Subjects without a known result, each with a reason. The next round tries again."""
    stopped: tuple[Stopped, ...] = ()
    """Counters that wait for a confirmation."""
    refused: tuple[tuple[str, str], ...] = ()
    """Subjects that the server refused, each with the server's text."""
    notes: tuple[str, ...] = ()
    """Warnings, for example about a source map that is nearly full."""
    left_out: int = 0
    """Counters above `most_subjects`, or with a subject that is too long."""
    seq: int = 0
    """The last sequence of the local stream when the round read the values."""
    last_subject: str = ""
    """The last remote subject that the round pushed."""
    last_value: int | None = None
    """The value of the counter `last_subject`."""

    @property
    def settled(self) -> bool:
        """Whether every remote value equals the local value."""
        return self.even == self.subjects


FULL: Final = 0.8
"""Share of the 64 KB of a message's headers above which a source map is reported."""


def own_stream(name: str, prefix: str = PREFIX) -> StreamConfig:
    """Return the configuration of the stream to which all agents push, each under its own token."""
    return StreamConfig(
        name=name,
        subjects=(f"{prefix}.*.>",),
        allow_msg_counter=True,
        allow_direct=True,
        max_msgs_per_subject=100,
        description="what agents have counted, each for itself",
    )


def aggregate_stream(
    name: str, source: str, prefix: str = PREFIX, dest: str = "total.>"
) -> StreamConfig:
    """Return the configuration of a stream that sums up all agents.

    `count.*.plays.a` of all agents becomes `total.plays.a`. The source map has an entry for each
    agent. It stalls at 64 KB, about 2,250 short subjects.
    """
    transform = TransformConfig(f"{prefix}.*.>", dest)
    return StreamConfig(
        name=name,
        allow_msg_counter=True,
        allow_direct=True,
        max_msgs_per_subject=100,
        sources=(SourceConfig(source, subject_transforms=(transform,)),),
        description=f"the sum over all agents of {source}",
    )


def fullness(entry: Entry) -> float:
    """Return the used share of a message's headers. Above 1, the server's source stalls."""
    return rules.header_bytes(entry.headers) / rules.MAX_HEADER_BYTES


def full_note(entry: Entry) -> str | None:
    """Return a note about a counter whose source map grows full, or None."""
    used = fullness(entry)
    if used < FULL:
        return None
    number = sum(len(subjects) for subjects in entry.sources.values())
    entries = plural(number, "entry", "entries")
    return (
        f"the source map of {entry.subject} holds {entries} and {used:.0%} of 64 KB,"
        " where its source stalls: sum up groups of agents in tiers before that"
    )
