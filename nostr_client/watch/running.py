"""Rounds over stored watches: what is due is asked, and the numbers go into the history."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from nostr_client.claims import is_answer
from nostr_client.count.remembering import merge_input, remembered
from nostr_client.watch.schedule import due, next_due

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence

    from nostr_client.count.asking import CountOptions
    from nostr_client.count.procedure import Counter
    from nostr_client.count.result import CountResult
    from nostr_client.merge import Claim
    from nostr_client.relay import Relay
    from nostr_client.watch.book import WatchBook
    from nostr_client.watch.definition import Watch

    Relays = dict[str, Sequence[tuple[str, Relay]]]
    Lacks = dict[str, str]
    Choose = Callable[[Sequence[Watch]], Awaitable[tuple[Relays, Lacks]]]
    OnLost = Callable[[Mapping[str, str]], None]

AT_ONCE: Final = 64
"""Watches asked at the same time: each holds a request at each of its relays."""

TOGETHER: Final = 64
"""Watches whose numbers are kept in one piece: a crash has at most these asked again."""

LONGEST_PAUSE: Final = 60.0
"""Seconds after which stored watches are looked at again: others may have added some."""


class Runner:
    """Asks stored watches when they are due; connections and claims are shared by all of them.

    `choose` gives the relays of watches, by name, for a whole round at once, and why others have
    none; a watch that it leaves out is not asked. `now` gives Unix seconds.
    """

    def __init__(
        self,
        book: WatchBook,
        counter: Counter,
        choose: Choose,
        *,
        options: CountOptions | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._book = book
        self._counter = counter
        self._choose = choose
        self._options = options
        self._now = now
        self._lost: dict[str, str] = {}
        self._records: list[Callable[[sqlite3.Connection], None]] = []

    async def round(
        self,
        names: Collection[str] | None = None,
        *,
        all_of_them: bool = False,
        on_lost: OnLost | None = None,
    ) -> dict[str, CountResult]:
        """Ask what is due, or `all_of_them`, once; the results by name. Raises StoreError.

        `names`: these watches alone. `on_lost` is told those without a relay to ask, by name, each
        with a sentence that says why; empty where it names none and none are looked for.
        """
        known = await self._known(names)
        chosen = [w for w, _ in known] if all_of_them else due(known, self._now())
        relays, lacks = await self._choose(chosen)
        self._lost = {w.name: lacks.get(w.name, "") for w in chosen if not relays.get(w.name)}
        if on_lost is not None and self._lost:
            on_lost(self._lost)
        room = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            tasks = {
                watch.name: group.create_task(self._ask(watch, relays[watch.name], room))
                for watch in chosen
                if relays.get(watch.name)
            }
        await self._write()
        return {name: task.result() for name, task in tasks.items()}

    async def run(
        self, names: Collection[str] | None = None, *, on_lost: OnLost | None = None
    ) -> AsyncIterator[tuple[str, CountResult]]:
        """Round after round, until the iteration is left; the results as rounds end.

        `on_lost` as in `round`, each time; relays for those are looked for again after
        LONGEST_PAUSE at the latest.
        """
        while True:
            for name, result in (await self.round(names, on_lost=on_lost)).items():
                yield name, result
            known = [pair for pair in await self._known(names) if pair[0].name not in self._lost]
            at = next_due(known, self._now())
            wait = LONGEST_PAUSE if at is None else at - self._now()
            await asyncio.sleep(min(max(wait, 0.1), LONGEST_PAUSE))

    async def _known(self, names: Collection[str] | None) -> list[tuple[Watch, float | None]]:
        found = await self._book.all()
        return [(watch, at) for watch, at in found if names is None or watch.name in names]

    async def _ask(
        self, watch: Watch, relays: Sequence[tuple[str, Relay]], room: asyncio.Semaphore
    ) -> CountResult:
        async with room:
            claims = await self._counter.claims(watch.query, relays, self._options)
        earlier: dict[str, Claim] = {}
        fresh = claims
        if not all(is_answer(claim) for _, claim in claims):
            book, now = self._book.claims, self._now()
            earlier = await remembered(book, watch.query, dict(claims), now)
            fresh = []
        shown, used = merge_input(claims, earlier)
        result = self._counter.result(
            watch.query,
            shown,
            [one for (url, _), one in zip(claims, used, strict=True) if url not in watch.left_out],
            policy=watch.policy,
            trusted=watch.trusted,
        )
        self._records.append(self._book.recording(watch.name, self._now(), result, fresh))
        if len(self._records) >= TOGETHER:
            await self._write()
        return result

    async def _write(self) -> None:
        """Keep what was gathered, in one piece."""
        records, self._records = self._records, []

        def work(conn: sqlite3.Connection) -> None:
            for record in records:
                record(conn)

        await self._book.database.write(work)
