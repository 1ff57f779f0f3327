"""Recount: what the kept increments of a counter say about its value."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class AuditStep(NamedTuple):
    """One kept message of a counter, oldest first: `incr` is None where it carries none."""

    seq: int
    incr: int | None
    value: int


class Break(NamedTuple):
    """A message whose value does not follow from the one kept before it."""

    seq: int
    expected: int
    found: int


class Recount(NamedTuple):
    """value = base + sum of the kept increments, where nothing in between is lost.

    `base` is the oldest kept value less its increment: 0 where the whole history is kept, the sum
    of what was trimmed or reset otherwise. `breaks` names the places where messages are missing
    (or were changed); with none, the value is proven by its history.
    """

    value: int
    base: int
    total: int
    messages: int
    breaks: tuple[Break, ...]

    @property
    def holds(self) -> bool:
        """Whether base + total is the value and every message follows from the one before."""
        return not self.breaks and self.base + self.total == self.value


def recount(steps: Iterable[AuditStep]) -> Recount:
    """Add up a counter's kept history, oldest first; nothing kept counts as 0."""
    base, total, value, messages = 0, 0, 0, 0
    breaks: list[Break] = []
    for step in steps:
        incr = step.incr if step.incr is not None else step.value - value
        if messages == 0:
            base = step.value - incr
            value = base
        if value + incr != step.value:
            breaks.append(Break(step.seq, value + incr, step.value))
        total, value, messages = total + incr, step.value, messages + 1
    return Recount(value, base, total, messages, tuple(breaks))
