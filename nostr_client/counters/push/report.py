"""The options of a push, and its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.counters import rules
from nostr_client.counters.config import SourceConfig, StreamConfig, TransformConfig
from nostr_client.counters.subjects import check_patterns, is_subject
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from nostr_client.counters.base import Entry


PREFIX = "count"
"""The first token of every subject that agents push to."""


class PushOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Whose counters go where. `agent` is one token, this agent's for ever and nobody else's."""

    agent: str
    into: str
    patterns: tuple[str, ...] = (">",)
    prefix: str = PREFIX
    total: str = ""
    """The stream that sums up all agents, "" for none: checked for source maps that grow full."""

    at_once: int = 32
    """Counters pushed at the same time; of one counter never more than one push."""

    attempts: int = 3
    """How often one round tries a counter that is in doubt; the next round goes on."""

    most_subjects: int = 10_000
    """Counters that are pushed; what is above that is left out and reported."""

    def __post_init__(self) -> None:
        if not is_subject(self.agent) or "." in self.agent:
            raise InvalidInput(f"an agent is one token of a subject, not {self.agent!r}")
        if not is_subject(self.prefix):
            raise InvalidInput(f"not the beginning of a subject: {self.prefix!r}")
        check_patterns(self.patterns)
        if min(self.at_once, self.attempts, self.most_subjects) < 1:
            raise InvalidInput("at_once, attempts and most_subjects are at least 1")

    def target(self, subject: str) -> str:
        """Where a local counter is pushed to."""
        return f"{self.prefix}.{self.agent}.{subject}"

    @property
    def own(self) -> str:
        """The pattern of all that this agent writes there."""
        return f"{self.prefix}.{self.agent}.>"


class Stopped(msgspec.Struct, frozen=True):
    """A counter that waits for a confirmation: it is `there` on the server, and `here` is less."""

    subject: str
    there: int
    here: int


class PushReport(msgspec.Struct, frozen=True, kw_only=True):
    """One round: of `subjects` counters, `even` are there as they are here.

    `sent`: pushes that were counted. `doubtful`: subject and why, of what is tried again.
    `refused`: subject and what the server said. `notes`: what somebody should know, e.g. of a
    source map that grows full. `seq` is the local stream's last sequence when the values were read.
    """

    subjects: int
    even: int
    sent: int = 0
    doubtful: tuple[tuple[str, str], ...] = ()
    stopped: tuple[Stopped, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    left_out: int = 0
    seq: int = 0
    last_subject: str = ""
    last_value: int | None = None

    @property
    def settled(self) -> bool:
        """Whether everything that is pushed is there as it was here."""
        return self.even == self.subjects


FULL: Final = 0.8
"""Of the 64 KB that a message's headers may have: beyond that a source map is reported."""


def own_stream(name: str, prefix: str = PREFIX) -> StreamConfig:
    """The stream that all agents push to, each under its own token."""
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
    """A stream that sums up all agents: `count.*.plays.a` of every one becomes `total.plays.a`.

    Its source map has an entry for each agent and stalls at 64 KB, some 2,250 short subjects.
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
    """How much of a message's headers a counter takes; above 1 a server's source stalls."""
    return rules.header_bytes(entry.headers) / rules.MAX_HEADER_BYTES


def full_note(entry: Entry) -> str | None:
    """What to say of a counter whose source map grows full, or None."""
    used = fullness(entry)
    if used < FULL:
        return None
    entries = sum(len(subjects) for subjects in entry.sources.values())
    return (
        f"the source map of {entry.subject} holds {entries:,} entries and {used:.0%} of 64 KB,"
        " where its source stalls: sum up groups of agents in tiers before that"
    )
