"""The values of one relay's answer and of the merged number; without imports, as the agent's API
has them too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from nostr_client.codecs.display import plural, said, unit_noun
from nostr_client.codecs.profiles import person

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST: Final = 2**63 - 1
"""The largest number that the store and JSON readers take; no honest count comes near it."""


class ClaimSummary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of one relay's answer that are shown everywhere."""

    relay: str
    """The relay as the user wrote it."""
    status: str
    method: str | None = None
    """Where the number comes from: `count`, `hll`, `events` or `negentropy`."""
    count: int | None = None
    """The number of events."""
    approximate: bool | None = None
    """True if the count may be inexact."""
    limited: bool | None = None
    """True if something is known to be missing from the count."""
    events_read: int = 0
    """How many events the client read."""
    bytes_read: int = 0
    """How many bytes the client received while it read events."""
    last_read: int | None = None
    """The Unix time up to which the relay's events are known. None if the client did not read all
    of them."""
    asked_at: float | None = None
    """The Unix time of the request."""
    answered_at: float | None = None
    """The Unix time of the answer."""
    latency_ms: float | None = None
    """Milliseconds from the request to the answer."""
    warnings: tuple[str, ...] = ()
    """Sentences about doubts in the answer."""


class Figure(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A merged number with an interval around it.

    `low` and `high` bound the true number over the relays that answered. How sure the interval is
    depends on the source of the number:

    - Events that were read in this round prove the interval.
    - If events of an earlier round may be gone, the interval is right 97 times in 100.
    - If the number uses registers, the interval is right 95 times in 100.

    The fields say more about the number:

    - `high`: the upper end, or None if nothing bounds the number.
    - `exact`: True if the number is known and not estimated.
    - `lower_bound`: True if something may be missing, so the true number can be larger than
      `value`.
    - `as_said`: True if the number rests on what relays claim: one relay's count, or ids without
      their events. Nothing is missing from the relays' answers. If `exact` is also True, the client
      confirmed every id.
    """

    value: int
    low: int
    high: int | None
    exact: bool = False
    lower_bound: bool = False
    as_said: bool = False

    @classmethod
    def exactly(cls, value: int, *, as_said: bool = False) -> Figure:
        """Make the figure of a known number."""
        return cls(value=value, low=value, high=value, exact=True, as_said=as_said)

    @classmethod
    def at_least(cls, value: int, low: int | None = None) -> Figure:
        """Make the figure of a number from which something is missing."""
        return cls(value=value, low=value if low is None else low, high=None, lower_bound=True)

    def or_word(self, word: Figure | None) -> Figure:
        """Make a lower bound from this known part and a relay's count, whichever is larger."""
        if word is None:
            return Figure.at_least(self.value, self.low)
        return Figure.at_least(max(self.value, word.value), max(self.low, word.low))

    def __str__(self) -> str:
        return said(self)

    @property
    def storable(self) -> Figure:
        """The same figure, in which no number is above LARGEST."""
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


class Within(msgspec.Struct, frozen=True, kw_only=True):
    """The number of distinct authors within a web of trust (`codecs.web_of_trust`)."""

    key: str
    """The hex pubkey in the centre of the web."""
    depth: int
    """1 for the people whom the key follows, 2 for their follows too."""
    people: int
    """Number of people in the web."""
    followed: int
    """Number of people whom the key follows."""
    lists: int
    """How many of their follow lists are in the store."""
    figure: Figure | None
    """The number of authors. None if no relay gave an author."""
    at: int
    """The Unix time of the count."""

    def __str__(self) -> str:
        return self.line({})

    def line(self, names: Mapping[str, str]) -> str:
        """Return the figure as a line of text; `names` of people by key, as from `names_of`."""
        web = f"within {self._web(names)}"
        number = "not known" if self.figure is None else said(self.figure, "distinct author")
        return f"{web} ({plural(self.people, 'person', 'people')}): {number}{self._lacking}"

    @property
    def web(self) -> str:
        """The web as `--within` takes it: `npub1…:1`."""
        return self._web({})

    def _web(self, names: Mapping[str, str]) -> str:
        return f"{person(self.key, names)}:{self.depth}"

    @property
    def _lacking(self) -> str:
        missing = self.followed - self.lists
        if self.depth == 1 or not missing:
            return ""
        return f"; {plural(missing, 'follow list')} of {self.followed:,} not stored"

    def to_dict(self) -> dict[str, Any]:
        """Return the figure and its web as JSON values."""
        figure = None if self.figure is None else self.figure.to_dict()
        return msgspec.structs.asdict(self) | {"figure": figure}


class WeighedClaim(ClaimSummary, frozen=True, kw_only=True):
    """One relay's answer, and its part in the number."""

    estimate: float | None = None
    """The estimate from the relay's registers."""
    used: tuple[str, ...] = ()
    """What the number uses of the answer: registers, count, events or ids."""
    share: float | None = None
    """The authors in the answer, as a share of all authors."""
    note: str | None = None
    """When all events of the relay were last read, in words. None if that was now, or if the client
    read none."""
    reasons: tuple[str, ...] = ()
    """Why the number does not use a part of the answer."""
    excluded: bool = False
    """True if the relay is excluded from the number."""


class PastClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The last answer of a relay on one day."""

    asked_at: float
    """The Unix time of the request."""
    status: str
    method: str | None = None
    count: int | None = None
    estimate: float | None = None
    """The estimate from the relay's registers."""


class CountReport(msgspec.Struct, frozen=True, kw_only=True):
    """A number over many relays, and the answers of the relays."""

    query: str
    target: str | None
    filters: tuple[dict[str, Any], ...]
    unit: Annotated[Literal["distinct_authors", "events"], Meta(description="what `figure` counts")]
    figure: Figure | None
    """The number."""
    authors: Figure | None
    """The number of distinct authors, if known."""
    events: Figure | None
    """The number of distinct events, if known."""
    corroborated: Figure | None
    """The number of authors whom at least two relays have. One relay cannot raise this number."""
    amount: Figure | None
    """The sum in millisats, if the query counts zaps."""
    relays: tuple[WeighedClaim, ...]
    """The answer of each relay."""
    within: Within | None = None
    """The number of authors within a web of trust, if the question asks for it."""

    def __str__(self) -> str:
        name = "matching" if self.query == "filter" else self.query
        answers = sum(one.status == "ok" for one in self.relays)
        answered = f"{answers} of {plural(len(self.relays), 'relay')} answered"
        if self.figure is None:
            return f"{name}: not known ({answered})"
        return f"{name}: {said(self.figure, unit_noun(self.unit))} ({answered})"


class SharedPeople(msgspec.Struct, frozen=True, kw_only=True):
    """The people whom two relays share."""

    relays: tuple[str, str]
    """The two relays."""
    people: int
    """Number of people on both relays."""
    jaccard: float
    """Share of `people` among all people on at least one of the two relays, from 0 to 1."""
    low: float
    """Lower end of the share's 95 % interval."""
    high: float
    """Upper end of the share's 95 % interval."""
    exact: bool
    """True if the client read both relays, and neither has changed since. Then `low` and `high`
    equal `jaccard`."""
    noise: bool = False
    """True if the relays perhaps share nobody, because `low` is 0."""


class UncomparedRelay(msgspec.Struct, frozen=True, kw_only=True):
    """A relay without people to compare with other relays."""

    relay: str
    why: str
    """The reason."""


class RelayOverlaps(msgspec.Struct, frozen=True, kw_only=True):
    """The people whom each pair of relays shares.

    Each relay of a count is in one of the two lists.
    """

    overlaps: tuple[SharedPeople, ...]
    uncompared: tuple[UncomparedRelay, ...]
