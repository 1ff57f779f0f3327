"""A process that writes to a store by every door while its disk fails, and prints what it did.

Run as `python -m tests.unit.store.fault_process STORE SEED FAULTS`. A line is `open`, or a verb and
what it is about: `try`, `ok`, `no` (refused), `fault`. After the last fault it prints `end` and
writes on until it is killed. Faults: files that may not grow (RLIMIT_FSIZE), a page limit of the
store or of its index (SQLite's own SQLITE_FULL), and descriptors that refuse writes.
"""

from __future__ import annotations

import asyncio
import random
import resource
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nostr_client.codecs.filters import Filter
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.engine.schema import MIGRATIONS
from nostr_client.counters.sqlite.store import SqliteCounterStore
from nostr_client.errors import CounterError, StoreError
from nostr_client.store.index import update as index_update
from nostr_client.store.index.keeper import Index
from nostr_client.store.index.update import ALIAS
from nostr_client.store.options import StoreOptions
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW, make
from tests.unit.store.writer_process import Swap

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Iterator

    from nostr_client.codecs.keys import VerifiedEvent

STREAM = StreamConfig(name="app", subjects=("app.>",), allow_msg_counter=True)
HOT = 4


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Doors:
    """Every way of writing, each of which prints what was acknowledged and what was refused."""

    def __init__(
        self, store: SqliteStore, index: Index, counters: SqliteCounterStore, rng: random.Random
    ) -> None:
        self.store = store
        self.index = index
        self.counters = counters
        self.rng = rng
        self.saved: list[str] = []

    async def attempt(self, what: str, work: Awaitable[object]) -> bool:
        tell(f"try {what}")
        try:
            await work
        except (StoreError, CounterError):
            tell(f"no {what}")
            return False
        tell(f"ok {what}")
        return True

    def some(self) -> list[VerifiedEvent]:
        rng = self.rng
        return [
            make(
                rng.randrange(6),
                rng.choice([1, 7, 7]),
                at=NOW - rng.randrange(10**6),
                tags=(("e", f"{rng.randrange(4):064x}"),),
                content=f"{rng.random()} ".ljust(rng.choice([10, 3_000, 30_000]), "x"),
            )
            for _ in range(rng.randint(1, 6))
        ]

    async def save(self) -> None:
        """As the local relay, a sync and an import do."""
        events = self.some()
        ids = [event.event.id for event in events]
        if await self.attempt(f"save {','.join(ids)}", self.store.save(events)):
            self.saved += ids

    async def delete(self) -> None:
        if self.saved:
            id_ = self.saved.pop(self.rng.randrange(len(self.saved)))
            await self.attempt(f"delete {id_}", self.store.delete([Filter(ids=[id_])]))

    async def count(self) -> None:
        counter = await self.counters.counters("app")
        await self.attempt("count 1", counter.add("app.hits", 1))

    async def refresh(self) -> None:
        await self.attempt("refresh", self.index.refresh())

    async def reindex(self) -> None:
        """A file built in bulk is adopted while others write."""
        place = Path(str(self.store.database.path)).with_name("built.db")
        place.unlink(missing_ok=True)

        async def adopt() -> None:
            await self.index.snapshot()
            await self.store.database.maintain(
                lambda conn: conn.execute(f"VACUUM {ALIAS} INTO ?", (str(place),)).fetchall()
            )
            await self.save()
            await self.delete()
            await self.index.adopt(place)

        await self.attempt("reindex", adopt())

    async def one(self) -> None:
        doors: list[Callable[[], Awaitable[None]]] = [
            self.save, self.delete, self.count, self.refresh, self.reindex,
        ]  # fmt: skip
        (door,) = self.rng.choices(doors, [8, 3, 4, 1, 1])
        await door()


@contextmanager
def small_files(rng: random.Random, store: Path) -> Iterator[None]:
    """No file may grow beyond a size around that of the log."""
    log = store.with_name(store.name + "-wal")
    size = log.stat().st_size if log.exists() else 0
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (rng.randrange(size + 50_000), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def refusing(store: Path, suffix: str) -> Iterator[None]:
    """Writes to one file fail."""
    swap = Swap(store.with_name(store.name + suffix))
    try:
        yield
    finally:
        swap.undo()


async def limit_pages(doors: Doors, schema: str, more: int) -> None:
    def work(conn: sqlite3.Connection) -> None:
        (size,) = conn.execute(f"PRAGMA {schema}.page_count").fetchone()
        conn.execute(f"PRAGMA {schema}.max_page_count = {size + more}").fetchall()

    await doors.store.database.maintain(work)


async def fault(doors: Doors, store: Path) -> None:
    """Some writes while something is wrong."""
    rng = doors.rng
    kind = rng.choice(["files", "files", "store", "index", "swap"])
    tell(f"fault {kind}")
    if kind == "files":
        with small_files(rng, store):
            for _ in range(rng.randint(1, 4)):
                await doors.one()
    elif kind == "swap":
        with refusing(store, "-wal"):
            for _ in range(rng.randint(1, 3)):
                await doors.save()
    else:
        schema = "main" if kind == "store" else ALIAS
        await limit_pages(doors, schema, rng.randrange(4))
        for _ in range(rng.randint(1, 6)):
            await doors.one()
        await limit_pages(doors, schema, 100_000)


async def main(path: Path, seed: int, faults: int) -> None:
    index_update.HOT = HOT
    rng = random.Random(seed)
    options = StoreOptions(wal_autocheckpoint=rng.choice([20, 200]), readers=1)
    async with await SqliteStore.open(
        path, clock=lambda: NOW, options=options, migrations=[MIGRATIONS]
    ) as store:
        index = await Index.open(store)
        counters = await SqliteCounterStore.over(store.database)
        if "app" not in [stream.config.name for stream in await counters.streams()]:
            await counters.create_stream(STREAM)
        doors = Doors(store, index, counters, rng)
        tell("open")
        for _ in range(faults):
            for _ in range(rng.randrange(4)):
                await doors.one()
            await fault(doors, path)
        tell("end")
        while True:
            await doors.one()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
