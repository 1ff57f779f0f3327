"""Say what changed since a time: newcomers, people and relays of each watch, as text. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from nostr_client.codecs.display import minute, plural, said
from nostr_client.codecs.relay_url import normalize
from nostr_client.watch.history import Point
from nostr_client.watch.people import Person

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.count.figures import CountReport

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

    `since`: when the digest begins; `asked_at`: when a relay was last asked, None if that is not
    known, Unix seconds. A watch that was not asked since then has no change. `now` and `then` are
    its newest numbers, of now and of the time that the digest begins. `new` is None where no relay
    gave registers before that time and after it. `acts` counts who did what, `people` are the
    newest of them. Relays `came` that answer now and did not then, and `went` that answer no
    longer.
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


def excluded_of(counted: CountReport) -> frozenset[str]:
    """Return the relays whose claims a number excludes, as normalised URLs."""
    return frozenset(normalize(one.relay) for one in counted.relays if one.excluded)


def acts_of(people: Sequence[Person]) -> dict[str, int]:
    """Return how many people did what, most frequent first."""
    return dict(Counter(one.act for one in people).most_common())


def _number(one: WatchDigest) -> str:
    if one.now is None:
        return "not known yet"
    unit = "events" if one.now.unit == "events" else "distinct authors"
    return f"{said(one.now.figure)} {unit}"


def _change(one: WatchDigest) -> str:
    if one.asked_at is not None and one.asked_at <= one.since:
        return f"not asked since {minute(one.asked_at)}"
    now, then, new = one.now, one.then, one.new
    if now and then and now.exact and then.exact and then.at <= one.since < now.at:
        return _difference(now.value - then.value, _from(one, then.at))
    if new is None:
        return "how far it changed is not known: no relay gave registers then and now"
    begins = _from(one, new.since)
    if not new.registers:
        return f"no change seen{begins}; up to {new.high:,} may be new unseen"
    rose = plural(new.registers, "register")
    return f"about {new.value:,} new ({new.low:,} to {new.high:,}){begins}, as {rose} rose"


def _difference(number: int, begins: str) -> str:
    return f"{number:+,}{begins}, exact then and now" if number else f"no change{begins}, exact"


def _from(one: WatchDigest, at: int) -> str:
    """Say when a change begins, where that is not when the digest begins."""
    return "" if minute(at) == minute(one.since) else f" since {minute(at)}"
