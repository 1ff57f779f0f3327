"""What may be asked or sent again: by a sync one event at one relay, by a count what is finished.

The rules are those of `docs/how-to/sync.md`, "What was refused or withheld". The relay looks at
them, so a rule that rests on an answer counts only where the client has read it:

- what a relay took may be sent once more, as it may not list it; then it says `duplicate:`;
- what a relay took and does not send when it is asked for was refused;
- `invalid:` and `pow:` stand for a week, `blocked:`, `duplicate:` and a newer version for a day;
- every other refusal, an OK that was not read, and an event that was asked for and may come again
  wait a minute, then twice as long each time, up to a day;
- within one run an event is tried three times at most, and again only where no OK was read or the
  answer was `error:`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MINUTE: Final = 60
DAY: Final = 86_400

FORGOTTEN: Final = 2 * DAY
"""Seconds after the time of the next try, from which on the waits may begin anew."""

TRIES: Final = 3
"""Tries of one event in one run."""

WAITS: Final = {
    "invalid:": 7 * DAY,
    "pow:": 7 * DAY,
    "blocked:": DAY,
    "duplicate:": DAY,
    "replaced:": DAY,
}
"""Seconds that an answer stands, by its first word."""


@dataclass
class Attempt:
    """One try of one event: `at` Unix seconds, in a step of the world.

    `taken` and `answer` are the OK, its reason "" where it has none; None: there is no OK, as the
    client asked for the event. `read`: the client has read the OK. `dropped`: the OK said that it
    is taken, and it is not kept; `missed`: the client has asked for it since then.
    """

    at: float
    step: int
    answer: str | None = None
    taken: bool = False
    read: bool = False
    dropped: bool = False
    missed: bool = False


def too_soon(attempts: Sequence[Attempt]) -> str:
    """The first rule that the tries of one event break, as text; "" where they break none."""
    due, tries = 0.0, 0
    for step, group in groupby(attempts, lambda one: one.step):
        run = list(group)
        if len(run) > TRIES or not all(map(_may_repeat, run[:-1])):
            return f"{len(run)} times in step {step}"
        if run[0].at < due - 1:  # dates are whole seconds
            return f"{due - run[0].at:.0f} s too soon in step {step}"
        last = run[-1]
        if last.taken and last.read and not last.missed:
            due, tries = 0.0, 0
            continue
        tries = 1 if run[0].at > due + FORGOTTEN else tries + 1
        due = last.at + _wait(last, tries)
    return ""


def _may_repeat(one: Attempt) -> bool:
    """Whether the same run may try again after this."""
    return not one.read or (one.answer or "").startswith("error:")


def _wait(one: Attempt, tries: int) -> int:
    """Seconds until the next try, after so many."""
    word = (one.answer or "").split(" ")[0] if one.read else ""
    return WAITS.get(word) or min(DAY, MINUTE * 2 ** min(tries - 1, 20))


class _Part(NamedTuple):
    """The seconds of a filter, both ends included; `what` is the filter without them."""

    what: tuple[tuple[str, str], ...]
    since: float
    until: float

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> _Part:
        """The part of a filter, as decoded JSON."""
        times = ("since", "until", "limit")
        what = tuple(sorted((k, repr(v)) for k, v in asked.items() if k not in times))
        return cls(what, asked.get("since", 0), asked.get("until", float("inf")))

    def holds(self, other: _Part) -> bool:
        return self.what == other.what and self.since <= other.since and other.until <= self.until


class Finished:
    """What a relay answered with `finish` (NIP-67) in one step: nobody need ask for a part of it.

    `again`: how often somebody did.
    """

    def __init__(self) -> None:
        self.again = 0
        self._step = -1
        self._parts: list[_Part] = []

    def asked(self, step: int, filters: Sequence[Mapping[str, Any]]) -> None:
        """A REQ came."""
        if step != self._step:
            self._step, self._parts, self.again = step, [], 0
        parts = [_Part.of(one) for one in filters]
        self.again += any(done.holds(one) for one in parts for done in self._parts)

    def ended(self, asked: Mapping[str, Any]) -> None:
        """The REQ of this filter was answered with all that matches, below its limit."""
        self._parts.append(_Part.of(asked))
