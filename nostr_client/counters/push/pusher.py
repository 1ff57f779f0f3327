"""Push the counters of a local stream to the remote subjects of this agent."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from nostr_client.codecs.display import plural
from nostr_client.counters.push import rules
from nostr_client.counters.push.report import PushReport, Stopped, full_note
from nostr_client.counters.push.round import CounterPush, PushRound
from nostr_client.counters.push.rules import PushRecord
from nostr_client.counters.subjects import is_subject
from nostr_client.errors import CounterError, RelayError
from nostr_client.network.waiting import task_group

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nostr_client.counters.base import CounterStore
    from nostr_client.counters.push.report import PushOptions
    from nostr_client.counters.sqlite import SqliteCounterStore

LOOKED_AT = 16
"""Most totals whose source maps one round reads. Each can have 64 KB."""


class Pusher:
    """Makes the counters of a remote stream equal to those of the local stream, round by round.

    - `local`: the store of the local stream.
    - `stream`: the name of the local stream.
    - `target`: a name for the remote place. The store remembers its pushes under this name.
    - `clock`: a function that returns nanoseconds.

    A Pusher needs no connection between two rounds.
    """

    def __init__(
        self,
        local: SqliteCounterStore,
        stream: str,
        target: str,
        options: PushOptions,
        *,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._local = local
        self._stream = stream
        self._target = target
        self._options = options
        self._clock = clock

    async def push(self, remote: CounterStore, *, confirmed: bool = False) -> PushReport:
        """Compare all counters, and push the counters that differ.

        A remote value may be larger than the local value, although this Pusher never pushed so
        much. Without `confirmed`, the round does not change such a value. With `confirmed`, the
        round reduces it to the local value. A cancelled or interrupted round never counts anything
        twice, because the next round reads first. Raises NoStream if a stream does not exist, and
        CounterError if it has no counters. Raises StoreError, NetworkError and DeadlineExceeded if
        the round cannot read the values.
        """
        database, options = self._local.database, self._options
        origin, seq = await database.read(lambda conn: rules.origin(conn, self._stream))
        values, left_out = await self._values()
        bound = await remote.counters(options.into)
        there = {subject: value async for subject, value in bound.load_many(options.own)}
        known = await database.read(lambda conn: rules.known(conn, self._target, origin))
        shared = PushRound(
            database, self._clock, remote, bound, options.into, self._target, origin, confirmed
        )
        turns = [
            CounterPush(shared, subject, value, known.get(subject, PushRecord()))
            for subject, value in values.items()
            if not _is_even(value, there.get(subject), known.get(subject))
        ]
        await self._run(turns)
        notes = await self._notes(remote, [turn.subject for turn in turns if turn.sent], left_out)
        return _report(values, turns, notes, left_out=left_out, seq=seq)

    async def _values(self) -> tuple[dict[str, int], int]:
        """Return the local values by remote subject, and how many counters are left out.

        Counters are left out if there are too many or their subjects are too long.
        """
        bound = await self._local.counters(self._stream)
        values: dict[str, int] = {}
        left_out = 0
        async for subject, value in bound.load_many(*self._options.patterns):
            target = self._options.target(subject)
            if len(values) >= self._options.most_subjects or not is_subject(target):
                left_out += 1
            else:
                values[target] = value
        return values, left_out

    async def _run(self, turns: Sequence[CounterPush]) -> None:
        room = asyncio.Semaphore(self._options.at_once)

        async def one(turn: CounterPush) -> None:
            async with room:
                await turn.run(self._options.attempts)

        async with task_group() as group:
            for turn in turns:
                group.create_task(one(turn))

    async def _notes(self, remote: CounterStore, sent: Sequence[str], left_out: int) -> list[str]:
        notes = [f"{plural(left_out, 'counter')} too many, or too long"] if left_out else []
        if not self._options.total:
            return notes
        try:
            return notes + await self._about_total(remote, sent)
        except (CounterError, RelayError) as error:
            return [*notes, f"{self._options.total}: {error}"]

    async def _about_total(self, remote: CounterStore, sent: Sequence[str]) -> list[str]:
        """Return notes on the summing stream: stalled sources, and source maps that grow full."""
        name = self._options.total
        info = await remote.stream_info(name)
        stalled = [f"{name} <- {s.name}: {s.stalled}" for s in info.sources if s.stalled]
        targets = (source.target(subject) for source in info.config.sources for subject in sent)
        totals = [target for target in targets if target is not None][:LOOKED_AT]
        if not totals:
            return stalled
        bound = await remote.counters(name)
        notes = [full_note(entry) async for entry in bound.get_many(*totals)]
        return stalled + [note for note in notes if note is not None]


def _is_even(value: int, there: int | None, known: PushRecord | None) -> bool:
    """Return whether there is nothing to do.

    The remote value equals the local value, and no push is in doubt.
    """
    return there == value and known is not None and known.acked == value and known.flight is None


def _report(
    values: Mapping[str, int],
    turns: Sequence[CounterPush],
    notes: Sequence[str],
    *,
    left_out: int,
    seq: int,
) -> PushReport:
    surprised = [f"{t.subject} was changed there by somebody else" for t in turns if t.surprise]
    last = max((turn.subject for turn in turns if turn.sent), default="")
    return PushReport(
        subjects=len(values),
        even=len(values) - sum(not turn.even for turn in turns),
        sent=sum(turn.sent for turn in turns),
        doubtful=tuple((t.subject, t.doubt) for t in turns if t.doubt),
        stopped=tuple(Stopped(t.subject, t.stop.found, t.stop.local) for t in turns if t.stop),
        refused=tuple((t.subject, t.refused) for t in turns if t.refused),
        notes=(*notes, *surprised),
        left_out=left_out,
        seq=seq,
        last_subject=last,
        last_value=values[last] if last else None,
    )
