"""Ask a relay for events: one page, the events around the page, and parts of the page."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.kinds import DELETION
from nostr_client.network.check import judge_reading as judge
from nostr_client.network.check.answers import ExchangeEnd
from nostr_client.network.check.findings import tests_of
from nostr_client.store.rules import deletion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.network.check.answers import ReqExchange
    from nostr_client.network.check.findings import Findings
    from nostr_client.network.check.probe import Probe

PAGE: Final = 500
"""Events of the page to which all other answers are compared."""

_KINDS: Final = 3
"""Kinds whose tags are tested."""

_FEW: Final = 3
_SOME: Final = 8
_IDS: Final = 50
_NO_KIND: Final = 19_999
_NOBODY: Final = "0" * 63 + "1"
_NO_TAG: Final = {"#e": ["0" * 64]}
_LONG_ID: Final = "nostr-tally.check_" + "0123456789" * 4 + "012345"
"""A subscription id of 64 characters that NIP-01 allows."""


class RelaySample(NamedTuple):
    """Events that a relay served: its first page, and whether the relay has more.

    `cap`: most events of a full page. `events`: each valid event received so far, by id.
    """

    page: ReqExchange
    more: bool
    events: Mapping[str, Event]

    @property
    def cap(self) -> int:
        return len(self.page.events) if self.more else PAGE

    def is_whole(self, reading: ReqExchange) -> bool:
        """Return True if a reading certainly has every matching event."""
        if reading.end is not ExchangeEnd.ANSWERED or reading.forged or reading.malformed:
            return False
        return len(reading.events) < self.cap


class ReadCheck:
    """Sends REQs and judges each answer. `known` collects the events of all answers."""

    def __init__(self, probe: Probe, findings: Findings) -> None:
        self.probe = probe
        self.findings = findings
        self.known: dict[str, Event] = {}

    async def read(self, *filters: Filter, sub_id: str = "") -> ReqExchange:
        """Send one REQ. Raises NetworkError, CheckSpent."""
        reading = await self.probe.read(*filters, sub_id=sub_id)
        self.findings.add_all(judge.each_answer(reading, self.probe.now()))
        self.known.update((one.id, one) for one in reading.matching)
        return reading

    async def sample(self) -> RelaySample | None:
        """Return the first page and read the events around it.

        Return None if the relay serves nothing.
        """
        first = await self._first()
        if first.end is not ExchangeEnd.ANSWERED:
            self.findings.skip(f"a REQ was not answered: {first.in_words}", *tests_of("read"))
            return None
        times = [one.created_at for one in first.matching]
        if not times:
            late = self.probe.strays
            self.findings.add(judge.strays(late, first))
            self.findings.skip("it serves us no event", *tests_of("read"))
            return None
        below = await self.read(first.filters[0].replace(until=min(times)))
        above = await self.read(Filter(since=max(times), limit=PAGE))
        self.findings.add_all(
            (judge.newest(first, above, self.probe.now()), judge.page(first, below))
        )
        if self.probe.strays:
            self.findings.add(judge.strays(self.probe.strays, first))
        self.findings.add(judge.hint(first, below))
        more = bool((below.ids | above.ids) - first.ids)
        return RelaySample(first, more, self.known)

    async def _first(self) -> ReqExchange:
        # Some relays send nothing for an empty filter. Others send nothing for a filter with only
        # times.
        first = await self.read(Filter(since=0, limit=PAGE))
        if first.end is ExchangeEnd.ANSWERED and not first.events and not self.probe.strays:
            first = await self.read(Filter(kinds=[1], limit=PAGE))
        return first

    async def parts(self, sample: RelaySample) -> None:
        """Read parts of the page with every condition that a filter can have."""
        events = sample.page.matching
        await self._by_conditions(sample, events)
        await self._by_absent()
        await self._by_ids(events)
        await self._seconds(events)
        await self._small(events)
        await self._several(sample, events)
        await self._long_id()
        await self._refusal()
        await self._deleted()

    async def _by_conditions(self, sample: RelaySample, events: Sequence[Event]) -> None:
        """Test that filters of authors, kinds and tags return the events that the page contains."""
        author, kind = Counter((one.pubkey, one.kind) for one in events).most_common(1)[0][0]
        asked = [Filter(authors=[author], kinds=[kind], limit=PAGE)]
        for kind, _ in Counter(one.kind for one in events).most_common(_KINDS):
            tag = rare_tag([one for one in events if one.kind == kind])
            if tag is not None:
                asked.append(Filter(tags={f"#{tag[0]}": [tag[1]]}, limit=PAGE))
        for one in asked:
            reading = await self.read(one)
            if not sample.is_whole(reading):
                continue
            known = {event.id for event in events if one.matches(event)}
            what = f"do not come for {one.to_json()}"
            self.findings.add(judge.known_come("read.filter", reading, known, what))

    async def _by_absent(self) -> None:
        """Send filters that match no event. A relay that ignores a condition sends other events."""
        for one in (Filter(kinds=[_NO_KIND]), Filter(authors=[_NOBODY]), Filter(tags=_NO_TAG)):
            await self.read(one.replace(limit=_FEW))

    async def _by_ids(self, events: Sequence[Event]) -> None:
        ids = [one.id for one in spread(events, _SOME)]
        reading = await self.read(Filter(ids=[*ids, "0" * 64]))
        self.findings.add(judge.known_come("read.ids", reading, ids, "do not come by their ids"))

    async def _seconds(self, events: Sequence[Event]) -> None:
        """Test one second inside the page, with `since` and `until` in one filter."""
        inside = sorted({one.created_at for one in events})[1:-1]
        if not inside:
            self.findings.skip("its events are of too few seconds", "read.range")
            return
        second = inside[len(inside) // 2]
        known = {one.id for one in events if one.created_at == second}
        one = Filter(since=second, until=second, limit=PAGE)
        both = await self.read(one)
        wider: dict[str, ReqExchange] = {}
        if not known <= both.ids:
            wider["until"] = await self.read(one.replace(until=second + 1))
            wider["since"] = await self.read(one.replace(since=second - 1))
        self.findings.add(judge.seconds(second, both, wider, known))

    async def _small(self, events: Sequence[Event]) -> None:
        """Test a limit below the number of events that the relay has."""
        if len(events) < 2:
            self.findings.skip("it serves too few events", "read.limit", "read.order")
            return
        reading = await self.read(Filter(since=0, limit=min(_FEW, len(events) - 1)))
        self.findings.add(judge.exactly(reading, events))
        self.findings.skip("its events are of one second", "read.order")

    async def _several(self, sample: RelaySample, events: Sequence[Event]) -> None:
        """Test a REQ with two filters of one second each."""
        seconds = sorted({one.created_at for one in events})
        if len(seconds) < 2:
            self.findings.skip("its events are of too few seconds", "read.union")
            return
        third = (len(seconds) - 1) // 3
        low, high = seconds[third], seconds[-1 - third]
        asked = [Filter(since=at, until=at, limit=PAGE) for at in (low, high)]
        alone = [await self.read(one) for one in asked]
        both = await self.read(*asked)
        if all(sample.is_whole(one) for one in (*alone, both)):
            known = frozenset().union(*(one.ids for one in alone))
            what = "for each of two filters do not come for both"
            self.findings.add(judge.known_come("read.union", both, known, what))
        self.findings.skip("a second of its events cannot be read to its end", "read.union")

    async def _long_id(self) -> None:
        reading = await self.probe.read(Filter(since=0, limit=1), sub_id=_LONG_ID)
        self.findings.add(judge.long_id(reading))

    async def _refusal(self) -> None:
        given = await self.probe.read_raw({"kinds": ["one"], "limit": 1})
        self.findings.add(judge.refusal(given))

    async def _deleted(self) -> None:
        """Test whether the relay serves events that its own deletions name."""
        deletions = (await self.read(Filter(kinds=[DELETION], limit=_IDS))).matching
        ids = list(dict.fromkeys(gone for one in deletions for gone in deletion(one).ids))[:_IDS]
        if not ids:
            self.findings.skip("it has no deletion of an event", "read.deleted")
            return
        served = await self.read(Filter(ids=ids))
        self.findings.add(judge.deleted(deletions, served))


def rare_tag(events: Sequence[Event]) -> tuple[str, str] | None:
    """Return a `p` or `e` tag value that few of these events have.

    One page can then hold all events with the value.
    """
    found = Counter(
        (name, value)
        for one in events
        for name in ("p", "e")
        for value in {*one.tag_values(name)}
        if len(value) == 64
    )
    return min(found, key=lambda tag: (found[tag], tag), default=None)


def spread(events: Sequence[Event], most: int) -> Sequence[Event]:
    """Return some of these events, spread over all."""
    step = max(1, len(events) // most)
    return events[::step][:most]
