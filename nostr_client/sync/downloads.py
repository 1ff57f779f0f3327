"""Download events from one relay by ids. Each event is verified and stored as it comes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from nostr_client.codecs.display import plural
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.reasons import Reason, classify
from nostr_client.errors import (
    DeadlineExceeded,
    HeldBack,
    InvalidEvent,
    NetworkError,
    ProtocolError,
    RelayError,
    RelayRefused,
)
from nostr_client.network.ingest import Skip, plain
from nostr_client.store.base import SaveOutcome
from nostr_client.sync.memory import BROKE, NOT_SENT, UNASKED, UNSOUND
from nostr_client.sync.tally import RelayOut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.network.ingest import Ingest, Result
    from nostr_client.network.relay import Relay
    from nostr_client.sync.download_queue import DownloadQueue
    from nostr_client.sync.memory import RefusalNote
    from nostr_client.sync.options import SyncOptions
    from nostr_client.sync.tally import RelayTally


class _Reply:
    """The ids that one REQ brought."""

    def __init__(self) -> None:
        self.came: set[bytes] = set()
        self.unasked: set[bytes] = set()
        """Ids of events that match no filter of the sync. They are not verified."""
        self.unsound: set[bytes] = set()
        """Ids of events with an invalid id or signature."""
        self.declined: list[bytes] = []
        """Ids of events that no store keeps."""


class Downloads:
    """Downloads from one relay. An event that matches none of `filters` is not stored."""

    def __init__(
        self,
        relay: Relay,
        queue: DownloadQueue,
        ingest: Ingest,
        filters: Sequence[Filter],
        options: SyncOptions,
        tally: RelayTally,
    ) -> None:
        self._relay = relay
        self._queue = queue
        self._ingest = ingest
        self._filters = filters
        self._options = options
        self._tally = tally

    async def run(self) -> None:
        """Download the ids that the queue assigns, until cancelled.

        Several may run. Raises RelayOut.
        """
        failures = 0
        while True:
            ids = await self._queue.take(self._relay.url, self._options.batch)
            try:
                await self._relay.connect()
                error = await self._fetch(ids)
            except NetworkError as broken:
                error = broken
            finally:
                self._queue.give_back(self._relay.url, ids)
            failures = failures + 1 if error else 0
            if error is not None:
                await self._trouble(error, failures)

    async def _fetch(self, ids: Sequence[bytes]) -> RelayError | None:
        """Ask until a REQ brings nothing. Return None then, or the error that ended the requests.

        A relay may send less than requested because it caps an answer. The ids that are left when a
        REQ brings nothing are noted as not sent. An id with an invalid event is not requested again
        in this run, because its event takes the place of another one. If a frame ended the
        connection, each of the ids may be the cause. They wait before the next request, because
        otherwise every run would request the same ids again.
        """
        left = dict.fromkeys(ids)
        before = len(left) + 1
        while 0 < len(left) < before:
            before = len(left)
            error = await self._request(left)
            if isinstance(error, ProtocolError):
                await self._withheld(list(left), BROKE)
            elif isinstance(error, (NetworkError, DeadlineExceeded)):
                self._queue.was_cut(self._relay.url, left)
            if error is not None:
                return error
        await self._withheld(list(left), NOT_SENT)
        return None

    async def _request(self, left: dict[bytes, None]) -> RelayError | None:
        """Send one REQ, and remove the ids that come from `left`."""
        error: RelayError | None = None
        reply = _Reply()
        wanted = Filter(ids=[key.hex() for key in left])
        async with self._relay.subscribe(wanted, live=False) as page:
            try:
                await self._ingest.take(
                    page,
                    wanted=self._filters,
                    silence=self._options.progress,
                    settle=partial(self._settle, reply),
                )
                error = page.error
            except TimeoutError:
                text = f"no answer to REQ within {self._options.progress:g} s"
                error = DeadlineExceeded(text, relay=self._relay.url)
        for key in (*reply.came, *reply.unasked, *reply.unsound):
            left.pop(key, None)
        await self._queue.declined(reply.declined)
        await self._withheld(list(reply.unasked - reply.came), UNASKED)
        await self._withheld(list(reply.unsound - reply.came - reply.unasked), UNSOUND)
        return error

    def _settle(
        self,
        reply: _Reply,
        events: Sequence[Event | VerifiedEvent],
        results: Sequence[Result],
    ) -> None:
        """Count stored events at once, so that no relay is asked for them again."""
        outcomes = [one for one in results if isinstance(one, SaveOutcome)]
        reply.came.update(bytes.fromhex(one.id) for one in outcomes)
        if Skip.UNWANTED in results:  # all events of this call are unwanted
            reply.unasked.update(bytes.fromhex(plain(one).id) for one in events)
        reply.unsound.update(
            bytes.fromhex(plain(one).id)
            for one, result in zip(events, results, strict=True)
            if isinstance(result, InvalidEvent)
        )
        self._tally.saves(outcomes)
        self._tally.moves += len(outcomes)
        reply.declined += self._queue.saved(outcomes)

    async def _withheld(self, ids: Sequence[bytes], note: RefusalNote) -> None:
        if not ids:
            return
        await self._queue.withheld(self._relay.url, dict.fromkeys(ids, note))
        tally = self._tally
        tally.hidden += len(ids)
        if tally.hidden > self._options.unsent + 4 * tally.downloaded:
            raise RelayOut(f"it named {plural(tally.hidden, 'id')} and sent no event of these")

    async def _trouble(self, error: RelayError, failures: int) -> None:
        """Handle a failed REQ, the `failures`-th in a row: wait if the relay asks for it, or give
        up.
        """
        if failures >= self._options.tries:
            raise RelayOut(f"downloads: {error}") from error
        if isinstance(error, HeldBack):
            await asyncio.sleep(error.seconds)
        elif isinstance(error, RelayRefused) and classify(error.reason) is Reason.RATE_LIMITED:
            await asyncio.sleep(self._options.pause * 2 ** (failures - 1))
