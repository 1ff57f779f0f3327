"""Two relays brought to the same events without a store: ids are compared here, events pass by.

Each relay lists its ids by negentropy (32 bytes each), or by REQ where it does not know that; what
only one of them has goes to the other, verified on its way.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from nostr_client.errors import RelayError
from nostr_client.sync.memory import LocalMemory
from nostr_client.sync.mode import Mode
from nostr_client.sync.options import SyncOptions
from nostr_client.sync.procedure import Syncer
from nostr_client.sync.report import RelayReport, SyncReport, SyncStatus
from nostr_client.sync.tally import RelayOut, Tally
from nostr_client.sync.uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nostr_client.event import Event
    from nostr_client.filters import Filter
    from nostr_client.relay import Relay
    from nostr_client.sync.procedure import OnProgress, Question

_LISTING = Mode(ids_only=True, keep_ids=True, by_req=True)


class Ferry:
    """Gives the events of ids from one relay, for `Uploads` to another; counts into `tally`."""

    def __init__(self, source: Relay, options: SyncOptions, tally: Tally) -> None:
        self._source = source
        self._options = options
        self._tally = tally

    async def query(self, filters: Sequence[Filter]) -> list[Event]:
        """The events that the source sends; what it does not send is counted. Raises RelayOut."""
        wanted = sum(len(one.ids or ()) for one in filters)
        for _ in range(self._options.tries):
            try:
                page = await self._source.fetch(filters, self._options.progress)
            except RelayError as error:
                why = str(error)
                await asyncio.sleep(self._options.pause)
                continue
            self._tally.downloaded += len(page.events)
            self._tally.hidden += wanted - len(page.events)
            return [one.event for one in page.events]
        self._tally.lacks(f"downloads: {why}")
        raise RelayOut(f"nothing more comes from {self._source.url}")


async def mirror(
    question: Question,
    relays: tuple[tuple[str, Relay], tuple[str, Relay]],
    *,
    options: SyncOptions | None = None,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
    now: Callable[[], float] = time.time,
) -> SyncReport:
    """Copy both ways between two relays, each given as (the user's spelling, relay).

    In the report `need` of a relay is what the other one lacks, `have` what it lacks itself. Raises
    InvalidInput for a bad question. Safe to cancel; a later run copies what is left.
    """
    options = options or SyncOptions()
    memory = LocalMemory(now)
    listed = await Syncer(None, options=options, memory=memory, now=now).sync(
        question, relays, _LISTING
    )
    first, second = (set(one.missing_here) for one in listed.relays)
    only = (first - second, second - first)
    tallies = [Tally(name, relay) for name, relay in relays]
    if all(one.status is SyncStatus.COMPLETE for one in listed.relays) and not dry_run:
        await _copy(tallies, only, options, memory, on_progress)
    reports = [
        _joined(one, tally, len(only[at]), len(only[1 - at]))
        for at, (one, tally) in enumerate(zip(listed.relays, tallies, strict=True))
    ]
    both = len(only[0]) + len(only[1])
    return SyncReport(relays=tuple(reports), need=both, have=both, events=listed.events)


async def _copy(
    tallies: Sequence[Tally],
    only: tuple[set[str], set[str]],
    options: SyncOptions,
    memory: LocalMemory,
    on_progress: OnProgress | None,
) -> None:
    async with asyncio.TaskGroup() as group:
        for at, target in enumerate(tallies):
            source = tallies[1 - at]
            ferry = Ferry(source.relay, options, source)
            uploads = Uploads(target.relay, ferry, memory, options, target)
            uploads.put([bytes.fromhex(key) for key in sorted(only[1 - at])])
            uploads.finish()
            group.create_task(_run(uploads, target, tallies, on_progress))


async def _run(
    uploads: Uploads, target: Tally, tallies: Sequence[Tally], on_progress: OnProgress | None
) -> None:
    try:
        await uploads.run()
    except* RelayOut as errors:
        target.lacks("; ".join(str(one) for one in errors.exceptions))
    if on_progress is not None:
        on_progress([one.report() for one in tallies])


def _joined(listed: RelayReport, tally: Tally, need: int, have: int) -> RelayReport:
    """What was listed and what was copied, as one report."""
    copied = tally.report()
    status = listed.status if listed.status is not SyncStatus.COMPLETE else copied.status
    return msgspec.structs.replace(
        listed,
        status=status,
        reason="; ".join(text for text in (listed.reason, copied.reason) if text),
        need=need,
        have=have,
        downloaded=copied.downloaded,
        uploaded=copied.uploaded,
        bytes_sent=listed.bytes_sent + copied.bytes_sent,
        bytes_received=listed.bytes_received + copied.bytes_received,
        hidden=copied.hidden,
        refused=copied.refused,
        missing_here=(),
    )
