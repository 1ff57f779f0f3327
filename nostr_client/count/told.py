"""What one relay answered to a count, and what all say: a leaf, as the agent's API shows it too."""

from __future__ import annotations

from typing import Any

import msgspec

from nostr_client.codecs.display import said


class Told(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is said of one relay's answer wherever it is shown.

    `relay` is spelled as the user wrote it. `count` counts events. Times are Unix seconds,
    `latency_ms` the milliseconds from asking to the answer. `last_read` is the time up to which the
    events of the relay are known, None unless they were read to the end.
    """

    relay: str
    status: str
    method: str | None = None
    count: int | None = None
    approximate: bool | None = None
    limited: bool | None = None
    events_read: int = 0
    bytes_read: int = 0
    last_read: int | None = None
    asked_at: float | None = None
    answered_at: float | None = None
    latency_ms: float | None = None
    warnings: tuple[str, ...] = ()


class Figure(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A merged number and how far it can be trusted.

    The truth over the relays that answered lies from `low` to `high`: by proof, 97 times in 100
    where something was read in an earlier round and may be gone, or 95 times in 100 where a relay's
    registers were used. `high` is None where nothing bounds it. `lower_bound` says that something
    may be missing, so that the truth may be larger than `value`. `as_said` says that nothing is
    known to be missing from what relays say, and that the number rests on it: the count of one
    relay alone, or ids that relays name. An exact figure that is `as_said` counts what relays name,
    all of it borne out.
    """

    value: int
    low: int
    high: int | None
    exact: bool = False
    lower_bound: bool = False
    as_said: bool = False

    @classmethod
    def exactly(cls, value: int, *, as_said: bool = False) -> Figure:
        """Make the figure of a number that is known."""
        return cls(value=value, low=value, high=value, exact=True, as_said=as_said)

    @classmethod
    def at_least(cls, value: int, low: int | None = None) -> Figure:
        """Make the figure of a number that something is missing from."""
        return cls(value=value, low=value if low is None else low, high=None, lower_bound=True)

    def or_word(self, word: Figure | None) -> Figure:
        """Make the figure of a known part beside a count that may be larger."""
        if word is None:
            return Figure.at_least(self.value, self.low)
        return Figure.at_least(max(self.value, word.value), max(self.low, word.low))

    def __str__(self) -> str:
        return said(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as JSON values."""
        return msgspec.structs.asdict(self)
