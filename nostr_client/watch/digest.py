"""Say what changed since a time: newcomers, people and relays of each watch, as text. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from nostr_client.codecs.display import plural, said
from nostr_client.codecs.relay_url import normalize
from nostr_client.count.figures import Figure
from nostr_client.watch.history import Point
from nostr_client.watch.people import Person

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.count.figures import Counted

MOST_NAMED = 5
"""People of one watch that a digest names."""


class Newcomers(msgspec.Struct, frozen=True, kw_only=True):
    """How many people are new, by the registers that rose, with a 95 % interval.

    `registers`: how many rose; none means that no change was seen, and up to `high` people may be
    new unseen. `since`: of when the older registers are, Unix seconds. Those who left do not show.
    """

    value: int
    low: int
    high: int
    registers: int
    since: int


class WatchDigest(msgspec.Struct, frozen=True, kw_only=True):
    """What changed for one watch.

    `now` and `then` are its newest numbers, of now and of the time that the digest begins. `new` is
    None where no relay gave registers at both times. `acts` counts who did what, `people` are the
    newest of them. Relays `came` that answer now and did not then, and `went` that answer no
    longer.
    """

    name: str
    query: str
    now: Point | None = None
    then: Point | None = None
    new: Newcomers | None = None
    acts: dict[str, int] = {}
    people: tuple[Person, ...] = ()
    came: tuple[str, ...] = ()
    went: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """What changed, one sentence a line."""
        found = [_number(self), _change(self)]
        if self.acts:
            found.append(", ".join(f"{number:,} {act}" for act, number in self.acts.items()))
        found += [f"{person.who}: {person.what}" for person in self.people]
        found += [f"{url} answers now, and did not then" for url in self.came]
        return found + [f"{url} answers no longer" for url in self.went]


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """What changed since a time, for all watches by name; Unix seconds."""

    since: int
    until: int
    watches: tuple[WatchDigest, ...]


def excluded_of(counted: Counted) -> frozenset[str]:
    """Return the relays whose claims a number excludes, as normalised URLs."""
    return frozenset(normalize(one.relay) for one in counted.relays if one.excluded)


def acts_of(people: Sequence[Person]) -> dict[str, int]:
    """Return how many people did what, most frequent first."""
    return dict(Counter(one.act for one in people).most_common())


def _number(one: WatchDigest) -> str:
    if one.now is None:
        return "not known yet"
    unit = "events" if one.now.unit == "events" else "distinct authors"
    return f"{said(_figure(one.now))} {unit}"


def _figure(point: Point) -> Figure:
    return Figure(
        value=point.value,
        low=point.low,
        high=point.high,
        exact=point.exact,
        lower_bound=point.high is None and not point.as_said,
        as_said=point.as_said,
    )


def _change(one: WatchDigest) -> str:
    now, then, new = one.now, one.then, one.new
    if now is not None and then is not None and now.exact and then.exact:
        difference = now.value - then.value
        return f"{difference:+,}, exact then and now" if difference else "no change, exact"
    if new is not None and new.registers:
        rose = plural(new.registers, "register")
        return f"about {new.value:,} new ({new.low:,} to {new.high:,}), as {rose} rose"
    if new is not None:
        return f"no change seen; up to {new.high:,} may be new unseen"
    return "how far it changed is not known: no relay gave registers then and now"
