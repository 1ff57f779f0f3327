"""The streams that a push needs elsewhere, and how full a source map is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.counters import rules
from nostr_client.counters.config import SourceConfig, StreamConfig, TransformConfig
from nostr_client.counters.push.report import PREFIX

if TYPE_CHECKING:
    from nostr_client.counters.base import Entry

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
