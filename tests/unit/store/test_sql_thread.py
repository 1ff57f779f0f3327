"""Ctrl-C and the time limit end the wait for SQLite, even within one long function call."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from nostr_client.errors import StoreError
from nostr_client.store.sql import copy, thread
from nostr_client.store.sql.copy import CopySelection, export_sqlite
from nostr_client.store.sql.thread import SqlThread
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import make

if TYPE_CHECKING:
    from pathlib import Path

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"
LONG_CALL = "SELECT instr(hex(zeroblob(4000000)), hex(zeroblob(2000000)) || '1')"
"""One step of SQLite's machine that takes minutes."""

posix = pytest.mark.posix("a signal to one thread")


def press_ctrl_c() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def endless(running: SqlThread, ended: list[str]) -> None:
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as conn:
        conn.create_function("press", 0, press_ctrl_c)
        try:
            running.connected(conn)
            conn.execute(f"{ENDLESS} WHERE (SELECT press()) IS NULL")
        except sqlite3.OperationalError as error:
            ended.append(str(error))


@posix
def test_ctrl_c_interrupts_the_statement() -> None:
    running, ended = SqlThread(), list[str]()
    with pytest.raises(KeyboardInterrupt):
        running.run(lambda: endless(running, ended))
    assert ended == ["interrupted"]


def test_ctrl_c_while_the_thread_starts_interrupts_the_statement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Pressed(threading.Thread):
        def start(self) -> None:
            super().start()
            raise KeyboardInterrupt

    monkeypatch.setattr(threading, "Thread", Pressed)
    monkeypatch.setattr(sys.modules[__name__], "press_ctrl_c", lambda: None)
    running, ended = SqlThread(), list[str]()
    with pytest.raises(KeyboardInterrupt):
        running.run(lambda: endless(running, ended))
    assert ended == ["interrupted"]


@posix
def test_ctrl_c_does_not_wait_for_one_long_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread, "_GRACE_S", 0.1)
    never = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        SqlThread().run(lambda: (press_ctrl_c(), never.wait()))
    never.set()


def test_results_and_errors_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SqlThread().run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        SqlThread().run(lambda: 1 // 0)
    monkeypatch.setattr(thread, "_GRACE_S", 0.0)
    never = threading.Event()
    with pytest.raises(StoreError, match="longer than 0 s"):
        SqlThread().run(never.wait, 0)
    never.set()


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    async with await SqliteStore.open(tmp_path / "s.db") as opened:
        await opened.save([make(n, at=n, content="it's C++, x") for n in range(5)])
    return tmp_path / "s.db"


def test_one_long_call_is_ended_with_its_process(store: Path) -> None:
    """The call alone takes longer than the process is given."""
    command = [sys.executable, "-m", "nostr_client", "store", "sql", "--seconds", "0.1", LONG_CALL]
    done = subprocess.run(
        [*command, "--store", str(store)], capture_output=True, text=True, timeout=55, check=False
    )
    assert done.returncode == 1
    assert "longer than 0.1 s" in done.stderr


@posix
def test_ctrl_c_ends_a_copy_and_removes_it(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def instead(conn: sqlite3.Connection) -> None:
        press_ctrl_c()
        conn.execute(ENDLESS)

    monkeypatch.setattr(copy, "_create_search", instead)
    with pytest.raises(KeyboardInterrupt):
        export_sqlite(store, store.with_name("copy.sqlite"), CopySelection(), 10)
    assert not list(store.parent.glob("copy*"))
