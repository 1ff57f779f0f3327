"""Programs that a test runs and kills: `every FOLDER`, `busy FILE` and `ingest FILE`."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import sys
from pathlib import Path

from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.counters.engine.schema import MIGRATIONS
from nostr_client.counters.ingest import IngestCounters, ingest_stream
from nostr_client.counters.sqlite import SqliteCounterStore
from nostr_client.store.file.migrate import create
from nostr_client.store.sqlite import SqliteStore
from tests.unit.counters.engine import Engine, counter, source

NOW = 1_700_000_000


class FileEngine(Engine):
    """The engine on a file, as the store opens it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.conn.close()
        self.conn = sqlite3.connect(path, isolation_level=None)
        self.conn.execute("PRAGMA journal_mode = WAL")
        self.conn.execute("PRAGMA synchronous = NORMAL")
        create(self.conn, [MIGRATIONS])


def prepare(path: Path) -> None:
    engine = FileEngine(path)
    engine.create(counter("ES", "es.*", max_msgs_per_subject=2, max_msgs=3))
    fold = source("ES", "es.*", "all")
    engine.create(counter("AGG", "all", sources=(fold,), duplicate_window=60 * 10**9))
    for number in range(4):
        engine.add(f"es.{number % 2}", 10**number, ("Nats-Msg-Id", str(number)))
    engine.close()


def work(engine: FileEngine) -> None:
    """One increment with all that follows from it."""
    engine.add("es.0", 7, ("Nats-Msg-Id", "new"), ("X-Who", "me"))


def rows(path: Path) -> list[object]:
    engine = FileEngine(path)
    (check,) = engine.conn.execute("PRAGMA integrity_check").fetchone()
    assert check == "ok"
    found = engine.everything()
    engine.close()
    return found


def run_until(path: Path, statements: int) -> bool:
    """Do the work in a child that kills itself before its nth statement; whether it was killed."""
    child = os.fork()
    if child == 0:
        engine = FileEngine(path)
        left = statements

        def count(_: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        engine.conn.set_trace_callback(count)
        work(engine)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def copy(source_file: Path, target: Path) -> Path:
    target.mkdir()
    shutil.copy(source_file, target / "c.db")
    return target / "c.db"


def every(folder: Path) -> None:
    """Kill before each statement of one write in turn; print how many there were."""
    first = folder / "first.db"
    prepare(first)
    before = rows(copy(first, folder / "before"))
    whole = copy(first, folder / "whole")
    assert not run_until(whole, 10_000)
    after = rows(whole)
    assert before != after
    count, seen = 0, set()
    while True:
        path = copy(first, folder / str(count))
        killed = run_until(path, count)
        found = rows(path)
        assert found in (before, after), f"torn before statement {count}"
        seen.add(found == after)
        if not killed:
            break
        count += 1
    assert seen == {False, True}
    sys.stdout.write(f"{count}\n")


async def busy(path: Path) -> None:
    """Count for ever, telling every acknowledged number."""
    async with await SqliteCounterStore.open(path) as store:
        counters = await store.counters("ES")
        number = 0
        while True:
            group = [counters.publish(f"es.{n % 3}", 1, msg_id=f"{number + n}") for n in range(5)]
            await asyncio.gather(*group)
            number += 5
            os.write(1, f"{number}\n".encode())


async def ingest(path: Path) -> None:
    """Store events for ever, with their counters, telling how many are acknowledged."""
    signer = KeySigner(bytes([7]) * 32)
    async with await SqliteStore.open(path, migrations=[MIGRATIONS]) as store:
        counters = await SqliteCounterStore.over(store.database)
        await counters.create_stream(ingest_stream())
        store.on_batch.append(IngestCounters())
        number = 0
        while True:
            templates = [
                EventTemplate(kind=1, content=str(number + n), created_at=NOW) for n in range(3)
            ]
            await store.save([signer.sign_now(template) for template in templates])
            number += 3
            os.write(1, f"{number}\n".encode())


if __name__ == "__main__":
    if sys.argv[1] == "every":
        every(Path(sys.argv[2]))
    elif sys.argv[1] == "busy":
        asyncio.run(busy(Path(sys.argv[2])))
    else:
        asyncio.run(ingest(Path(sys.argv[2])))
