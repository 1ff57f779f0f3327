"""Uploads to one relay: events in flight between two water marks, and what the answers mean."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from nostr_client.errors import DeadlineExceeded, NetworkError, RelayError, RelayRefused
from nostr_client.filters import Filter
from nostr_client.gate import Gate
from nostr_client.keys import stored_event
from nostr_client.kinds import ENCRYPTED_MESSAGE, GIFT_WRAP
from nostr_client.reasons import Reason, classify
from nostr_client.sync.memory import Side
from nostr_client.sync.tally import RelayOut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.event import Event
    from nostr_client.relay import Relay
    from nostr_client.sync.memory import SyncMemory
    from nostr_client.sync.options import SyncOptions
    from nostr_client.sync.tally import Tally

_READ: Final = 100
"""Events read from the store at once."""

_CLOSED_DOOR: Final = 20
"""Refusals for who we are, in a row from the first event on, after which no more are sent."""

_UNLISTED: Final = (ENCRYPTED_MESSAGE, GIFT_WRAP)
"""Kinds that relays do not list to strangers: it shows when they have what they seemed to lack."""

_FOR_US: Final = (Reason.AUTH_REQUIRED, Reason.RESTRICTED)


class Source(Protocol):
    """Where the events of ids come from: a store, or another relay."""

    async def query(self, filters: Sequence[Filter]) -> list[Event]:
        """The events that match; those that are gone are left out."""
        ...


class Uploads:
    """See the module; fill it by `have`, say `finish`, and `run` ends when all is settled."""

    def __init__(
        self,
        relay: Relay,
        source: Source,
        memory: SyncMemory,
        options: SyncOptions,
        tally: Tally,
    ) -> None:
        self._relay = relay
        self._source = source
        self._memory = memory
        self._options = options
        self._tally = tally
        self._queue: deque[bytes] = deque()
        self._again: deque[tuple[Event, int]] = deque()
        self._flying = 0
        self._draining = False
        self._answered = False
        self._strange = 0
        self._limited = False
        self._pauses = 0
        self._finished = False
        self._ended = False
        self._gate = Gate()

    def put(self, ids: Sequence[bytes]) -> None:
        """Events that the relay lacks; each once."""
        self._queue.extend(ids)
        self._gate.wake()

    async def room(self, most: int) -> None:
        """Wait until fewer than so many ids wait, or nothing is sent any more."""
        await self._gate.wait(lambda: len(self._queue) < most or self._ended)

    def finish(self) -> None:
        """No more will be put."""
        self._finished = True
        self._gate.wake()

    async def run(self) -> None:
        """Send until all is answered. Raises RelayOut; safe to cancel."""
        try:
            await self._run()
        finally:
            self._ended = True
            self._gate.wake()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                await self._gate.wait(lambda: self._queue or self._again or self._over())
                if not (self._queue or self._again):
                    return
                if self._limited:
                    await self._pause()
                for event, tries in await self._next():
                    await self._gate.wait(self._may_fly)
                    self._flying += 1
                    group.create_task(self._send(event, tries))

    def _over(self) -> bool:
        return self._finished and not self._flying

    def _may_fly(self) -> bool:
        """Below the high mark; once it was reached, below the low one.

        The first goes alone: a relay that wants AUTH, or nothing from us, says so once.
        """
        if not self._answered:
            return not self._flying
        if self._flying >= self._options.high_water:
            self._draining = True
        elif self._flying <= self._options.low_water:
            self._draining = False
        return not self._draining

    async def _next(self) -> list[tuple[Event, int]]:
        if self._again:
            return [self._again.popleft()]
        ids = [self._queue.popleft() for _ in range(min(_READ, len(self._queue)))]
        self._gate.wake()
        events = await self._source.query([Filter(ids=[key.hex() for key in ids])])
        return [(event, 0) for event in events]

    async def _pause(self) -> None:
        """Let what is under way end, and wait, longer each time."""
        if self._pauses > self._options.tries + 1:
            raise RelayOut("uploads: rate-limited, again and again")
        await self._gate.wait(lambda: not self._flying)
        await asyncio.sleep(self._options.pause * 2**self._pauses)
        self._pauses += 1
        self._limited = False

    async def _send(self, event: Event, tries: int) -> None:
        try:
            verified = stored_event(event)
            ok = await self._relay.publish(verified, self._options.progress, paced=True)
        except RelayRefused as error:
            await self._refused(event, tries, error)
        except (NetworkError, DeadlineExceeded) as error:
            self._retry(event, tries, error)
        except RelayError as error:
            self._tally.lacks(f"uploads: {error}")
        else:
            self._tally.uploaded += 1
            self._tally.moves += 1
            self._pauses = 0
            if ok.reason is Reason.DUPLICATE and event.kind in _UNLISTED:
                await self._settle(event)
        finally:
            self._answered = True
            self._flying -= 1
            self._gate.wake()

    async def _refused(self, event: Event, tries: int, error: RelayRefused) -> None:
        reason = classify(error.reason)
        if reason in (Reason.RATE_LIMITED, Reason.TOO_MANY):
            self._limited = True
            self._again.append((event, tries))
            return
        if reason is Reason.ERROR:
            self._retry(event, tries, error)
            return
        self._tally.moves += 1
        self._strange += reason in _FOR_US
        if reason is Reason.AUTH_REQUIRED:  # another run may have a key
            self._tally.lacks(f"uploads: {error.reason}")
        else:
            self._tally.refused += 1
            await self._settle(event)
        if self._strange >= _CLOSED_DOOR and not self._tally.uploaded:
            raise RelayOut(f"it takes no events from us: {error.reason}") from error

    async def _settle(self, event: Event) -> None:
        """Do not hand it to this relay again for a while."""
        key = bytes.fromhex(event.id)
        await self._memory.settle(self._relay.url, Side.UP, [key], self._options.settled_ttl)

    def _retry(self, event: Event, tries: int, error: RelayError) -> None:
        if tries + 1 < self._options.tries:
            self._again.append((event, tries + 1))
        else:
            self._tally.lacks(f"uploads: {error}")
