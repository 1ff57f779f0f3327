"""Import events from lines of JSON into a store, and export them, in constant memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from nostr_client.codecs.event import Event
from nostr_client.codecs.filters import Filter
from nostr_client.errors import InvalidEvent, InvalidInput
from nostr_client.network.ingest import Flow, Ingest, IngestOptions, Skip
from nostr_client.network.verifier import ThreadVerifier
from nostr_client.network.waiting import in_own_thread
from nostr_client.store.base import SaveOutcome, SaveStatus
from nostr_client.store.event_lines import CUT_OFF, Lines, OpenArrays, parse_event_line, read_lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.network.ingest import Result
    from nostr_client.store.event_lines import NumberedLine

    Progress = Callable[[int, int], None]

CHUNK = 256
"""Lines that one thread parses, and events that it verifies, at a time."""

BATCH = 40_960
"""Events of one commit.

A commit writes each page of the indexes once, and most commits touch most pages. A few large
commits therefore write less. The events take about 130 MB of memory.
"""

BATCH_BYTES = 64 * 2**20
"""Bytes of events after which a batch ends early. Long follow lists would fill the memory."""

CACHE_MB = 256
"""Megabytes of the store's page cache for a large import.

The pages of one commit fit, so none is written or read twice. Only a store of hundreds of thousands
of events needs all of it.
"""

AHEAD = 1.25
"""Events in memory, in batches. During one commit, a quarter of the next batch is verified."""

THREADS = 2
"""Threads that parse, and threads that check signatures.

Rows and SQL leave little time for more.
"""

REASONS_KEPT = 20
"""Most different reasons in a report. A hostile file could cause one for each line."""

REASONS_COUNTED = 1_000
"""Most different reasons that are counted at a time, in about 0.5 MB."""

OTHER = "other"
"""Stands in a report for all reasons that it does not name."""


class ImportStore(Protocol):
    """The methods of a store that an import uses."""

    async def save(self, events: Sequence[VerifiedEvent]) -> list[SaveOutcome]: ...

    async def held(self, ids: Sequence[str]) -> set[str]: ...

    async def query(self, filters: Sequence[Filter]) -> list[Event]: ...


class ImportReport(msgspec.Struct):
    """Counts of a file's events by result, and of its invalid lines.

    `lines` counts both. Blank lines and the brackets of an array are not counted.
    """

    lines: int = 0
    bytes: int = 0
    statuses: dict[SaveStatus, int] = {}
    reasons: dict[str, int] = {}
    """Counts of INVALID lines by reason: the REASONS_KEPT most frequent reasons, and "other"."""
    first_lines: dict[str, int] = {}
    """For each of these reasons, the number of the first line that has it, over all files."""

    @property
    def stored(self) -> int:
        return self.statuses.get(SaveStatus.STORED, 0)

    @property
    def whole(self) -> bool:
        """True if every line was an event with a valid id and signature."""
        return not self.reasons


async def import_jsonl(
    store: ImportStore, lines: Lines, progress: Progress | None = None
) -> ImportReport:
    """Verify and save the event of every line. Count the other lines with reasons and places.

    `event_lines` describes the forms of lines. A broken last line is one invalid line, and so is an
    unfinished array over several lines. `progress` gets lines and bytes so far. Raises StoreError
    and DamagedInput. Events that were saved before stay. Events before the damage in a file are
    saved. After a cancellation the committed events stay, and another import continues.
    """
    tally = _Tally(progress)
    source = _Source(lines)
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(THREADS, thread_name_prefix="import") as threads:
        async with _ingest(store) as ingest:
            flow = Flow(ingest)
            while chunks := await in_own_thread(partial(source.take, THREADS)):
                jobs = [loop.run_in_executor(threads, parse_lines, chunk) for chunk in chunks]
                parsed = [one for part in await asyncio.gather(*jobs) for one in part]
                found = tally.read(chunks, parsed)
                events = [one.event for one in found]
                await flow.put(events, "", partial(tally.settle, found))
            await flow.settled()
    report = tally.report()
    if source.broken is not None:
        raise DamagedInput(source.broken, report) from source.broken
    return report


@asynccontextmanager
async def _ingest(store: ImportStore) -> AsyncIterator[Ingest]:
    """Open an ingest whose verifier remembers nothing, because a file seldom repeats an event.

    A store that has no event holds nothing of the file, and is not asked about each event of it.
    """
    held = store.held if await store.query([Filter(limit=1)]) else None
    verifier = ThreadVerifier(chunk=CHUNK, workers=THREADS, remember=0)
    try:
        async with Ingest(store, _options(), verifier=verifier, known=held) as ingest:
            yield ingest
    finally:
        await verifier.close()


def _options() -> IngestOptions:
    """Return options for large commits, because no user waits for one line of a file."""
    return IngestOptions(
        batch=BATCH,
        batch_bytes=BATCH_BYTES,
        full=True,
        waiting=int(AHEAD * BATCH),
        waiting_bytes=int(AHEAD * BATCH_BYTES),
    )


class DamagedInput(InvalidInput):
    """The input is damaged; `report` counts the lines before the damage."""

    def __init__(self, error: InvalidInput, report: ImportReport) -> None:
        super().__init__(f"{error}; what came before is kept" if report.lines else str(error))
        self.report = report


class _Source:
    """Lists of lines of an input.

    If the input is broken, the lists before the damage come first. `broken` is then the error.
    """

    def __init__(self, lines: Lines) -> None:
        self._lists = read_lines(lines, CHUNK)
        self.broken: InvalidInput | None = None

    def take(self, most: int) -> list[list[NumberedLine]]:
        """Return the next `most` lists. There are fewer only at the end or at the damage."""
        taken: list[list[NumberedLine]] = []
        try:
            if self.broken is None:
                taken.extend(islice(self._lists, most))
        except InvalidInput as error:
            self.broken = error
        return taken


class _Placed(msgspec.Struct, frozen=True, gc=False):
    """An event and the number of its line."""

    line: int
    event: Event


class _Refused(NamedTuple):
    """Why a line, or an event in it, is refused."""

    line: int
    error: InvalidEvent


def parse_lines(lines: Sequence[NumberedLine]) -> list[_Placed | _Refused]:
    """Return the events of each line, or why the line has none."""
    return [
        _Placed(line.number, one) if isinstance(one, Event) else _Refused(line.number, one)
        for line in lines
        for one in parse_event_line(line.text)
    ]


class ReasonTally:
    """Counts reasons, each with the number of its first line, in bounded memory.

    Only the more frequent half of REASONS_COUNTED different reasons stays when there are more. The
    counts of the others go to "other". So a reason of more than one line in 500 is reported, also
    if it comes late. Its count may lack the lines from before its last return.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first_lines: dict[str, int] = {}
        self._other = 0
        self._other_line = 0

    def add(self, reason: str, line: int = 0) -> None:
        """Count a reason of one line."""
        self._counts[reason] += 1
        self._first_lines[reason] = min(line, self._first_lines.get(reason, line))
        if len(self._counts) > REASONS_COUNTED:
            for rare, number in self._counts.most_common()[REASONS_COUNTED // 2 :]:
                self._put_away(rare, number)

    def _put_away(self, reason: str, number: int) -> None:
        del self._counts[reason]
        line = self._first_lines.pop(reason)
        self._other_line = min(line, self._other_line) if self._other else line
        self._other += number

    def most_frequent(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the counts and the first lines of REASONS_KEPT reasons, and of "other" last."""
        kept = self._counts.most_common(REASONS_KEPT)
        for rare, number in self._counts.most_common()[REASONS_KEPT:]:
            self._put_away(rare, number)
        counts, lines = dict(kept), dict(self._first_lines)
        if self._other:
            counts[OTHER], lines[OTHER] = self._other, self._other_line
        return counts, lines


class _Tally:
    """Counts lines, outcomes and reasons as they come."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._lines = 0
        self.bytes = 0
        self._statuses: Counter[SaveStatus] = Counter()
        self._reasons = ReasonTally()
        self._arrays = OpenArrays()

    def read(
        self, chunks: Sequence[Sequence[NumberedLine]], parsed: Sequence[_Placed | _Refused]
    ) -> list[_Placed]:
        self._lines += len(parsed)
        for line in chain.from_iterable(chunks):
            self.bytes += len(line.text) + 1
            self._arrays.pass_line(line.number, line.text)
        if self._progress is not None:
            self._progress(self._lines, self.bytes)
        self._refused(parsed)
        return [one for one in parsed if isinstance(one, _Placed)]

    def settle(self, found: Sequence[_Placed], events: object, results: Sequence[Result]) -> None:
        """Count the results of events. `found` has the line of each event."""
        for placed, result in zip(found, results, strict=True):
            if isinstance(result, SaveOutcome):
                self._statuses[result.status] += 1
            elif isinstance(result, InvalidEvent):
                self._refused([_Refused(placed.line, result)])
            elif result is Skip.KNOWN:
                self._statuses[SaveStatus.DUPLICATE] += 1

    def _refused(self, results: Sequence[object]) -> None:
        for one in results:
            if isinstance(one, _Refused):
                self._statuses[SaveStatus.INVALID] += 1
                self._reasons.add(str(one.error), one.line)

    def report(self) -> ImportReport:
        """Return the counts after all lines were read."""
        if (begun := self._arrays.first) is not None:
            self._lines += 1
            self._refused([_Refused(begun, InvalidEvent(CUT_OFF))])
        return ImportReport(
            self._lines,
            self.bytes,
            {status: number for status, number in self._statuses.items() if number},
            *self._reasons.most_frequent(),
        )


async def export_jsonl(events: AsyncIterator[Event], write: Callable[[bytes], object]) -> int:
    """Write each event as one canonical JSON line. Return the number of events."""
    number = 0
    async for event in events:
        write(event.to_json().encode() + b"\n")
        number += 1
    return number
