"""Push one counter: read the remote value, decide, store the decision, and send.

After any doubt, read again.
"""

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
    from nostr_client.store.file.database import Database

NOT_NOW: Final = 500
"""Lowest status with which a server reports a temporary failure, not a refusal."""


@dataclass(frozen=True, slots=True)
class PushRound:
    """Values that all pushes of one round share.

    The store records pushes under `target` and `origin`. `into` is the remote stream.
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
        """Return the remote value of a counter from the stream's leader.

        Another member of the cluster may lag.
        """
        try:
            message = await self.remote.last_message(self.into, subject)
        except CounterError as error:
            if error.code != counting.NO_MESSAGE:
                raise
            return NOTHING
        return RemoteValue(parse_integer(counting.read_body(message.body)), message.seq)

    async def send(self, subject: str, flight: Flight) -> bool:
        """Publish once. Return whether the answer confirms the wanted value."""
        ack = await self.bound.publish(subject, flight.delta, msg_id=flight.msg_id)
        return ack.val == flight.want and not ack.duplicate

    async def remember(self, subject: str, known: PushRecord) -> None:
        now = self.clock()

        def work(conn: sqlite3.Connection) -> None:
            rules.remember(conn, self.target, self.origin, {subject: known}, now)

        await self.database.write(work)


class CounterPush:
    """Push of one counter in one round. Call `run` once, then read the result.

    `doubt` is why the result is unknown. `refused` is the text of the server's refusal.
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
        """Set the remote value to the local value, as far as the answers allow."""
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
        """Read, and send if the values differ. Return whether the push is finished.

        Raises the errors that leave the result in doubt.
        """
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
        """Store a record before acting on it.

        After a crash in between, the push is then known to be in doubt.
        """
        if known != self._known:
            await self._round.remember(self.subject, known)
            self._known = known
