"""When live events may have a relay asked again: soon where they are few, rarely where they pour.

Pure: the time is an argument. What all watches together may ask of a relay is its budget
(`nostr_client.budget`). Events that come while a question waits are answered by that one, so
that the last of a burst is counted too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.rate import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Collection

DELAY_S: Final = 0.2
"""Events that come together are asked for together."""

GAP_S: Final = 1.0
"""Least time between two questions of one watch to one relay; a number has two seconds to move."""

BURST: Final = 12
"""Questions of one watch to one relay that may follow each other by the gap, after a pause."""

EVERY_S: Final = 5.0
"""While events go on pouring in, for an answer that costs the relay much: it is not a ticker."""

STEADY_S: Final = 1.25
"""The same for one that costs it little: the number still moves within two seconds."""

SHARE: Final = 0.1
"""Of its time that a relay may work for one watch that pours: between the two above."""


class LivePace:
    """Turns of (watch, relay) pairs that live events ask for; seconds of a clock never set."""

    def __init__(self) -> None:
        self._due: dict[tuple[str, str], float] = {}
        self._watches: dict[tuple[str, str], TokenBucket] = {}

    def delay(self, watch: str, url: str, now: float, took: float = EVERY_S) -> float:
        """After how many seconds the relay may be asked for the watch.

        `took`: seconds that it needed for its last answer.
        """
        key = watch, url
        due = self._due.get(key)
        if due is not None and due > now:
            return due - now
        own = self._watches.setdefault(key, TokenBucket(1 / EVERY_S, BURST, now=now))
        apart = min(EVERY_S, max(STEADY_S, took / SHARE)) if own.take(now) else GAP_S
        gap = 0.0 if due is None else due + apart - now
        wait = max(DELAY_S, gap)
        self._due[key] = now + wait
        return wait

    def keep(self, pairs: Collection[tuple[str, str]]) -> None:
        """Forget all but these pairs of watch and relay."""
        for held in (self._due, self._watches):
            for gone in [one for one in held if one not in pairs]:
                del held[gone]
