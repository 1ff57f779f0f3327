"""Does a relay count several filters as the text says: their union, each event once? (NIP-45)

Relays differ: the first filter only, the last only, events in two filters twice. So it is asked
what can be told from its own answers to single filters, and never assumed. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.filters import Filter
    from nostr_client.messages import CountAnswer


class Trial(NamedTuple):
    """Two filters whose exact counts, `a` and `b`, the relay has just given, neither of them 0."""

    first: Filter
    second: Filter
    a: int
    b: int

    @property
    def questions(self) -> list[tuple[Filter, Filter]]:
        """What to ask: both, both the other way round, and the first one twice."""
        one, two = self.first, self.second
        return [(one, two), (two, one), (one, one)]

    def verdict(self, answers: Sequence[CountAnswer]) -> bool | None:
        """Whether the answers to `questions` are those of true unions; None: cannot be told.

        A sum above both that does not depend on the order is more than the first, the last or the
        larger alone; and a filter beside itself must not count twice.
        """
        if not all(map(is_exact, answers)):
            return None
        both, turned, same = (answer.count for answer in answers)
        least, most = max(self.a, self.b), self.a + self.b
        if both != turned or same != self.a or not least <= both <= most:
            return False
        return True if both > least else None


def is_exact(answer: CountAnswer) -> bool:
    """Whether a count is the relay's word on how many events there are."""
    return not (answer.approximate or answer.limited)


def trial_of(filters: Sequence[Filter], answers: Sequence[CountAnswer]) -> Trial | None:
    """A trial from what a relay answered to each filter alone, None where there is nothing to try.

    The two largest counts are taken: a small one says little.
    """
    usable = [
        (a.count, f) for f, a in zip(filters, answers, strict=True) if a.count and is_exact(a)
    ]
    if len(usable) < 2:
        return None
    (a, first), (b, second) = sorted(usable, key=lambda one: -one[0])[:2]
    return Trial(first, second, a, b)
