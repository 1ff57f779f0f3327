"""What a restore keeps of what was there."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sqlite3
import stat
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from agent.backup import back_up, restore, sum_path
from agent.cli import run
from nostr_client.errors import StoreCorrupt, StoreError
from nostr_client.keys import verify
from nostr_client.store.connect import check_place
from nostr_client.store.lock import WriterLock
from nostr_client.store.sqlite import SqliteStore
from tests.agent.service.kit import an_agent
from tests.rights import as_nobody
from tests.worlds import follow


async def _store(path: Path, people: int) -> None:
    async with await SqliteStore.open(path) as store:
        await store.save([verify(follow(i)) for i in range(people)])


async def _events(path: Path) -> int:
    async with await SqliteStore.open(path, read_only=True) as store:
        return (await store.stats()).events


async def test_new_files_are_their_owners_and_others_keep_their_mode(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        async with an_agent(tmp_path):
            names = ("store.db", "store.db-wal", "store.index-0.db")
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
    for folder, why in (("no/such", "there is no folder"), ("file", "is no folder")):
        target = tmp_path / folder / "x.db"
        with pytest.raises(StoreError) as caught:
            back_up(store, target, lambda done, of: None)
        assert str(target.parent) in str(caught.value)
        assert why in str(caught.value)
        assert str(store) not in str(caught.value)


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


async def test_a_single_flipped_byte_anywhere_is_refused(tmp_path: Path) -> None:
    store, backup, target = tmp_path / "s.db", tmp_path / "copy.db", tmp_path / "new.db"
    await _store(store, 5)
    back_up(store, backup, lambda *_: None)
    beside = sum_path(backup)
    rng = random.Random(3)
    whole = backup.read_bytes()
    places = [(backup, at) for at in (0, 100, len(whole) - 1, *rng.sample(range(len(whole)), 20))]
    places += [(beside, at) for at in range(0, 64, 7)]
    for file, at in places:
        raw = bytearray(file.read_bytes())
        raw[at] ^= 1 << rng.randrange(8)
        before = file.read_bytes()
        file.write_bytes(raw)
        with pytest.raises(StoreError):
            restore(backup, target, force=False)
        assert not target.exists()
        file.write_bytes(before)
    restore(backup, target, force=False)
    assert await _events(target) == 5


async def test_without_its_sum_a_backup_is_asked_about_and_still_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, backup, target = tmp_path / "s.db", tmp_path / "copy.db", tmp_path / "new.db"
    await _store(store, 5)
    back_up(store, backup, lambda *_: None)
    sum_path(backup).unlink()
    command = ["restore", str(backup), "--store", str(target)]
    assert run(command) == 2
    assert "--without-sum" in capsys.readouterr().err
    for damage in (
        "UPDATE event SET content = x'61' WHERE seq = 2",
        "DELETE FROM tag WHERE seq = 1",
        "UPDATE event SET sig = zeroblob(64) WHERE seq = 3",
        "DELETE FROM event WHERE seq = 4",
    ):
        damaged = tmp_path / "damaged.db"
        shutil.copyfile(backup, damaged)
        with closing(sqlite3.connect(damaged)) as conn, conn:
            assert conn.execute(damage).rowcount
        with pytest.raises(StoreCorrupt):
            restore(damaged, target, force=False, sums=False)
    assert run([*command, "--without-sum"]) == 0
    assert await _events(target) == 5
