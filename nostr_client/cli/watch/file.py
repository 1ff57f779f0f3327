"""The watches of a store's file, for commands; an agent offers the same for its own."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from nostr_client.cli.output import say
from nostr_client.cli.place import StoredWatch, StoreOrAgent, agent_at
from nostr_client.codecs.relay_url import normalize
from nostr_client.counters.engine import moves
from nostr_client.errors import InvalidInput, SchemaTooOld
from nostr_client.watch import digest_rows, people_rows, points
from nostr_client.watch.definition import shown
from nostr_client.watch.digest import Digest, excluded_of
from nostr_client.watch.moved import spark
from nostr_client.watch.repository import WatchRepository

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from nostr_client.cli.place import WatchCommands
    from nostr_client.count.figures import CountReport, RelayOverlaps
    from nostr_client.count.result import CountResult
    from nostr_client.watch.definition import Watch
    from nostr_client.watch.digest import WatchDigest
    from nostr_client.watch.history import Point
    from nostr_client.watch.people import People


@asynccontextmanager
async def watches_at(
    place: StoreOrAgent, *, changes: bool = False, merges: bool = False, makes: bool = False
) -> AsyncIterator[WatchCommands]:
    """Yield the watches of a place: through the agent that holds the store, for `changes`.

    Also for `merges`, as the agent's configuration has the trusted relays. A missing store is
    created only if `makes`. Raises StoreError, ApiError, NetworkError.
    """
    async with agent_at(place, holds=changes or merges) as agent:
        if agent is not None:
            yield agent
            return
    path = place.path if makes or not changes else place.there
    async with await _opened(path, changes=changes) as book:
        yield FileWatches(book)


async def _opened(path: Path, *, changes: bool) -> WatchRepository:
    """Open a store to read beside its writer; bring an older version up to date first."""
    if changes:
        return await WatchRepository.open(path)
    try:
        return await WatchRepository.open(path, read_only=True)
    except SchemaTooOld:
        return await WatchRepository.open(path)


def unknown(name: str) -> InvalidInput:
    """Return the error for an unknown watch."""
    return InvalidInput(f"no watch is named {name!r}")


class FileWatches:
    """The watches of an open store."""

    def __init__(self, book: WatchRepository) -> None:
        self._book = book

    async def watches(self) -> list[StoredWatch]:
        return [await self._kept(watch, asked) for watch, asked in await self._book.all()]

    async def watch(self, name: str) -> StoredWatch:
        return await self._kept(*await self._get(name))

    async def _get(self, name: str) -> tuple[Watch, int | None]:
        found = await self._book.get(name)
        if found is None:
            raise unknown(name)
        return found

    async def _kept(self, watch: Watch, asked: int | None) -> StoredWatch:
        database, name = self._book.database, watch.name
        newest = await database.read(lambda conn: points.series(conn, name, most=1))
        if not newest:
            return StoredWatch(shown(watch), asked, None)
        now = int(time.time())
        line = await database.read(lambda conn: spark(conn, name, now))
        return StoredWatch(shown(watch), asked, newest[-1], line)

    async def explain(self, name: str) -> CountReport:
        made, asked = await self._get(name)
        return (await self._result(made, asked)).counted(made.left_out)

    async def overlaps(self, name: str) -> RelayOverlaps:
        from nostr_client.count.overlaps import overlaps_of

        return overlaps_of(await self._result(*await self._get(name)))

    async def _result(self, made: Watch, asked: int | None) -> CountResult:
        """Return the number of a watch from the claims in the store, as of its newest round."""
        from nostr_client.count.procedure import CountEngine

        return await CountEngine(book=self._book.claims).explain(
            made.question,
            await self._asked_of(made, asked),
            policy=made.trust,
            trusted=made.trusted,
            left_out=made.left_out,
            at=asked,
        )

    async def _asked_of(self, made: Watch, asked: int | None) -> dict[str, str] | None:
        """Return the relays of a watch by normalised URL: its own, else those that it last asked.

        The store has other relays' claims on the same question too, as for `count --store`. None
        (all of them) for a watch that an older version asked, which did not record its relays.
        """
        found = made.relays or await self._book.relays(made.name)
        if found is None and asked is not None:
            say(f"{made.name}: all relays that were ever asked about it, until it is asked again")
            return None
        return {normalize(url): url for url in found or ()}

    async def points(self, name: str, since: int) -> list[Point]:
        await self._get(name)
        return await self._book.history(name, since=since)

    async def people(self, name: str, since: int, limit: int) -> People:
        made, asked = await self._get(name)
        urls = await self._counted(made, asked)
        counted = await self.explain(name)
        return await self._book.database.read(
            lambda conn: people_rows.read(
                conn,
                made.question,
                since,
                int(time.time()),
                urls=urls,
                excluded=excluded_of(counted),
                figure=counted.figure,
                limit=limit,
            )
        )

    async def digest(self, since: int) -> Digest:
        now = int(time.time())
        found = [await self._changed(*one, since, now) for one in await self._book.all()]
        read = self._book.database.read
        return Digest(
            since=since,
            until=now,
            watches=tuple(found),
            counters=await read(lambda conn: moves.read(conn, since)),
            coverages=await read(digest_rows.low_coverages),
        )

    async def _counted(self, made: Watch, asked: int | None) -> set[str] | None:
        """Return the normalised relays that count for a watch; None: all that were asked."""
        relays = await self._asked_of(made, asked)
        return None if relays is None else relays.keys() - made.left_out

    async def _changed(self, made: Watch, asked: int | None, since: int, now: int) -> WatchDigest:
        urls = await self._counted(made, asked)
        excluded = excluded_of(await self.explain(made.name))
        return await self._book.database.read(
            lambda conn: digest_rows.read(
                conn, made.name, made.question, since, now, urls=urls, excluded=excluded
            )
        )

    async def add_watch(self, watch: Watch) -> Watch:
        await self._book.add(watch)
        return shown(watch)

    async def set_watch(self, watch: Watch) -> Watch:
        await self._get(watch.name)
        await self._book.set(watch)
        return shown(watch)

    async def remove_watch(self, name: str) -> None:
        if not await self._book.remove(name):
            raise unknown(name)
