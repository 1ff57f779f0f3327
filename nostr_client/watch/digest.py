"""Say what changed since a time, of watches, counters, coverages and syncs, as text. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

import msgspec

from nostr_client.codecs.display import minute, percent, plural, said, unit_noun
from nostr_client.codecs.relay_url import normalize
from nostr_client.counters.shown import StreamMoves
from nostr_client.sync.coverage_report import Share
from nostr_client.watch.history import Point
from nostr_client.watch.people import Person

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.count.figures import CountReport
    from nostr_client.sync.coverage_report import CoverageRun

COVERAGE_LINE: Final = 0.95
"""Share of the known events below which a relay lacks too many, where no alert has another line."""

Change = Literal["changed", "same", "unknown"]

_ACTS: Final = {"follows": "follow, since when is not known"}
"""Acts whose word alone says too little."""

MOST_NAMED = 5
"""People of one watch that a digest names."""

MOST_WATCHES: Final = 20
"""Watches of a digest as text, as many as one reads; also the names of those without a change."""


class Newcomers(msgspec.Struct, frozen=True, kw_only=True):
    """The estimated number of new people, with a 95 % interval.

    The estimate comes from the registers that rose. It does not show people who left.

    - `registers`: number of registers that rose. If none rose, up to `high` people may still be
      new.
    - `since`: time of the older registers, in Unix seconds.
    """

    value: int
    low: int
    high: int
    registers: int
    since: int


class WatchDigest(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one watch since a time. A watch without a request since then has no changes.

    - `since`: start of the digest, in Unix seconds.
    - `asked_at`: time of the last request to a relay, or null if unknown.
    - `now`: the newest number.
    - `then`: the number at the start of the digest, or the first known one after it.
    - `new`: estimated number of new people. It is null without registers from before and after that
      time.
    - `acts`: number of people by what they did.
    - `people`: the newest people.
    - `more`: number of people that `people` leaves out.
    - `came`: relays that answer now and did not answer then.
    - `went`: relays that answered then and do not answer now.
    """

    name: str
    query: str
    since: int
    asked_at: int | None = None
    now: Point | None = None
    then: Point | None = None
    new: Newcomers | None = None
    acts: dict[str, int] = {}
    people: tuple[Person, ...] = ()
    more: int = 0
    came: tuple[str, ...] = ()
    went: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """What changed, one sentence a line."""
        found = [_number(self), _change(self)]
        if self.acts:
            acts = (f"{n:,} {_ACTS.get(act, act)}" for act, n in self.acts.items())
            found.append("; ".join(acts))
        found += [f"{person.who}: {person.what}" for person in self.people]
        if self.more:
            more = plural(self.more, "more person", "more people")
            found.append(f"and {more}: nostr-client watch people {self.name} --since {self.since}")
        found += [f"{url} answers now, and did not then" for url in self.came]
        return found + [f"{url} answers no longer" for url in self.went]

    @property
    def change(self) -> Change:
        """Whether a change is known, or none was seen, or neither is known."""
        if self.acts or self.came or self.went:
            return "changed"
        if not _was_asked(self):
            return "unknown"
        exact = _exact_change(self)
        if exact is not None:
            return "changed" if exact else "same"
        if self.new is None:
            return "unknown"
        return "changed" if self.new.registers else "same"

    @property
    def moved(self) -> float:
        """How many people or events changed, as a share of the number at the start."""
        exact = _exact_change(self)
        rose = self.new.value if self.new is not None and self.new.registers else 0
        changed = max(rose, sum(self.acts.values())) if exact is None else abs(exact)
        before = self.now.value - changed if self.now is not None else 0
        return changed / max(1, self.then.value if self.then is not None else before)

    @property
    def rank(self) -> tuple[int, bool, float, str]:
        """Its place in a digest: the largest change first, then where relays fail, then where
        nothing is known, last no change."""
        order: tuple[Change, ...] = ("changed", "unknown", "same")
        moved = self.moved
        return order.index(self.change), bool(self.went) and not moved, -moved, self.name


class RelayShare(msgspec.Struct, frozen=True, kw_only=True):
    """The share of the known events that a relay has.

    - `share`: from 0 to 1. It is null if unknown.
    """

    relay: str
    share: Share


class LowCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """A coverage whose newest run failed, or found relays below a line.

    - `line`: the line, as a share from 0 to 1.
    - `at`: time of the comparison in Unix seconds, or null if there was none.
    - `relays`: relays below the line, and relays with an unknown share.
    - `why`: why the newest run failed.
    - `known`: number of known events. If no event is known, no share is known.
    """

    name: str
    line: float
    at: float | None = None
    relays: tuple[RelayShare, ...] = ()
    why: str = ""
    known: int | None = None

    @property
    def lines(self) -> list[str]:
        """What is low, one sentence a line."""
        failed = [f"{self.name} failed: {self.why}"] if self.why else []
        if self.known == 0 and all(one.share is None for one in self.relays):
            return [*failed, f"{self.name}: no event is known"]
        return failed + [
            f"{self.name}: how much {one.relay} has is not known"
            if one.share is None
            else f"{self.name}: {one.relay} has {percent(one.share)}, below {percent(self.line)}"
            for one in self.relays
        ]


class UnfinishedSync(msgspec.Struct, frozen=True, kw_only=True):
    """A sync whose newest run is not complete.

    - `outcome`: how the run ended.
    - `relays`: relays whose part is not complete.
    """

    name: str
    outcome: str
    relays: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """How the sync ended, and where."""
        where = f": {', '.join(self.relays)}" if self.relays else ""
        return f"{self.name} ended {self.outcome}{where}"


class DigestSection(NamedTuple):
    """A part of a digest as text: a title, and one sentence a line."""

    title: str
    lines: list[str]


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of all watches since a time, in the order of their names.

    - `since`: start of the digest, in Unix seconds.
    - `until`: end of the digest.
    - `counters`: changes of each stream of counters.
    - `coverages`: coverages that failed or are below their line.
    - `syncs`: syncs that are not complete; null if no agent runs them.
    """

    since: int
    until: int
    watches: tuple[WatchDigest, ...]
    counters: tuple[StreamMoves, ...] = ()
    coverages: tuple[LowCoverage, ...] = ()
    syncs: tuple[UnfinishedSync, ...] | None = None

    @property
    def title(self) -> str:
        """From when to when."""
        return f"from {minute(self.since)} to {minute(self.until)}"

    @property
    def summary(self) -> list[str]:
        """What changed, one watch a line, after a line that says how many changed."""
        by: dict[str, list[WatchDigest]] = {change: [] for change in get_args(Change)}
        for one in self.watches:
            by[one.change].append(one)
        moved = [one for one in self.counters if one.changed]
        changed = sorted(by["changed"], key=lambda one: one.rank)
        lines = [f"{one.name}: {'; '.join(one.lines)}" for one in changed]
        lines += [f"counters of {one.stream}: {'; '.join(one.lines)}" for one in moved]
        total = plural(len(self.watches), "watch", "watches")
        head = f"{len(by['changed']):,} of {total} changed" if lines else "no change seen"
        if by["unknown"]:
            head += f", not known of {plural(len(by['unknown']), 'watch', 'watches')}"
        low = [line for one in self.coverages for line in one.lines]
        return [f"{self.title}: {head}", *lines, *low, *(one.line for one in self.syncs or ())]

    @property
    def command(self) -> str:
        """The command that prints all of it."""
        return f"nostr-client digest --since {self.since} --format json"

    def sections(self, most: int = MOST_WATCHES) -> list[DigestSection]:
        """Return the digest as text: first the largest changes, last the syncs.

        It has the first `most` watches, and one line for those without a change.
        """
        watches = sorted(self.watches, key=lambda one: one.rank)
        shown = [one for one in watches if one.change != "same"]
        same = [one for one in watches if one.change == "same"]
        found = [DigestSection(f"{one.name} ({one.query})", one.lines) for one in shown[:most]]
        if left := shown[most:]:
            more = plural(len(left), "more watch", "more watches")
            found.append(DigestSection(f"and {more}: {self.command}", []))
        if same:
            found.append(DigestSection("no change seen", [self._unchanged(same, most)]))
        found += [DigestSection(f"counters of {one.stream}", one.lines) for one in self.counters]
        low = [line for one in self.coverages for line in one.lines]
        unfinished = [one.line for one in self.syncs or ()]
        for title, lines in (("low coverages", low), ("syncs that are not complete", unfinished)):
            found += [DigestSection(title, lines)] if lines else []
        return found

    def _unchanged(self, same: Sequence[WatchDigest], most: int) -> str:
        """Return the watches without a change as one line."""
        names = [f"{one.name} ({_detail(one)})" for one in same[:most]]
        if left := same[most:]:
            names.append(f"and {len(left):,} more: {self.command}")
        return f"{plural(len(same), 'watch', 'watches')}: {', '.join(names)}"


def low_coverage(
    name: str, run: CoverageRun | None, line: float = COVERAGE_LINE, why: str = ""
) -> LowCoverage | None:
    """Return what is low in a coverage; None if nothing is, or if it was never compared."""
    found = run.relays if run is not None else ()
    relays = tuple(
        RelayShare(relay=one.relay, share=one.share)
        for one in found
        if one.share is None or one.share < line
    )
    if not relays and not why:
        return None
    at, known = (run.at, run.known) if run is not None else (None, None)
    return LowCoverage(name=name, line=line, at=at, relays=relays, why=why, known=known)


def excluded_of(counted: CountReport) -> frozenset[str]:
    """Return the relays whose claims a number excludes, as normalised URLs."""
    return frozenset(normalize(one.relay) for one in counted.relays if one.excluded)


def acts_of(people: Sequence[Person]) -> dict[str, int]:
    """Return how many people did what, most frequent first."""
    return dict(Counter(one.act for one in people).most_common())


def _number(one: WatchDigest) -> str:
    if one.now is None:
        return "not known yet"
    return said(one.now.figure, unit_noun(one.now.unit))


def _change(one: WatchDigest) -> str:
    if one.asked_at is not None and not _was_asked(one):
        return f"not asked since {minute(one.asked_at)}"
    then, new, exact = one.then, one.new, _exact_change(one)
    if then and exact is not None:
        return _difference(exact, _from(one, then.at))
    if new is None:
        return f"how far it changed is not known: {_before(one)}"
    begins = _from(one, new.since)
    if not new.registers:
        return f"no change seen{begins}; up to {new.high:,} may be new unseen"
    rose = plural(new.registers, "register")
    return f"about {new.value:,} new ({new.low:,} to {new.high:,}){begins}, as {rose} rose"


def _before(one: WatchDigest) -> str:
    """Say what is known of the number at the start."""
    if one.then is None or (one.now is not None and one.then.at >= one.now.at):
        return "there is no earlier number"
    return f"{said(one.then.figure)} at {minute(one.then.at)}"


def _detail(one: WatchDigest) -> str:
    """Say of a watch without a change how sure that is, and since when."""
    text = _change(one).removeprefix("no change")
    return text.removeprefix(" seen").lstrip("; ,")


def _was_asked(one: WatchDigest) -> bool:
    """Whether a relay may have been asked since the digest begins."""
    return one.asked_at is None or one.asked_at > one.since


def _exact_change(one: WatchDigest) -> int | None:
    """Return by how much an exact number changed; None unless it was exact then and after it."""
    now, then = one.now, one.then
    if now and then and now.exact and then.exact and max(then.at, one.since) < now.at:
        return now.value - then.value
    return None


def _difference(number: int, begins: str) -> str:
    return f"{number:+,}{begins}, exact then and now" if number else f"no change{begins}, exact"


def _from(one: WatchDigest, at: int) -> str:
    """Say when a change begins, where that is not when the digest begins."""
    return "" if minute(at) == minute(one.since) else f" since {minute(at)}"
