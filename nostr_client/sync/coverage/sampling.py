"""Test with a random sample whether relays have the events that they alone name.

A relay can name any id, so an id that nothing else confirms proves no event. `SAMPLE` of these ids
are fetched for each relay and kind. If all events come, the relay is believed for the other ids of
the kind. If one event does not come, the relay's ids confirm nothing.
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
"""Ids to fetch of one relay and kind, 11 kB. If a tenth is invented, one sample in 24 misses it."""


class SampleResult(NamedTuple):
    """Results of the samples, and the events that came, by id."""

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
    """Fetch samples of the ids that one relay alone names, and again after a relay is refuted.

    `filters`: by kind, the filter that an event must match. `sure`: ids that need no test. `rand`
    draws the samples. A relay that could predict them would have only these events. A relay that
    does not answer is neither believed nor refuted. Safe to cancel.
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
    """Return True if a relay sends an event of the filter for each id."""
    found = await fetched(relay, ids) or {}
    return all(one in found and filter.matches(found[one]) for one in ids)


async def fetched(relay: Relay, ids: Collection[str]) -> dict[str, Event] | None:
    """Return the events of ids, or None if the relay does not answer."""
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
    """Tested ids, and the results of the tests."""

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
        """Return samples by kind of untested ids that only this relay names."""
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
        """Note the result of a relay's samples. Return True if the relay may be believed further.

        Events of `RECEIVER_ONLY` kinds that do not come refute no relay, because the relay may not
        serve them to this user.
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
