"""Counters as they are shown: numbers as text, as JSON readers lose digits of long ones.

The command line prints these values as JSON, and the agent's API answers with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from nostr_client.counters.audit import Recount
    from nostr_client.counters.base import Entry

Integer = Annotated[str, Meta(pattern=r"^-?[0-9]+(?!\n)$", description="an integer of any size")]


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """One counter: its value, and what other streams brought to it; `ts` in Unix seconds."""

    subject: str
    value: Integer
    seq: int
    ts: float
    incr: Integer | None = None
    local: Integer = "0"
    sources: dict[str, dict[str, Integer]] = {}


class AuditBreak(msgspec.Struct, frozen=True, kw_only=True):
    """A message whose value does not follow from the one kept before it."""

    seq: int
    expected: Integer
    found: Integer


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """A counter added up again from its kept messages.

    `base` is what the oldest kept message stands on, `total` the sum of the kept increments.
    `holds` is false where they do not fit; `breaks` names the first places.
    """

    subject: str
    value: Integer
    base: Integer
    total: Integer
    messages: int
    holds: bool
    breaks: tuple[AuditBreak, ...] = ()


MOST_BREAKS = 100
"""Places that an audit names."""


def counter(entry: Entry) -> Counter:
    """An entry as it is shown."""
    from nostr_client.counters.rules import format_integer

    sources = {
        stream: {subject: format_integer(value) for subject, value in subjects.items()}
        for stream, subjects in entry.sources.items()
    }
    return Counter(
        subject=entry.subject,
        value=format_integer(entry.value),
        seq=entry.seq,
        ts=entry.ts / 1e9,
        incr=None if entry.incr is None else format_integer(entry.incr),
        local=format_integer(entry.local),
        sources=sources,
    )


def audit(subject: str, found: Recount) -> Audit:
    """What a recount found as it is shown."""
    from nostr_client.counters.rules import format_integer

    return Audit(
        subject=subject,
        value=format_integer(found.value),
        base=format_integer(found.base),
        total=format_integer(found.total),
        messages=found.messages,
        holds=found.holds,
        breaks=tuple(
            AuditBreak(
                seq=one.seq, expected=format_integer(one.expected), found=format_integer(one.found)
            )
            for one in found.breaks[:MOST_BREAKS]
        ),
    )
