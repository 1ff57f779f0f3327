"""Define counters as the command line and the API show them.

Numbers are text, because JSON readers lose digits of long numbers. The command line prints these
values as JSON, and the agent's API answers with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from nostr_client.codecs.display import plural

if TYPE_CHECKING:
    from nostr_client.counters.audit import Recount
    from nostr_client.counters.base import Entry

Integer = Annotated[str, Meta(pattern=r"^-?[0-9]+(?!\n)$", description="an integer of any size")]


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """The value of one counter.

    - `seq`: sequence of its newest message.
    - `ts`: time of this message, in Unix seconds.
    - `incr`: increment in this message.
    - `local`: the part of the value that this stream itself counted.
    - `sources`: the parts from other streams, by stream and subject.
    """

    subject: str
    value: Integer
    seq: int
    ts: float
    incr: Integer | None = None
    local: Integer = "0"
    sources: dict[str, dict[str, Integer]] = {}


class AuditBreak(msgspec.Struct, frozen=True, kw_only=True):
    """A message whose value is not the sum of the message before it and its increment."""

    seq: int
    expected: Integer
    found: Integer


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """The sum of a counter's stored messages.

    - `base`: value before the oldest stored message.
    - `total`: sum of the stored increments.
    - `messages`: number of stored messages.
    - `holds`: whether the values fit together.
    - `breaks`: the first messages whose values do not fit.
    """

    subject: str
    value: Integer
    base: Integer
    total: Integer
    messages: int
    holds: bool
    breaks: tuple[AuditBreak, ...] = ()


class CounterMove(msgspec.Struct, frozen=True, kw_only=True):
    """A counter that changed since a time.

    - `now`: its value now, or null if the stored value is not readable.
    - `then`: its value at that time. It is null for a new counter, and if the older changes are not
      stored.
    - `is_new`: whether the counter did not exist at that time.
    """

    subject: str
    now: Integer | None
    then: Integer | None = None
    is_new: bool = False

    @property
    def line(self) -> str:
        """Return both values in one sentence."""
        if self.now is None:
            return f"{self.subject}: its value cannot be read"
        now = f"{self.subject}: {_grouped(self.now)}"
        if self.is_new:
            return f"{now}, a new counter"
        if self.then is None:
            return f"{now}; not known then, as its older changes are not stored"
        return f"{now}; {_grouped(self.then)} then{_difference(self.now, self.then)}"


class StreamMoves(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of a stream of counters since a time.

    - `counters`: number of counters.
    - `changed`: number of changed counters.
    - `moves`: the counters that changed most.
    """

    stream: str
    counters: int
    changed: int
    moves: tuple[CounterMove, ...] = ()

    @property
    def lines(self) -> list[str]:
        """Return the changes, one sentence a line."""
        if not self.changed:
            return [f"no change in {plural(self.counters, 'counter')}"]
        more = self.changed - len(self.moves)
        rest = [f"and {plural(more, 'other counter')} changed"] if more else []
        return [one.line for one in self.moves] + rest


MOST_DIGITS = 40
"""Most digits of a value in a sentence. For a longer value, a sentence has the number of digits."""


def _grouped(value: str) -> str:
    """Return an integer in groups of three digits."""
    if len(value) > MOST_DIGITS:
        return f"a number of {len(value.lstrip('-')):,} digits"
    return f"{int(value):,}"


def _difference(now: str, then: str) -> str:
    return "" if max(len(now), len(then)) > MOST_DIGITS else f" ({int(now) - int(then):+,})"


MOST_BREAKS = 100
"""Most breaks that an audit names."""


def counter(entry: Entry) -> Counter:
    """Return an entry in the form that is shown."""
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
    """Return the result of a recount in the form that is shown."""
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
