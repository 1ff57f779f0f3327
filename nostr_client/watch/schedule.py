"""Which watches are due. Pure: the time is an argument, and jitter comes from the name."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.watch.definition import Watch

JITTER: Final = 0.1
"""Part of an interval by which rounds of different watches are moved apart: relays like it so."""


def due_at(watch: Watch, asked_at: float | None, now: float) -> float:
    """When a watch is to be asked next (Unix seconds); one that never was, now.

    A time of asking that lies in the future comes from a clock that was wrong: it is ignored.
    """
    if asked_at is None or asked_at > now:
        return now
    return asked_at + watch.interval * (1 - JITTER * _fraction(watch.name))


def due(asked: Iterable[tuple[Watch, float | None]], now: float) -> list[Watch]:
    """The watches that are due now, the one that waits longest first."""
    waiting = [(due_at(watch, at, now), watch.name, watch) for watch, at in asked]
    return [watch for at, _, watch in sorted(waiting, key=lambda one: one[:2]) if at <= now]


def next_due(asked: Sequence[tuple[Watch, float | None]], now: float) -> float | None:
    """When the next watch is due; None without any."""
    return min((due_at(watch, at, now) for watch, at in asked), default=None)


def _fraction(name: str) -> float:
    """A number from 0 to 1 that is always the same for a name."""
    return int.from_bytes(blake2b(name.encode(), digest_size=4).digest(), "big") / 2**32
