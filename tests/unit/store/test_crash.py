"""kill -9, full disks and broken writes: what was acknowledged is there, and only whole batches."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.filters import Filter
from nostr_client.errors import StoreFull, StoreLocked
from nostr_client.store.base import SaveStatus
from nostr_client.store.file.connect import WriterLock
from nostr_client.store.options import StoreOptions
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW, make, pubkey
from tests.conformance.store_model import Model

if TYPE_CHECKING:
    from nostr_client.codecs.keys import VerifiedEvent

SEED = 9
KILLS_PER_STORE = 10
KINDS, WEIGHTS = (1, 7, 0, 30_023, 5, 62), (9, 5, 3, 4, 3, 0.1)
LINUX = sys.platform == "linux"


def some_events(count: int, seed: int) -> list[VerifiedEvent]:
    """Notes, versions, deletions and requests to vanish that act on each other."""
    rng = random.Random(seed)
    events: list[VerifiedEvent] = []
    for index in range(count):
        author, kind = (
            rng.randrange(8),
            rng.choices([1, 7, 0, 30_023, 5, 62], [9, 5, 3, 4, 3, 0.1])[0],
        )
        old = events[rng.randrange(max(0, index - 30), index)].event if index else None
        tags: list[tuple[str, ...]] = [("t", "x" * rng.randrange(1, 900))]
        if kind in (5, 7) and old is not None:
            tags += [("e", old.id), ("a", f"30023:{pubkey(author)}:{rng.randrange(4)}")]
        tags += [("d", str(rng.randrange(4)))] if kind == 30_023 else []
        tags += [("relay", "ALL_RELAYS")] if kind == 62 else []
        events.append(make(author, kind, at=1_000 + index, tags=tuple(tags), content=str(index)))
    return events


def write_events(folder: Path, events: list[VerifiedEvent]) -> Path:
    path = folder / "events.jsonl"
    path.write_text("".join(e.event.to_json() + "\n" for e in events), "utf-8")
    return path


def start_writer(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.unit.store.writer_process", *map(str, arguments)]
    root = Path(__file__).parents[3]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)


def kill_at_random(writer: subprocess.Popen[str], rng: random.Random, start: int) -> int:
    """Read some acknowledgements, kill a moment later; the last index that was acknowledged."""
    assert writer.stdout is not None
    assert writer.stdout.readline() == "open\n"
    acknowledged = start
    for _ in range(rng.randrange(20)):
        acknowledged = int(writer.stdout.readline() or acknowledged)
    try:
        writer.wait(timeout=rng.random() * 0.01)
    except subprocess.TimeoutExpired:
        writer.kill()
    rest = writer.stdout.read()
    writer.wait(30)
    writer.stdout.close()
    whole = rest[: rest.rfind("\n") + 1].split()
    return int(whole[-1]) if whole else acknowledged


async def check(
    path: Path, model: Model, events: list[VerifiedEvent], done: int, acked: int
) -> int:
    """The store holds what the model says after the acknowledged batches, or one batch more."""
    for verified in events[done:acked]:
        model.save(verified.event, NOW)
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        assert (await store.verify()).problems == ()
        held = await store.query([Filter()])
        for more in range(9):
            if held == model.visible(NOW):
                return acked + more
            model.save(events[acked + more].event, NOW)
    raise AssertionError(f"not what was acknowledged up to {acked}")


async def crash_often(folder: Path, kills: int, seed: int) -> None:
    sys.stdout.write(f"seed {seed}\n")
    rng, model = random.Random(seed), Model()
    events = some_events(100 * kills, seed)
    path, lines = folder / "s.db", write_events(folder, events)
    done = 0
    for kill in range(kills):
        writer = start_writer(path, lines, done, seed + kill)
        acked = kill_at_random(writer, rng, done)
        done = await check(path, model, events, done, acked)
    assert done > 0


async def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    await crash_often(tmp_path, KILLS_PER_STORE, SEED)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("turn", range(10))
async def test_nothing_acknowledged_is_lost_by_a_hundred_kills(tmp_path: Path, turn: int) -> None:
    await crash_often(tmp_path, KILLS_PER_STORE, SEED + 1_000 * (turn + 1))


@pytest.mark.skipif(not LINUX, reason="descriptors are found by /proc")
@pytest.mark.parametrize(
    ("harm", "error"),
    [
        ("limit=200000", "StoreFull"),
        ("swap=-wal", "StoreFull"),
        ("swap=", None),
    ],
)
async def test_a_refused_write_loses_nothing_acknowledged(
    tmp_path: Path, harm: str, error: str | None
) -> None:
    """A log that cannot grow fails the save; a file that cannot be checkpointed fails nothing."""
    events = some_events(160, 1)
    writer = start_writer(tmp_path / "s.db", write_events(tmp_path, events), 0, 1, harm)
    told = writer.communicate(timeout=50)[0].splitlines()
    assert writer.returncode == 0
    assert told[0] == "open"
    errors = [line for line in told[1:] if not line.isdigit()]
    assert len(errors) <= 1
    acked = [int(line) for line in told if line.isdigit()]
    assert all(line.startswith(error or "Store") for line in errors)
    if error is not None:
        assert errors
    if harm.startswith("swap"):
        assert acked[-1] == 160
    await check(tmp_path / "s.db", Model(), events, 0, acked[-1])


async def test_a_store_at_its_page_limit_says_so_and_goes_on_reading(tmp_path: Path) -> None:
    events = some_events(600, 2)
    model, options = Model(), StoreOptions(max_page_count=120)
    path, acked, full = tmp_path / "s.db", 0, ""
    async with await SqliteStore.open(path, clock=lambda: NOW, options=options) as store:
        while not full:
            try:
                await store.save(events[acked : acked + 10])
                acked += 10
            except StoreFull as error:
                full = str(error)
        assert "no room left" in full
        assert await store.count([Filter()]) > 0
    await check(path, model, events, 0, acked)
    async with await SqliteStore.open(path, clock=lambda: NOW) as store:
        for verified in events[acked:]:
            (outcome,) = await store.save([verified])
            assert outcome.status is not SaveStatus.DUPLICATE
        assert (await store.verify()).problems == ()


def test_the_lock_holds_where_the_disk_does_not_take_the_pid(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        lock = WriterLock(tmp_path / "s.db")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with pytest.raises(StoreLocked, match="another process"):
        WriterLock(tmp_path / "s.db")
    lock.release()
    WriterLock(tmp_path / "s.db").release()
