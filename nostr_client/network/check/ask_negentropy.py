"""Ask a relay to compare events that it has just served (NIP-77)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from nostr_client.codecs.filters import Filter
from nostr_client.negentropy.encoding import ID_LIST, PROTOCOL_VERSION, varint
from nostr_client.negentropy.storage import seal
from nostr_client.network.check import judge_negentropy as judge
from nostr_client.network.check.answers import ExchangeEnd
from nostr_client.network.check.ask_reading import PAGE
from nostr_client.network.check.findings import tests_of
from nostr_client.network.check.judge_reading import RECENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.negentropy.storage import Storage
    from nostr_client.network.check.answers import NegExchange
    from nostr_client.network.check.ask_reading import ReadCheck, RelaySample
    from nostr_client.network.check.findings import Findings
    from nostr_client.network.check.probe import Probe

_PAGES: Final = 3
"""Pages after the first one that are read for a large comparison."""

_SMALL: Final = 60
"""Most events in the window of a session that begins without local events."""

_IDS: Final = 50
_FRAME_BYTES: Final = 40_000
"""Bytes of the long message before hex.

A sync sends messages of this size to a relay that states no limit.
"""


class Comparer:
    """Runs every test of NIP-77."""

    def __init__(
        self, probe: Probe, findings: Findings, reader: ReadCheck, sample: RelaySample
    ) -> None:
        self._probe = probe
        self._findings = findings
        self._reader = reader
        self._sample = sample

    async def run(self, longest: int | None, *, listed: bool) -> None:
        """Run the tests.

        `longest`: characters of a message that the relay says it accepts. `listed`: the document
        lists NIP-77. Raises NetworkError, CheckSpent.
        """
        small = await self._small()
        if small is None:
            why = "its events are of too few seconds to be compared"
            self._findings.skip(why, *tests_of("neg"))
            return
        filter, events = small
        compared = await self._probe.compare(filter, seal([]))
        self._findings.add(judge.refused(compared, listed=listed))
        if not compared.first:
            self._findings.skip(f"no session began: {compared.in_words}", *tests_of("neg"))
            return
        await self._names(compared, events)
        await self._snapshot()
        await self._forms(filter, longest)

    async def _small(self) -> tuple[Filter, Sequence[Event]] | None:
        """Return a time window, with its events, that was read to its end."""
        times = sorted({one.created_at for one in self._sample.page.matching}, reverse=True)
        inside = [at for at in times if at < self._probe.now() - RECENT]
        if not inside:
            return None
        filter = Filter(since=inside[min(_SMALL, len(inside) - 1)], until=inside[0])
        reading = await self._reader.read(filter.replace(limit=PAGE))
        return (filter, reading.matching) if self._sample.is_whole(reading) else None

    async def _names(self, compared: NegExchange, events: Sequence[Event]) -> None:
        self._findings.add(judge.names(compared, events))
        beyond = sorted(compared.need - {one.id for one in events})[:_IDS]
        if beyond:
            served = await self._reader.read(Filter(ids=beyond))
            self._findings.add(judge.withheld(frozenset(beyond), served))

    async def _snapshot(self) -> None:
        """Compare all events of some pages. Missing ids show that the relay caps its snapshot."""
        events = await self._pages()
        low, high = min(events.values()), max(events.values())
        inside = {key: at for key, at in events.items() if low < at or not self._sample.more}
        if not inside:
            self._findings.skip("its events are of one second", "neg.snapshot")
            return
        filter = Filter(since=min(inside.values()), until=high)
        compared = await self._probe.compare(filter, _sealed(inside))
        held = [one for key, one in self._reader.known.items() if key in inside]
        self._findings.add(judge.snapshot(compared, held))
        if compared.end is not ExchangeEnd.ANSWERED:
            self._findings.skip(f"a large session: {compared.in_words}", "neg.snapshot")

    async def _pages(self) -> dict[str, int]:
        """Return times by id of the events of the first pages, in descending order."""
        found = {one.id: one.created_at for one in self._sample.page.matching}
        for _ in range(_PAGES if self._sample.more else 0):
            oldest = min(found.values())
            page = await self._reader.read(Filter(since=0, until=oldest, limit=PAGE))
            before = len(found)
            found |= {one.id: one.created_at for one in page.matching}
            if len(found) == before:
                break
        return found

    async def _forms(self, filter: Filter, longest: int | None) -> None:
        """Send an unknown version, an invalid message and a long message."""
        self._findings.add(judge.version(await self._probe.negotiate(filter, "62")))
        self._findings.add(judge.refusal(await self._probe.negotiate(filter, "61zz")))
        most = min(_FRAME_BYTES, (longest or 4 * _FRAME_BYTES) // 2 - 500)
        if most < 1000:
            self._findings.skip("it takes no long messages", "neg.frame")
            return
        message = _long_message(most)
        given = await self._probe.negotiate(filter, message.hex())
        self._findings.add(judge.frame(given, 2 * len(message)))


def _sealed(events: dict[str, int]) -> Storage:
    return seal((at, bytes.fromhex(key)) for key, at in events.items())


def _long_message(size: int) -> bytes:
    """Return a message that lists unknown ids over the whole time range."""
    count = size // 32
    ids = b"".join(sorted(hashlib.sha256(varint(n)).digest() for n in range(count)))
    everything = varint(0) + varint(0)  # the bound above all items
    return bytes([PROTOCOL_VERSION]) + everything + varint(ID_LIST) + varint(count) + ids
