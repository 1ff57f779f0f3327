"""JSONL in and out of a store, in constant memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

import msgspec

from nostr_client.errors import InvalidEvent
from nostr_client.event import Event, parse_event
from nostr_client.keys import VerifiedEvent, verify_many
from nostr_client.store.base import Status
from nostr_client.store.lines import LINE_LIMIT, Lines, read_lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from nostr_client.store.base import Outcome

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
    """What became of the lines; blank lines are not counted."""

    lines: int = 0
    bytes: int = 0
    statuses: dict[Status, int] = {}
    reasons: dict[str, int] = {}
    """Why lines are INVALID: the most frequent, at most REASONS_KEPT and "other"."""

    @property
    def stored(self) -> int:
        return self.statuses.get(Status.STORED, 0)


async def import_jsonl(
    store: Target, lines: Lines, progress: Progress | None = None
) -> ImportReport:
    """Verify and save every line that is an event; the rest is counted, with reasons.

    A line is read to LINE_LIMIT bytes; a broken last line is one invalid line. `progress` gets
    lines and bytes so far. Raises StoreError; what was saved before stays. Cancelled, it keeps
    what was committed, and importing again continues.
    """
    tally = _Tally(progress)
    source = read_lines(lines, CHUNK)
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
    store: Target, source: Iterator[list[bytes]], threads: ThreadPoolExecutor, tally: _Tally
) -> list[VerifiedEvent] | None:
    """The verified events of the next chunks; None at the end of the lines."""
    loop = asyncio.get_running_loop()
    batch: list[VerifiedEvent] = []
    end = tally.bytes + BATCH_BYTES
    for turn in range(0, BATCH, THREADS):
        if tally.bytes >= end:
            break
        chunks = await loop.run_in_executor(threads, _take, source, THREADS)
        if not chunks:
            return batch if turn else None
        parsed = [loop.run_in_executor(threads, parse_lines, chunk) for chunk in chunks]
        events = tally.read(chunks, [one for part in await asyncio.gather(*parsed) for one in part])
        held = await store.held([event.id for event in events])
        fresh = tally.known(events, held)
        parts = [fresh[at : at + CHUNK] for at in range(0, len(fresh), CHUNK)]
        jobs = [loop.run_in_executor(threads, verify_many, part) for part in parts]
        batch.extend(tally.checked([one for part in await asyncio.gather(*jobs) for one in part]))
    return batch


def _take(source: Iterator[list[bytes]], most: int) -> list[list[bytes]]:
    return [lines for _, lines in zip(range(most), source, strict=False)]


def parse_lines(lines: Sequence[bytes]) -> list[Event | InvalidEvent]:
    """Each line as an event, or why it is none."""
    return [_parse(line) for line in lines]


def _parse(line: bytes) -> Event | InvalidEvent:
    if len(line) > LINE_LIMIT:
        return InvalidEvent("a line of more than 16 MiB")
    try:
        return parse_event(line)
    except InvalidEvent as error:
        return error


class _Tally:
    """Counts lines, outcomes and reasons while they come."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._lines = 0
        self.bytes = 0
        self._statuses: Counter[Status] = Counter()
        self._reasons: Counter[str] = Counter()

    def read(
        self, chunks: Sequence[Sequence[bytes]], parsed: Sequence[Event | InvalidEvent]
    ) -> list[Event]:
        self._lines += len(parsed)
        self.bytes += sum(len(line) + 1 for chunk in chunks for line in chunk)
        if self._progress is not None:
            self._progress(self._lines, self.bytes)
        self._refused(parsed)
        return [one for one in parsed if isinstance(one, Event)]

    def known(self, events: Sequence[Event], held: set[str]) -> list[Event]:
        fresh = [event for event in events if event.id not in held]
        self._statuses[Status.DUPLICATE] += len(events) - len(fresh)
        return fresh

    def checked(self, results: Sequence[VerifiedEvent | InvalidEvent]) -> list[VerifiedEvent]:
        self._refused(results)
        return [one for one in results if isinstance(one, VerifiedEvent)]

    def saved(self, outcomes: Sequence[Outcome]) -> None:
        self._statuses.update(outcome.status for outcome in outcomes)

    def _refused(self, results: Sequence[object]) -> None:
        for one in results:
            if isinstance(one, InvalidEvent):
                self._statuses[Status.INVALID] += 1
                reason = str(one)
                full = len(self._reasons) >= REASONS_KEPT and reason not in self._reasons
                self._reasons["other" if full else reason] += 1

    def report(self) -> ImportReport:
        return ImportReport(
            self._lines,
            self.bytes,
            {status: number for status, number in self._statuses.items() if number},
            dict(self._reasons.most_common()),
        )


async def export_jsonl(events: AsyncIterator[Event], write: Callable[[bytes], object]) -> int:
    """Write each event as one canonical JSON line; how many."""
    number = 0
    async for event in events:
        write(event.to_json().encode() + b"\n")
        number += 1
    return number
