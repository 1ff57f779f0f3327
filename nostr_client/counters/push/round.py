"""One counter's turn: read it there, decide, remember, send, and read again after any doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nostr_client.counters import rules as counting
from nostr_client.counters.base import NoStream
from nostr_client.counters.push import rules
from nostr_client.counters.push.rules import (
    NOTHING,
    Even,
    Flight,
    PushRecord,
    RemoteValue,
    Stop,
    decide,
)
from nostr_client.counters.rules import parse_integer
from nostr_client.errors import CounterError, RelayError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from nostr_client.counters.base import Counters, CounterStore
    from nostr_client.store.database import Database

NOT_NOW: Final = 500
"""A status from which on a server says that it cannot at the moment, not that it will not."""


@dataclass(frozen=True, slots=True)
class PushRound:
    """What all turns of one round share.

    `target` and `origin` say under what the store remembers, `into` is the stream there.
    """

    database: Database
    clock: Callable[[], int]
    remote: CounterStore
    bound: Counters
    into: str
    target: str
    origin: str
    confirmed: bool

    async def read(self, subject: str) -> RemoteValue:
        """A counter there as its leader has it: a member that lags must not answer this."""
        try:
            message = await self.remote.last_message(self.into, subject)
        except CounterError as error:
            if error.code != counting.NO_MESSAGE:
                raise
            return NOTHING
        return RemoteValue(parse_integer(counting.read_body(message.body)), message.seq)

    async def send(self, subject: str, flight: Flight) -> bool:
        """Publish once; whether the answer says that the value there is what we want."""
        ack = await self.bound.publish(subject, flight.delta, msg_id=flight.msg_id)
        return ack.val == flight.want and not ack.duplicate

    async def remember(self, subject: str, known: PushRecord) -> None:
        now = self.clock()

        def work(conn: sqlite3.Connection) -> None:
            rules.remember(conn, self.target, self.origin, {subject: known}, now)

        await self.database.write(work)


class CounterPush:
    """One counter in one round; `run` it once, then read what became of it.

    `doubt`: why it is not known whether it is there; `refused`: what the server said.
    """

    def __init__(self, shared: PushRound, subject: str, local: int, known: PushRecord) -> None:
        self.subject = subject
        self.local = local
        self.sent = 0
        self.even = False
        self.surprise = False
        self.stop: Stop | None = None
        self.doubt = ""
        self.refused = ""
        self._known = known
        self._round = shared

    async def run(self, attempts: int) -> None:
        """Bring the value there to the value here, as far as the answers allow."""
        for _ in range(attempts):
            try:
                if await self._step():
                    self.doubt = ""
                    return
                self.doubt = "it has moved there: read again"
            except (RelayError, NoStream) as error:
                self.doubt = str(error)
            except CounterError as error:
                if error.status < NOT_NOW:
                    self.refused, self.doubt = str(error), ""
                    return
                self.doubt = str(error)

    async def _step(self) -> bool:
        """Read and, where it differs, send; whether that was all. Raises what leaves doubt."""
        found = await self._round.read(self.subject)
        origin = f"{self._round.origin}:{self.subject}"
        confirmed = self._round.confirmed
        step = decide(origin, self._known, self.local, found, confirmed=confirmed)
        if isinstance(step, Stop):
            self.stop = step
            return True
        self.surprise = self.surprise or step.surprise
        doubted = self._known.doubted()
        if isinstance(step, Even):
            self.sent += self._known.flight is not None
            self.even = True
            await self._know(PushRecord(found.value, None, doubted.late))
            return True
        again = step.flight == self._known.flight
        await self._know(PushRecord(found.value, step.flight, doubted.late))
        return await self._send(step.flight, again=again)

    async def _send(self, flight: Flight, *, again: bool) -> bool:
        try:
            moved = await self._round.send(self.subject, flight)
        except CounterError as error:
            if error.status < NOT_NOW and not again and not isinstance(error, NoStream):
                await self._know(PushRecord(self._known.acked, None, self._known.late))
            raise
        if not moved:
            return False
        self.sent += 1
        self.even = flight.want == self.local
        await self._know(PushRecord(flight.want, None, self._known.late))
        return self.even

    async def _know(self, known: PushRecord) -> None:
        """Remember first, act then: a crash in between finds the push in doubt."""
        if known != self._known:
            await self._round.remember(self.subject, known)
            self._known = known
