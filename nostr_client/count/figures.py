"""What one relay answered to a count, and what all say: a leaf, as the agent's API shows it too."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from nostr_client.codecs.display import plural, said

LARGEST: Final = 2**63 - 1
"""The largest number that the store and JSON readers take; no honest count comes near it."""


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

    @property
    def storable(self) -> Figure:
        """The figure with nothing above LARGEST."""
        if max(self.value, self.low, self.high or 0) <= LARGEST:
            return self
        return msgspec.structs.replace(
            self,
            value=min(self.value, LARGEST),
            low=min(self.low, LARGEST),
            high=None if self.high is None else min(self.high, LARGEST),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as JSON values."""
        return msgspec.structs.asdict(self)


class WeighedClaim(Told, frozen=True, kw_only=True):
    """What one relay said, and what became of it in the number."""

    estimate: float | None = None
    used: tuple[str, ...] = ()
    share: float | None = None
    reasons: tuple[str, ...] = ()
    excluded: bool = False


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """A number over many relays, and the claims that it is made of."""

    query: str
    target: str | None
    filters: tuple[dict[str, Any], ...]
    unit: Annotated[Literal["distinct_authors", "events"], Meta(description="what `figure` counts")]
    figure: Figure | None
    authors: Figure | None
    events: Figure | None
    corroborated: Figure | None
    amount: Figure | None
    relays: tuple[WeighedClaim, ...]

    def __str__(self) -> str:
        name = "matching" if self.query == "filter" else self.query
        answers = sum(one.status == "ok" for one in self.relays)
        answered = f"{answers} of {plural(len(self.relays), 'relay')} answered"
        if self.figure is None:
            return f"{name}: not known ({answered})"
        unit = "events" if self.unit == "events" else "distinct authors"
        return f"{name}: {said(self.figure)} {unit} ({answered})"
