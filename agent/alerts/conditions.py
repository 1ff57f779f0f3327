"""Decides by conditions over the numbers of a watch when an alert is due. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from nostr_client.codecs.display import seconds
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.sync.coverage_report import CoverageRun

_LEVEL: Final = re.compile(r"([<>]=?) *([0-9]{1,15})")
_RATE: Final = re.compile(r"([+-]) *([0-9]{1,12}(?:\.[0-9]{1,3})?) *(%?) *in +(?:a +)?(\S{1,12})")
_TIME_OF_DAY: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_SHORTFALL: Final = re.compile(r"< *([0-9]{1,3}(?:\.[0-9]{1,3})?) *%(?: on ([0-9]{1,3}) relays?)?")
_NAMES: Final = {"minute": "1m", "hour": "1h", "day": "1d", "week": "1w"}

LIES: Final = "relay lies"

_DAY_S: Final = 86_400.0
_LEAST_S: Final = 3_600.0


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One line that can be crossed.

    `level`: the value against `amount` by `sign` (`>`, `>=`, `<`, `<=`). `rate`: its change within
    `within` seconds is at least `amount`, up (`+`) or down (`-`), `percent` or absolute. `lies`: a
    relay's claim is not believed.
    """

    kind: Literal["level", "rate", "lies"]
    sign: str = ""
    amount: float = 0.0
    percent: bool = False
    within: float = 0.0


class Sample(msgspec.Struct, frozen=True):
    """A value of a watch at a time, Unix seconds."""

    at: float
    value: int


def parse_condition(text: str) -> Condition:
    """`> 1000`, `+10 % in 1d` (or `in a day`), `relay lies`. Raises InvalidInput."""
    bare = " ".join(text.split())
    if bare == LIES:
        return Condition(kind="lies")
    if level := _LEVEL.fullmatch(bare):
        return Condition(kind="level", sign=level[1], amount=float(level[2]))
    rate = _RATE.fullmatch(bare)
    within = _within(rate[4]) if rate else 0.0
    if rate is None or within <= 0:
        raise InvalidInput(f'{text!r} is not "> N", "< N", "+N % in 1d", "-N in 1h" or "{LIES}"')
    return Condition(
        kind="rate",
        sign=rate[1],
        amount=float(rate[2]),
        percent=bool(rate[3]),
        within=within,
    )


def _within(text: str) -> float:
    """The seconds of a duration or of a unit's name; 0.0 for neither."""
    try:
        return seconds(_NAMES.get(text, text))
    except InvalidInput:
        return 0.0


def holds(condition: Condition, now: Sample, past: Sequence[Sample], *, liars: int) -> bool:
    """Whether the line is crossed now; `past` in any order, `liars` relays are not believed."""
    if condition.kind == "lies":
        return liars > 0
    if condition.kind == "level":
        return _compare(condition.sign, now.value, condition.amount)
    window = [one for one in past if now.at - condition.within <= one.at < now.at]
    return any(reached(condition, one.value, now.value - one.value) for one in window)


def changed_from(condition: Condition, past: Sequence[Sample]) -> Sample | None:
    """Return the value from which the number of a crossed line changed; None without one.

    Of a rate: the furthest value of its time. Else the oldest of `past`.
    """
    if condition.kind != "rate":
        return min(past, key=lambda one: one.at, default=None)
    furthest = min if condition.sign == "+" else max
    return furthest(past, key=lambda one: one.value, default=None)


def _compare(sign: str, value: float, bound: float) -> bool:
    if value == bound:
        return sign.endswith("=")
    return (value > bound) == sign.startswith(">")


def reached(condition: Condition, before: int, change: int) -> bool:
    """Whether a change since the number `before` crosses the line of a rate."""
    moved = change if condition.sign == "+" else -change
    least = condition.amount * before / 100 if condition.percent else condition.amount
    return moved > 0 and moved >= least


class DigestTime(NamedTuple):
    """When digests are sent: at a time of day (`at`, seconds from midnight, UTC), or `every` so
    many seconds."""

    every: float
    at: int | None = None

    def after(self, last: float) -> float:
        """Return when the next one is due after one at `last`, both in Unix seconds."""
        if self.at is None:
            return last + self.every
        due = last // _DAY_S * _DAY_S + self.at
        return due if due > last else due + _DAY_S


def parse_digest_time(text: str) -> DigestTime:
    """`08:00` (UTC) or `every 12h`, one hour at least. Raises InvalidInput."""
    bare = " ".join(text.split())
    if time := _TIME_OF_DAY.fullmatch(bare):
        return DigestTime(_DAY_S, int(time[1]) * 3600 + int(time[2]) * 60)
    every = _within(bare.removeprefix("every ")) if bare.startswith("every ") else 0.0
    if every < _LEAST_S:
        raise InvalidInput(f'{text!r} is not "08:00" (UTC) or "every 12h", one hour at least')
    return DigestTime(every)


class Shortfall(NamedTuple):
    """A line of a coverage: at least `relays` relays have less than `share` of the known events."""

    share: float
    relays: int


def parse_shortfall(text: str) -> Shortfall:
    """`< 95 % on 3 relays`, or `< 95 %` on one. Raises InvalidInput."""
    found = _SHORTFALL.fullmatch(" ".join(text.split()))
    share, relays = (float(found[1]) / 100, int(found[2] or 1)) if found else (0.0, 0)
    if not 0 < share <= 1 or relays < 1:
        raise InvalidInput(
            f'{text!r} is not "< N %" or "< N % on K relays": write for instance "< 95 %"'
        )
    return Shortfall(share, relays)


def falls_short(line: Shortfall, run: CoverageRun) -> bool | None:
    """Whether a line is crossed; None: relays whose share is not known decide it."""
    below = sum(one.share is not None and one.share < line.share for one in run.relays)
    unknown = sum(one.share is None for one in run.relays)
    if below >= line.relays:
        return True
    return None if below + unknown >= line.relays else False
