"""Ask a relay to count events that it has just served."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from nostr_client import hll
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.kinds import COMMENT, CONTACTS, REACTION
from nostr_client.network.check import judge_counting as judge
from nostr_client.network.check.ask_reading import PAGE, rare_tag, spread
from nostr_client.network.check.findings import CheckOutcome, tests_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nostr_client.network.check.answers import CountExchange, ReqExchange
    from nostr_client.network.check.ask_reading import ReadCheck, RelaySample
    from nostr_client.network.check.findings import Finding, Findings
    from nostr_client.network.check.probe import Probe

_SKETCHED: Final = ((CONTACTS, "p"), (REACTION, "e"), (COMMENT, "E"), (1, "p"), (1, "e"))
"""Kinds and tags for which relays compute registers, the most widely supported first."""

_MOST: Final = 5
"""Filters whose counts are compared."""

_SKETCHES: Final = 3
"""Filters whose registers are compared."""


_NO_SET: Final = "it serves no set of events that can be read to its end"
_NO_SKETCH: Final = "none of the events that were read has a tag for which relays send registers"


class CountCheck:
    """Sends COUNT for the relay's number, and REQ for the true number."""

    def __init__(
        self, probe: Probe, findings: Findings, reader: ReadCheck, sample: RelaySample
    ) -> None:
        self._probe = probe
        self._findings = findings
        self._reader = reader
        self._sample = sample

    async def run(self, *, listed: bool) -> None:
        """Run all tests of COUNT.

        `listed`: the relay's document lists NIP-45. Raises NetworkError, CheckSpent.
        """
        first = await self._probe.count(Filter(authors=["0" * 63 + "1"], kinds=[1]))
        self._findings.add(judge.refused(first, listed=listed))
        if first.count is None:
            why = f"it gives no count: {first.in_words}"
            self._findings.skip(why, *tests_of("count"))
            return
        self._findings.add(judge.exact(first, ()))
        await self._exact()
        await self._union()
        await self._limit()
        await self._zero()
        await self._registers()

    async def _exact(self) -> None:
        lacks = [await self._compare(one) for one in list(self._filters())[:_MOST]]
        self._findings.skip(next(filter(None, lacks), _NO_SET), "count.exact")

    async def _registers(self) -> None:
        asked = list(self._sketched())[:_SKETCHES]
        lacks = [await self._compare(one, registers=True) for one in asked]
        why = next(filter(None, lacks), _NO_SET if asked else _NO_SKETCH)
        self._findings.skip(why, "count.registers")

    async def _compare(self, filter: Filter, *, registers: bool = False) -> str:
        """Count and read. Repeat once if the results differ, because an event may have arrived
        meanwhile.

        Returns why the results cannot be compared, or "" if they can.
        """
        before = await self._whole(filter)
        if before is None:
            return _NO_SET
        counted = await self._probe.count(filter)
        findings = _judged(counted, before, registers)
        if any(one.outcome is not CheckOutcome.RIGHT for one in findings):
            counted = await self._probe.count(filter)
            after = await self._whole(filter)
            if after is None or after.ids != before.ids:
                return "its events change while they are counted"
            findings = _judged(counted, after, registers)
        self._findings.add(judge.refused(counted))
        self._findings.add_all(findings)
        return "" if counted.count is not None else f"it gives no count: {counted.in_words}"

    async def _whole(self, filter: Filter) -> ReqExchange | None:
        asked = filter.replace(limit=PAGE) if filter.ids is None else filter
        reading = await self._reader.read(asked)
        return reading if self._sample.is_whole(reading) else None

    def _filters(self) -> Iterator[Filter]:
        """Return filters with different conditions, all of which match some events of the relay."""
        events = self._sample.page.matching
        times = sorted({one.created_at for one in events})
        (author, kind), _ = Counter((one.pubkey, one.kind) for one in events).most_common()[-1]
        yield Filter(authors=[author], kinds=[kind])
        if (tag := rare_tag(events)) is not None:
            yield Filter(tags={f"#{tag[0]}": [tag[1]]})
        yield Filter(ids=[one.id for one in spread(events, 5)])
        middle = times[len(times) // 2]
        yield Filter(since=middle, until=times[min(len(times) // 2 + 20, len(times) - 1)])
        yield Filter(kinds=[kind], since=times[0], until=middle)

    def _sketched(self) -> Iterator[Filter]:
        """Return filters with registers, each for the most frequent tag value of a kind."""
        for kind, name in _SKETCHED:
            events = [one for one in self._sample.page.matching if one.kind == kind]
            found = Counter(v for one in events for v in {*one.tag_values(name)} if len(v) == 64)
            for value, _ in found.most_common(1):
                filter = Filter(kinds=[kind], tags={f"#{name}": [value]})
                if hll.eligible(filter.to_dict()):
                    yield filter

    async def _union(self) -> None:
        """Test a COUNT with two filters that share events, neither of which contains the other."""
        filters = self._crossing()
        if filters is None:
            self._findings.skip("no two filters over its events overlap", "count.union")
            return
        each = [await self._whole(one) for one in filters]
        if any(one is None for one in each):
            self._findings.skip(
                "the events of two filters cannot be read to their end", "count.union"
            )
            return
        counted = await self._probe.count(*filters)
        ids = [one.ids for one in each if one is not None]
        truth = len(frozenset().union(*ids))
        if counted.count is None:
            self._findings.skip(f"it gives no count: {counted.in_words}", "count.union")
        self._findings.add(judge.union(counted, [len(one) for one in ids], truth))

    def _crossing(self) -> tuple[Filter, Filter] | None:
        """Return two time windows that overlap, with different numbers of events."""
        times = sorted(one.created_at for one in self._sample.page.matching)
        if len(set(times)) < 6:
            return None
        few = times[-min(len(times), 60) :]
        at = [few[0], few[len(few) // 3], few[len(few) // 2], few[-1]]
        if len(set(at)) < 4:
            return None
        return Filter(since=at[0], until=at[2]), Filter(since=at[1], until=at[3])

    async def _limit(self) -> None:
        events = self._sample.page.matching
        filter = Filter(ids=[one.id for one in spread(events, 4)])
        served = await self._reader.read(filter)
        if len(served.ids) < 2:
            self._findings.skip("it holds too few events", "count.limit")
            return
        counted = await self._probe.count(filter.replace(limit=1))
        self._findings.add(judge.limited(counted, len(served.ids)))

    async def _zero(self) -> None:
        given = await self._probe.count_raw({"authors": ["no key"], "kinds": [1]})
        self._findings.add(judge.false_zero(given))


def _judged(counted: CountExchange, reading: ReqExchange, registers: bool) -> list[Finding]:
    found = [judge.exact(counted, reading.matching)]
    if registers:
        found.append(judge.registers(counted, reading.matching))
    return [one for one in found if one is not None]
