"""JSONL in and out of a store, in constant memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from nostr_client.errors import InvalidEvent, InvalidInput
from nostr_client.event import Event
from nostr_client.keys import VerifiedEvent, verify_many
from nostr_client.store.base import Status
from nostr_client.store.event_lines import CUT_OFF, OpenArrays, parse_event_line
from nostr_client.store.lines import Lines, read_lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from nostr_client.store.base import Outcome
    from nostr_client.store.lines import Line

    Progress = Callable[[int, int], None]

CHUNK = 256
"""Lines that one thread parses and verifies at a time."""

BATCH = 80
"""Chunks of one commit: twenty thousand events touch each page of the indexes once, not often;
they take some 100 MB of memory."""

BATCH_BYTES = 32 * 2**20
"""Bytes of lines after which a batch ends sooner: long follow lists would fill the memory."""

THREADS = 2
"""Signatures are checked without the GIL; rows and SQL leave little for a third thread."""

REASONS_KEPT = 20
"""Different reasons that a report tells apart; a hostile file could make one for each line."""


class Target(Protocol):
    """What an import needs of a store."""

    async def save(self, events: Sequence[VerifiedEvent]) -> list[Outcome]: ...

    async def held(self, ids: Sequence[str]) -> set[str]: ...


class ImportReport(msgspec.Struct):
    """What became of the events of a file, and of the lines that hold none.

    `lines` counts both; blank lines and the brackets of an array are not counted.
    """

    lines: int = 0
    bytes: int = 0
    statuses: dict[Status, int] = {}
    reasons: dict[str, int] = {}
    """Why lines are INVALID: the most frequent, at most REASONS_KEPT and "other"."""
    first_lines: dict[str, int] = {}
    """For each of these reasons the number of the first line that has it, over all files."""

    @property
    def stored(self) -> int:
        return self.statuses.get(Status.STORED, 0)

    @property
    def whole(self) -> bool:
        """True when every line was an event whose id and signature hold."""
        return not self.reasons


async def import_jsonl(
    store: Target, lines: Lines, progress: Progress | None = None
) -> ImportReport:
    """Verify and save the events of every line; the rest is counted, with reasons and places.

    `event_lines` says which forms are read. A broken last line is one invalid line, and so is an
    array over several lines that does not end. `progress` gets lines and bytes so far. Raises
    StoreError; what was saved before stays. Cancelled, it keeps what was committed, and importing
    again continues.
    """
    tally = _Tally(progress)
    source = _Source(lines)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="import") as threads:
        verified = await _next_batch(store, source, threads, tally)
        while verified is not None:
            saving = asyncio.ensure_future(store.save(verified))
            try:
                verified = await _next_batch(store, source, threads, tally)
            finally:
                tally.saved(await saving)
    return tally.report()


async def _next_batch(
    store: Target, source: _Source, threads: ThreadPoolExecutor, tally: _Tally
) -> list[VerifiedEvent] | None:
    """The verified events of the next chunks; None at the end of the lines."""
    loop = asyncio.get_running_loop()
    batch: list[VerifiedEvent] = []
    end = tally.bytes + BATCH_BYTES
    for turn in range(0, BATCH, THREADS):
        if tally.bytes >= end:
            break
        try:
            chunks = await loop.run_in_executor(threads, source.take, THREADS)
        except InvalidInput:
            if not turn:
                raise
            break  # the next batch raises it, when this one is saved
        if not chunks:
            return batch if turn else None
        parsed = [loop.run_in_executor(threads, parse_lines, chunk) for chunk in chunks]
        found = tally.read(chunks, [one for part in await asyncio.gather(*parsed) for one in part])
        held = await store.held([one.event.id for one in found])
        fresh = tally.known(found, held)
        parts = [fresh[at : at + CHUNK] for at in range(0, len(fresh), CHUNK)]
        jobs = [loop.run_in_executor(threads, _verify, part) for part in parts]
        batch.extend(tally.checked([one for part in await asyncio.gather(*jobs) for one in part]))
    return batch


class _Source:
    """The lists of lines of an input; where it cannot be read on, those before come first."""

    def __init__(self, lines: Lines) -> None:
        self._lists = read_lines(lines, CHUNK)
        self._broken: InvalidInput | None = None

    def take(self, most: int) -> list[list[Line]]:
        """The next `most` lists, fewer only at the end. Raises InvalidInput."""
        if self._broken is not None:
            raise self._broken
        taken: list[list[Line]] = []
        try:
            taken.extend(islice(self._lists, most))
        except InvalidInput as error:
            self._broken = error
            if not taken:
                raise
        return taken


class _Placed(NamedTuple):
    """An event and the line that it stands in."""

    line: int
    event: Event


class _Refused(NamedTuple):
    """Why a line, or an event in it, is not taken."""

    line: int
    error: InvalidEvent


def parse_lines(lines: Sequence[Line]) -> list[_Placed | _Refused]:
    """The events of each line, or why it has none."""
    return [
        _Placed(line.number, one) if isinstance(one, Event) else _Refused(line.number, one)
        for line in lines
        for one in parse_event_line(line.text)
    ]


def _verify(found: Sequence[_Placed]) -> list[VerifiedEvent | _Refused]:
    results = verify_many([one.event for one in found])
    return [
        result if isinstance(result, VerifiedEvent) else _Refused(one.line, result)
        for one, result in zip(found, results, strict=True)
    ]


class _Tally:
    """Counts lines, outcomes and reasons while they come."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._lines = 0
        self.bytes = 0
        self._statuses: Counter[Status] = Counter()
        self._reasons: Counter[str] = Counter()
        self._first_lines: dict[str, int] = {}
        self._arrays = OpenArrays()

    def read(
        self, chunks: Sequence[Sequence[Line]], parsed: Sequence[_Placed | _Refused]
    ) -> list[_Placed]:
        self._lines += len(parsed)
        for line in chain.from_iterable(chunks):
            self.bytes += len(line.text) + 1
            self._arrays.pass_line(line.number, line.text)
        if self._progress is not None:
            self._progress(self._lines, self.bytes)
        self._refused(parsed)
        return [one for one in parsed if isinstance(one, _Placed)]

    def known(self, found: Sequence[_Placed], held: set[str]) -> list[_Placed]:
        fresh = [one for one in found if one.event.id not in held]
        self._statuses[Status.DUPLICATE] += len(found) - len(fresh)
        return fresh

    def checked(self, results: Sequence[VerifiedEvent | _Refused]) -> list[VerifiedEvent]:
        self._refused(results)
        return [one for one in results if isinstance(one, VerifiedEvent)]

    def saved(self, outcomes: Sequence[Outcome]) -> None:
        self._statuses.update(outcome.status for outcome in outcomes)

    def _refused(self, results: Sequence[object]) -> None:
        for one in results:
            if isinstance(one, _Refused):
                self._statuses[Status.INVALID] += 1
                reason = str(one.error)
                full = len(self._reasons) >= REASONS_KEPT and reason not in self._reasons
                kept = "other" if full else reason
                self._reasons[kept] += 1
                self._first_lines[kept] = min(one.line, self._first_lines.get(kept, one.line))

    def report(self) -> ImportReport:
        """What became of all lines, once they have all been read."""
        if (begun := self._arrays.first) is not None:
            self._lines += 1
            self._refused([_Refused(begun, InvalidEvent(CUT_OFF))])
        return ImportReport(
            self._lines,
            self.bytes,
            {status: number for status, number in self._statuses.items() if number},
            dict(self._reasons.most_common()),
            self._first_lines,
        )


async def export_jsonl(events: AsyncIterator[Event], write: Callable[[bytes], object]) -> int:
    """Write each event as one canonical JSON line; how many."""
    number = 0
    async for event in events:
        write(event.to_json().encode() + b"\n")
        number += 1
    return number
