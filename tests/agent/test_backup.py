"""What a backup has, and what a restore refuses and keeps of what was there."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import stat
import sys
import tempfile
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent.cli import run
from agent.maintenance.backup import back_up, restore, sum_path
from agent.state import AGENT
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import verify
from nostr_client.count.claims.book import CLAIMS
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.engine.schema import MIGRATIONS as COUNTERS
from nostr_client.counters.sqlite.store import SqliteCounterStore
from nostr_client.errors import InvalidInput, StoreCorrupt, StoreError, StoreLocked
from nostr_client.paths import part_of
from nostr_client.store.file.connect import WriterLock, check_place
from nostr_client.store.sqlite import SqliteStore
from tests.agent.relay.kit import signed
from tests.agent.service.kit import an_agent
from tests.rights import as_nobody
from tests.worlds import follow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from nostr_client.codecs.event import Event

PAGE = 4096
LINUX = sys.platform == "linux"


async def _store(path: Path, people: int) -> None:
    async with await SqliteStore.open(path) as store:
        await store.save([verify(follow(i)) for i in range(people)])


async def _events(path: Path) -> int:
    async with await SqliteStore.open(path, read_only=True) as store:
        return (await store.stats()).events


async def test_what_a_killed_backup_left_goes_with_the_next(tmp_path: Path) -> None:
    """Also in an archive; what a process that lives is making stays."""
    dead = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await dead.wait()
    store = tmp_path / "store.db"
    await _store(store, 3)
    target = tmp_path / "backup.db"
    left = [tmp_path / f"backup.db.{dead.pid}.part{end}" for end in ("", "-journal", ".sha256")]
    mine, other = tmp_path / f"backup.db.{os.getppid()}.part", tmp_path / "backup.db.old.part"
    for path in (*left, mine, other):
        path.write_text("half")
    back_up(store, target, lambda *_: None)
    assert not any(path.exists() for path in left)
    assert mine.exists()
    assert other.exists()
    folder = tmp_path / f"archive.{dead.pid}.part"
    folder.mkdir()
    (folder / "x.parquet").write_text("half")
    with part_of(tmp_path / "archive"):
        pass
    assert not folder.exists()


async def test_new_files_are_their_owners_and_others_keep_their_mode(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        async with an_agent(tmp_path):
            names = ("store.db", "store.db-wal", "store.db.lock", "store.index-0.db")
            assert {modes(tmp_path)[name] for name in names} == {0o600}
        back_up(tmp_path / "store.db", tmp_path / "copy.db", lambda *_: None)
        (tmp_path / "store.db").chmod(0o640)
        await _store(tmp_path / "store.db", 1)
        assert modes(tmp_path)["store.db"] == 0o640
        restore(tmp_path / "copy.db", tmp_path / "store.db", force=True)
        assert {modes(tmp_path)[name] for name in ("store.db", "copy.db")} == {0o600}
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {one.name: stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()}


async def test_what_one_restore_kept_no_other_replaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, backup = tmp_path / "store.db", tmp_path / "copy.db"
    await _store(store, 1)
    back_up(store, backup, lambda *_: None)
    await _store(store, 3)
    (tmp_path / "store.db.before.1-wal").write_bytes(b"the log of one that was moved away")
    command = ["restore", str(backup), "--store", str(store), "--force", "--json"]
    kept = []
    for _ in range(3):
        assert run(command) == 0
        kept.append(json.loads(capsys.readouterr().out)["kept"])
    assert kept == [f"{store}.before", f"{store}.before.2", f"{store}.before.3"]
    assert await _events(tmp_path / "store.db.before") == 3
    assert await _events(store) == 1
    assert run(command[:-2]) == 2
    assert "store.db.before.4" in capsys.readouterr().err
    assert run(["restore", str(backup), "--store", str(tmp_path / "new.db"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] is None


async def test_the_target_is_named_where_it_is_in_the_way(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    await _store(store, 1)
    (tmp_path / "file").touch()
    for folder in ("no/such", "file"):
        target = tmp_path / folder / "x.db"
        with pytest.raises(InvalidInput) as caught:
            back_up(store, target, lambda done, of: None)
        assert f"{target.parent} is not a folder" in str(caught.value)
        assert str(store) not in str(caught.value)


def names_in(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


@pytest.mark.parametrize("name", ["copy.db", "copy.db.sha256"])
@pytest.mark.parametrize("is_link", [False, True])
async def test_a_backup_replaces_nothing(tmp_path: Path, name: str, is_link: bool) -> None:
    """Neither a file nor a link to nothing, which `exists` does not see."""
    await _store(tmp_path / "s.db", 1)
    there = tmp_path / name
    if is_link:
        there.symlink_to(tmp_path / "nothing")
    else:
        there.write_text("of the user")
    before = names_in(tmp_path)
    with pytest.raises(InvalidInput, match=f"{name} exists"):
        back_up(tmp_path / "s.db", tmp_path / "copy.db", lambda *_: None)
    assert names_in(tmp_path) == before
    assert there.is_symlink() is is_link
    assert is_link or there.read_text() == "of the user"


async def test_a_folder_that_takes_no_file_is_named() -> None:
    with tempfile.TemporaryDirectory() as place:
        store, closed = Path(place) / "s.db", Path(place) / "closed"
        await _store(store, 1)
        closed.mkdir(0o555)
        os.chmod(place, 0o777)
        for name in await asyncio.to_thread(os.listdir, place):
            if name.startswith("s.db"):
                os.chmod(Path(place) / name, 0o666)
        with as_nobody():
            with pytest.raises(StoreError, match=f"made in the folder {closed} .*denied"):
                back_up(store, closed / "x.db", lambda done, of: None)
            with pytest.raises(StoreError, match=f"made in the folder {closed} .*denied"):
                WriterLock(closed / "new.db")
            with pytest.raises(StoreError, match=f"folder {closed} cannot be written"):
                check_place(closed / "deep" / "new.db")


async def full_store(path: Path) -> None:
    """A small store with a row in every table that `check` looks at."""
    migrations = [CLAIMS, COUNTERS, AGENT]
    async with await SqliteStore.open(path, migrations=migrations, search=True) as store:
        await store.save([verify(follow(i)) for i in range(5)])
        notes = [verify(signed(1, 1, content=f"note {n}", created_at=n)) for n in range(4)]
        await store.save(notes)
        profile = signed(1, 30_023, [["d", "x"]], created_at=5)
        tags = [["e", notes[0].event.id], ["a", f"30023:{profile.pubkey}:x"]]
        await store.save([verify(profile), verify(signed(1, 5, tags, created_at=6))])
        vanishing = signed(2, 62, [["relay", "ALL_RELAYS"]], created_at=7)
        await store.save([verify(signed(2, created_at=3)), verify(vanishing)])
        await store.fingerprints.register(Filter())
        assert await store.fingerprints.folded(Filter()) is not None
        counters = await SqliteCounterStore.over(store.database)
        await counters.create_stream(
            StreamConfig(name="app", subjects=("app.>",), allow_msg_counter=True)
        )
        for _ in range(3):
            await (await counters.counters("app")).add("app.hits", 2)


@contextmanager
def flipped(file: Path, at: int, bit: int = 0) -> Iterator[None]:
    """One bit of a file is another while the block runs."""
    fd = os.open(file, os.O_RDWR)
    try:
        (byte,) = os.pread(fd, 1, at)
        os.pwrite(fd, bytes([byte ^ 1 << bit]), at)
        yield
        os.pwrite(fd, bytes([byte]), at)
    finally:
        os.close(fd)


def refuse_each(backup: Path, target: Path, places: Iterable[int]) -> None:
    for at in places:
        with flipped(backup, at, at % 8), pytest.raises(StoreError):
            restore(backup, target, force=False)
        assert not target.exists(), at


async def backed_up(folder: Path) -> tuple[Path, Path]:
    """A backup of a full store, and where there is no store yet."""
    await full_store(folder / "s.db")
    back_up(folder / "s.db", folder / "copy.db", lambda *_: None)
    return folder / "copy.db", folder / "new.db"


async def test_a_single_flipped_byte_anywhere_is_refused(tmp_path: Path) -> None:
    """The file's header, each page's header, middle and end, and every byte of the sum."""
    backup, target = await backed_up(tmp_path)
    size = backup.stat().st_size
    pages = range(0, size, PAGE)
    places = {
        *range(100),
        *pages,
        *(at + PAGE // 2 for at in pages),
        *(at + PAGE - 1 for at in pages),
    }
    refuse_each(backup, target, [*sorted(places), *random.Random(3).sample(range(size), 50)])
    beside = sum_path(backup)
    for at in (*range(66), beside.stat().st_size - 1):
        with flipped(beside, at), pytest.raises(StoreError):
            restore(backup, target, force=False)
        assert not target.exists(), at
    restore(backup, target, force=False)
    assert await _events(target) == await _events(tmp_path / "s.db")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(8))
async def test_each_flipped_byte_is_refused(tmp_path: Path, part: int) -> None:
    backup, target = await backed_up(tmp_path)
    refuse_each(backup, target, range(part, backup.stat().st_size, 8))


async def refused_or_harmless(folder: Path, seed: int, number: int) -> None:
    backup, target = await backed_up(folder)
    before = await _contents(backup)
    rng, refused = random.Random(seed), 0
    whole = backup.read_bytes()
    used = [at for at, byte in enumerate(whole) if byte]
    for _ in range(number):
        at = rng.choice(used)
        with flipped(backup, at, rng.randrange(8)):
            try:
                restore(backup, target, force=False, sums=False)
            except StoreError:
                refused += 1
        if target.exists():
            assert await _contents(target) == before, f"the byte {at}, seed {seed}"
            target.unlink()
    assert 0 < refused < number


async def test_without_its_sum_a_flipped_byte_is_refused_or_harms_no_event(tmp_path: Path) -> None:
    await refused_or_harmless(tmp_path, 1, 40)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_without_its_sum_two_thousand_flipped_bytes(tmp_path: Path) -> None:
    await refused_or_harmless(tmp_path, 2, 2_000)


async def _contents(path: Path) -> list[Event]:
    async with await SqliteStore.open(path, read_only=True) as store:
        return await store.query([Filter()])


async def test_without_its_sum_a_backup_is_asked_about_and_still_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backup, target = await backed_up(tmp_path)
    sum_path(backup).unlink()
    command = ["restore", str(backup), "--store", str(target)]
    assert run(command) == 2
    assert "--without-sum" in capsys.readouterr().err
    assert run([*command, "--without-sum"]) == 0
    assert await _events(target) == await _events(tmp_path / "s.db")


DAMAGES = {
    "content": "UPDATE event SET content = x'61' WHERE seq = 2",
    "signature": "UPDATE event SET sig = zeroblob(64) WHERE seq = 3",
    "event": "DELETE FROM event WHERE seq = 4",
    "author": "UPDATE author SET pubkey = zeroblob(32) WHERE a = 1",
    "next number": "UPDATE meta SET value = 1 WHERE key = 'next_seq'",
    "digest": "UPDATE meta SET value = value + 1 WHERE key = 'events_digest'",
    "tag index": "DELETE FROM tag WHERE seq = 1",
    "deletion": "UPDATE tomb_id SET id = zeroblob(32)",
    "deletion of an address": "UPDATE tomb_addr SET until = until - 1",
    "request to vanish": "UPDATE vanished SET until = until - 1",
    "counter": "UPDATE counter_message SET incr = '+7' WHERE seq = 2",
    "fingerprints": "UPDATE neg_chunk SET n = n + 1",
    "filter of fingerprints": "UPDATE neg_scope SET filter = '{{'",
    "record of a schema": "UPDATE _sqlite_migrations SET migration_set = upper(migration_set)",
    "text index": "DELETE FROM search_data WHERE id > 10",
}
"""A row of each table that is against its events, its neighbours or the rules."""


@pytest.mark.parametrize("damage", DAMAGES)
async def test_what_is_against_the_rules_of_the_store_is_refused(
    tmp_path: Path, damage: str
) -> None:
    backup, target = await backed_up(tmp_path)
    with closing(sqlite3.connect(backup)) as conn, conn:
        assert conn.execute(DAMAGES[damage]).rowcount
    with pytest.raises(StoreCorrupt, match="is damaged: "):
        restore(backup, target, force=False, sums=False)
    assert not target.exists()


WRONG = (None, "\x00x", b"\x00\xff", 1.5, 7)
"""A value of each type of SQLite: a flipped byte of a row's header makes any of any."""

COLUMNS = ("id", "a", "created_at", "kind", "d", "exp", "tags", "content", "sig")


def without_types(path: Path) -> None:
    """Take the types of the events' columns away, as damage below SQLite's checks does."""
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA writable_schema = ON")
        conn.execute(
            "UPDATE sqlite_schema SET sql = replace(replace(replace(sql, ' NOT NULL', ''),"
            " ' INTEGER', ''), ') STRICT', ')') WHERE name = 'event'"
        )
        conn.execute("UPDATE sqlite_schema SET sql = replace(sql, 'seq', 'seq INTEGER')"
                     " WHERE name = 'event' AND sql LIKE '%seq PRIMARY%'")  # fmt: skip
        conn.commit()


@pytest.mark.parametrize("kind", [1, 5, 30_023])
async def test_a_value_of_another_type_in_a_row_is_refused(tmp_path: Path, kind: int) -> None:
    backup, target = tmp_path / "b.db", tmp_path / "t.db"
    async with await SqliteStore.open(backup) as store:
        await store.save([verify(signed(kind=kind, tags=(("d", "x"), ("e", "ab" * 32))))])
    without_types(backup)
    for column in COLUMNS:
        for value in WRONG:
            with closing(sqlite3.connect(backup)) as conn:
                (before,) = conn.execute(f"SELECT {column} FROM event").fetchone()
                if value == before:
                    continue
                conn.execute(f"UPDATE event SET {column} = ?", (value,))
                conn.commit()
                with pytest.raises(StoreError):
                    restore(backup, target, force=False, sums=False)
                assert not target.exists()
                conn.execute(f"UPDATE event SET {column} = ?", (before,))
                conn.commit()


async def test_errors_name_the_files_of_the_user_and_leave_no_lock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, damaged = tmp_path / "store.db", tmp_path / "damaged.db"
    await _store(source, 300)
    back_up(source, damaged, lambda *_: None)
    with damaged.open("r+b") as file:
        file.seek(4 * PAGE)
        file.write(b"\xff" * 20 * PAGE)
    target = tmp_path / "new" / "store.db"
    words = ["restore", str(damaged), "--store", str(target), "--without-sum"]
    assert run(words) != 0
    assert str(damaged) in (text := capsys.readouterr().err)
    assert ".part" not in text
    assert not list(target.parent.iterdir())
    assert run(["backup", str(tmp_path / "copy.db"), "--store", str(damaged)]) != 0
    assert str(damaged) in (text := capsys.readouterr().err)
    assert ".part" not in text
    assert run(["backup", "-", "--store", str(source)]) == 2


OPENS = """
import asyncio, sys
from pathlib import Path
from nostr_client.store.sqlite import SqliteStore

async def main():
    read_only = sys.argv[2] == "reads"
    async with await SqliteStore.open(Path(sys.argv[1]), read_only=read_only) as store:
        if read_only:
            await store.stats()
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@asynccontextmanager
async def opened_by_another(store: Path, how: str) -> AsyncIterator[int]:
    """The id of another process that has a store open for reading or writing."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPENS, str(store), how,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert await process.stdout.readline() == b"open\n"
    yield process.pid
    process.stdin.close()
    await process.wait()


@pytest.mark.parametrize(("how", "verb"), [("reads", "read"), ("writes", "written")])
async def test_a_store_that_a_process_has_open_is_not_replaced(
    tmp_path: Path, how: str, verb: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A reader has no lock of ours, and would go on with the store that was replaced."""
    monkeypatch.setattr("agent.maintenance.backup.READERS_S", 0.1)
    store, backup = tmp_path / "store.db", tmp_path / "copy.db"
    await _store(store, 1)
    back_up(store, backup, lambda *_: None)
    await _store(store, 3)
    before = names_in(tmp_path)
    words = ["restore", str(backup), "--store", str(store), "--force"]
    async with opened_by_another(store, how) as pid:
        who = f"process {pid}" if how == "writes" or LINUX else "another process"
        assert run(words) == 1
        assert f"{store} is being {verb} by {who}: stop it first" in capsys.readouterr().err
        assert await _events(store) == 3
    logs = {"store.db-wal", "store.db-shm"}  # a reader may leave these
    assert names_in(tmp_path) - logs == before
    assert run(words) == 0
    assert await _events(store) == 1


async def test_a_reader_that_comes_during_the_checks_is_seen_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.maintenance.backup.READERS_S", 0.1)
    store, backup = tmp_path / "store.db", tmp_path / "copy.db"
    await _store(store, 3)
    back_up(store, backup, lambda *_: None)
    reader = sqlite3.connect(store)

    def checked(path: Path, *, named: Path) -> None:
        reader.execute("SELECT count(*) FROM event").fetchone()

    monkeypatch.setattr("agent.maintenance.backup.check", checked)
    with closing(reader), pytest.raises(StoreLocked, match="is being read by another process"):
        restore(backup, store, force=True)
    assert await _events(store) == 3
    assert not [name for name in names_in(tmp_path) if "before" in name or "part" in name]


async def test_the_agent_that_has_the_store_is_named_with_its_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backup = tmp_path / "copy.db"
    async with an_agent(tmp_path) as agent:
        await asyncio.to_thread(back_up, tmp_path / "store.db", backup, lambda *_: None)
        words = ["restore", str(backup), "--store", str(tmp_path / "store.db"), "--force"]
        assert await asyncio.to_thread(run, words) == 1
        api = agent.service.api.url
        who = f"is being written by process {os.getpid()}, the agent at {api}: stop it first"
        assert who in capsys.readouterr().err
        assert (await agent.client.status()).store
    assert await asyncio.to_thread(run, words) == 0


async def test_a_link_to_a_store_stays_and_names_the_restored_one(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    real, link, backup = tmp_path / "disk/real.db", tmp_path / "store.db", tmp_path / "copy.db"
    await _store(real, 1)
    back_up(real, backup, lambda *_: None)
    await _store(real, 3)
    link.symlink_to(real)
    assert restore(backup, link, force=True).kept == real.resolve().with_name("real.db.before")
    assert link.is_symlink()
    assert await _events(link) == await _events(real) == 1
