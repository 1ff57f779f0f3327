"""What a restore keeps of what was there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agent.backup import back_up
from agent.cli import run
from nostr_client.keys import verify
from nostr_client.store.sqlite import SqliteStore
from tests.worlds import follow

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def _store(path: Path, people: int) -> None:
    async with await SqliteStore.open(path) as store:
        await store.save([verify(follow(i)) for i in range(people)])


async def _events(path: Path) -> int:
    async with await SqliteStore.open(path, read_only=True) as store:
        return (await store.stats()).events


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
