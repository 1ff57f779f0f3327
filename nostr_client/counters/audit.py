"""Recount a counter: add up its stored increments and compare the sum with its value."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class AuditStep(NamedTuple):
    """One stored message of a counter.

    `incr` is None if the message has no increment.
    """

    seq: int
    incr: int | None
    value: int


class Break(NamedTuple):
    """A message whose value does not follow from the stored message before it."""

    seq: int
    expected: int
    found: int


class Recount(NamedTuple):
    """Result of a recount: value = base + total, unless messages in between are missing.

    `base` is the oldest stored value minus its increment. It is 0 if the whole history is stored.
    Otherwise it is the sum of the trimmed or reset part. `total` is the sum of the stored
    increments.

    `breaks` names the places where messages are missing or changed. Without breaks, the history
    proves the value.
    """

    value: int
    base: int
    total: int
    messages: int
    breaks: tuple[Break, ...]

    @property
    def holds(self) -> bool:
        """Whether base + total is the value and each message follows from the one before."""
        return not self.breaks and self.base + self.total == self.value


def recount(steps: Iterable[AuditStep]) -> Recount:
    """Add up a counter's stored history, oldest first. The sum of an empty history is 0."""
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
