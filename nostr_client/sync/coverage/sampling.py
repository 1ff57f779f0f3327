"""Test whether relays have what they alone name, by a random sample of these events.

A relay can name any id, so an id that nothing else confirms proves no event. `SAMPLE` of them are
fetched for each relay and kind. If all come, the relay is believed for the others of the kind. If
one does not come, what the relay names confirms nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.codecs.private_kinds import RECEIVER_ONLY
from nostr_client.errors import RelayError
from nostr_client.network.paging.by_id import events_by_id
from nostr_client.network.waiting import task_group
from nostr_client.sync.coverage.matrix import SampleTest, confirmed

if TYPE_CHECKING:
    import random
    from collections.abc import Collection, Mapping

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.network.relay import Relay
    from nostr_client.sync.coverage.matrix import CoverageCell

SAMPLE: Final = 30
"""Ids of one relay and kind that are fetched, 11 kB: if a tenth is made up, the sample misses it
once in 24 times."""


class SampleResult(NamedTuple):
    """What the samples show, and the events that came, by id."""

    tested: SampleTest
    events: dict[str, Event]


async def sampled(
    cells: Mapping[str, Mapping[int, CoverageCell]],
    filters: Mapping[int, Filter],
    relays: Mapping[str, Relay],
    *,
    sure: Collection[str],
    rand: random.Random,
) -> SampleResult:
    """Fetch samples of the ids that one relay alone names, again once a relay is refuted.

    `filters`: by kind, what an event must match. `sure`: ids that need no test. `rand` draws the
    samples: a relay that could foresee them would have only these events. A relay that does not
    answer is neither believed nor refuted. Safe to cancel.
    """
    samples = _Samples(cells, filters, frozenset(sure), rand)
    asked = set(relays)
    while due := {relay: ids for relay in sorted(asked) if (ids := samples.due(relay))}:
        async with task_group() as group:
            tasks = {
                relay: group.create_task(fetched(relays[relay], set().union(*ids.values())))
                for relay, ids in due.items()
            }
        for relay, task in tasks.items():
            found = task.result()
            if found is None or not samples.judge(relay, due[relay], found):
                asked.discard(relay)
    return SampleResult(samples.tested, samples.events)


async def exist(relay: Relay, ids: Collection[str], filter: Filter) -> bool:
    """Whether a relay sends an event of the filter for each id."""
    found = await fetched(relay, ids) or {}
    return all(one in found and filter.matches(found[one]) for one in ids)


async def fetched(relay: Relay, ids: Collection[str]) -> dict[str, Event] | None:
    """Return the events of ids; None if the relay does not answer."""
    try:
        found = await events_by_id(relay, [bytes.fromhex(one) for one in ids])
    except RelayError:
        return None
    return {one.event.id: one.event for one in found.events}


def draw(ids: Collection[str], rand: random.Random) -> list[str]:
    """Return a sample of ids."""
    ordered = sorted(ids)
    return rand.sample(ordered, min(len(ordered), SAMPLE))


class _Samples:
    """Which ids were tested, and what is known by that."""

    def __init__(
        self,
        cells: Mapping[str, Mapping[int, CoverageCell]],
        filters: Mapping[int, Filter],
        sure: frozenset[str],
        rand: random.Random,
    ) -> None:
        self.tested = SampleTest()
        self.events: dict[str, Event] = {}
        self._cells = cells
        self._filters = filters
        self._sure = sure
        self._rand = rand
        self._drawn_from: dict[tuple[str, int], frozenset[str]] = {}

    def due(self, relay: str) -> dict[int, list[str]]:
        """Return samples by kind of what this relay alone names, and was not drawn from before."""
        found = {}
        for kind in self._filters:
            before = self._drawn_from.get((relay, kind), frozenset())
            alone = self._alone(relay, kind) - before
            if alone:
                self._drawn_from[relay, kind] = before | alone
                self.tested = self.tested.without(relay, kind)
                found[kind] = draw(alone, self._rand)
        return found

    def judge(
        self, relay: str, samples: Mapping[int, Collection[str]], found: Mapping[str, Event]
    ) -> bool:
        """Note what came of a relay's samples; return whether the relay may be believed further.

        Events of `RECEIVER_ONLY` kinds that do not come refute nobody: they may not be for us.
        """
        for kind, ids in samples.items():
            good = [one for one in ids if self._is_event(found.get(one), kind)]
            self.events |= {one: found[one] for one in good}
            if len(good) == len(ids):
                self.tested = self.tested.believing(relay, kind)
            elif kind not in RECEIVER_ONLY:
                self.tested = self.tested.refuting(relay)
        return relay not in self.tested.refuted

    def _is_event(self, event: Event | None, kind: int) -> bool:
        return event is not None and self._filters[kind].matches(event)

    def _alone(self, relay: str, kind: int) -> frozenset[str]:
        """Return the ids that only this relay names."""
        named = msgspec.structs.replace(self.tested, believed=frozenset())
        sure = self._sure | self.events.keys()
        return self._cells[relay][kind].held - confirmed(kind, self._cells, sure, named)
