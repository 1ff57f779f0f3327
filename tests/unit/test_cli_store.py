"""`nostr-client store`: stdout is data, the lock is told, nothing is made by reading."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from nostr_client.store.file.database import Database
from nostr_client.store.sqlite import SqliteStore
from tests import forks
from tests.conformance.store_events import make

if TYPE_CHECKING:
    from pathlib import Path


def run_cli(*args: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [*forks.command("nostr_client"), "store", *map(str, args)]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=50, check=False
    )


@pytest.fixture
def lines() -> list[str]:
    return [make(n % 3, at=n, tags=(("t", "x"),)).event.to_json() for n in range(10)]


@pytest.fixture
def path(tmp_path: Path, lines: list[str]) -> Path:
    """A store of ten events of three authors."""
    done = run_cli("import", "-", "--store", tmp_path / "s.db", stdin="\n".join(lines))
    assert (done.returncode, done.stdout) == (0, "10 of 10 stored\n")
    return tmp_path / "s.db"


def test_a_file_that_is_partly_read_names_the_line_and_fails(path: Path, lines: list[str]) -> None:
    file = path.with_name("more.jsonl")
    file.write_text(f"{lines[0]}\nnot json\n{make(5).event.to_json()}\n", "utf-8")
    done = run_cli("import", file, "-", "--store", path, "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["stored"] == 1
    assert list(report["first_lines"].values()) == [2]
    assert report["statuses"] == {"stored": 1, "duplicate": 1, "invalid": 1}
    assert done.stderr == ""
    again = run_cli("import", file, "--store", path)
    assert again.stdout == "0 of 3 stored\n"
    assert "2 duplicate" in again.stderr
    assert "1 invalid" in again.stderr
    assert "(first in line 2)" in again.stderr
    assert again.returncode == 1


def test_import_reads_gzip_and_fails_where_nothing_is_an_event(
    tmp_path: Path, lines: list[str]
) -> None:
    packed, noise = tmp_path / "e.jsonl.gz", tmp_path / "noise"
    packed.write_bytes(gzip.compress("\n".join(lines).encode()))
    noise.write_bytes(b"\x00\xff\n[1]\n")
    done = run_cli("import", packed, "--store", tmp_path / "s.db")
    assert (done.returncode, done.stdout) == (0, "10 of 10 stored\n")
    failed = run_cli("import", noise, "--store", tmp_path / "s.db", "--json")
    assert failed.returncode == 1
    assert json.loads(failed.stdout)["statuses"] == {"invalid": 2}


def test_a_damaged_file_has_a_report_of_what_came_before(tmp_path: Path, lines: list[str]) -> None:
    packed = tmp_path / "e.jsonl.gz"
    packed.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode())[:-8])
    done = run_cli("import", packed, "--store", tmp_path / "s.db")
    assert (done.returncode, done.stdout) == (2, "10 of 10 stored\n")
    assert "is cut off or damaged; what came before is kept" in done.stderr
    again = run_cli("import", packed, "--store", tmp_path / "s.db", "--json")
    assert again.returncode == 2
    assert json.loads(again.stdout)["statuses"] == {"duplicate": 10}


def test_an_import_of_a_store_says_to_export_it(path: Path) -> None:
    done = run_cli("import", path, "--store", path.with_name("other.db"))
    assert done.returncode == 2
    assert "is a store: export it first" in done.stderr


def test_export_is_jsonl_in_the_order_of_time(path: Path, lines: list[str]) -> None:
    done = run_cli("export", "--store", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == lines
    some = run_cli("export", "--store", path, "--filter", '{"since":4,"until":5}')
    assert some.stdout.splitlines() == lines[4:6]


def test_query_count_stats_and_verify(path: Path, lines: list[str]) -> None:
    newest = run_cli("query", "--store", path, "--tag", "t=x", "--limit", "2")
    assert newest.stdout.splitlines() == [lines[9], lines[8]]
    assert run_cli("count", "--store", path, "--kind", "1").stdout == "10\n"
    counted = run_cli("count", "--store", path, "--kind", "1", "--json")
    assert json.loads(counted.stdout) == {"count": 10, "authors": 3}
    stats = json.loads(run_cli("show", "--store", path, "--json").stdout)
    assert (stats["events"], stats["kinds"]) == (10, {"1": 10})
    assert (stats["oldest"], stats["newest"]) == (0, 9)
    table = run_cli("show", "--store", path).stdout
    assert "kind 1" in table
    assert "false" in table
    assert "False" not in table
    assert "1970-01-01 00:00:09 UTC" in table
    checked = run_cli("verify", "--store", path, "--json")
    assert checked.returncode == 0
    assert json.loads(checked.stdout) | {"tags": 0} == {
        "events": 10, "tags": 0, "found": 0, "problems": [], "ok": True,
    }  # fmt: skip


def test_stdin_may_be_a_file(path: Path, lines: list[str]) -> None:
    file = path.with_name("some.jsonl")
    file.write_text("\n".join(lines), "utf-8")
    command = [sys.executable, "-m", "nostr_client", "store", "import", "-", "--store", path]
    for name, said in ((file, "0 of 10 stored\n"), (os.devnull, "0 of 0 stored\n")):
        with open(name, "rb") as stdin:
            done = subprocess.run(
                command, stdin=stdin, capture_output=True, text=True, timeout=50, check=False
            )
        assert (done.returncode, done.stdout) == (0, said), done.stderr


def test_a_count_has_no_limit_and_conditions_add_to_a_whole_filter(path: Path) -> None:
    for limit, said in (
        (["--limit", "1"], "No such option"),
        (["--filter", '{"limit":1}'], "no limit"),
    ):
        done = run_cli("count", "--store", path, *limit)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
    helps = {one: run_cli(one, "--help").stdout for one in ("query", "count", "export")}
    assert ["--limit" in text for text in helps.values()] == [True, False, False]
    either = ["--filter", '{"kinds":[2]}', "--kind", "1"]
    assert run_cli("count", "--store", path, *either).stdout == "10\n"
    assert "--filter JSON" in helps["query"]


def test_no_conditions_at_all_is_wrong_usage(path: Path) -> None:
    assert run_cli("query", "--store", path).returncode == 2
    assert run_cli("count", "--store", path, "--filter", "{").returncode == 2
    limited = run_cli("export", "--store", path, "--limit", "3")
    assert (limited.returncode, limited.stdout) == (2, "")


def test_reading_makes_no_store(tmp_path: Path) -> None:
    for command in ("show", "export", "verify"):
        done = run_cli(command, "--store", tmp_path / "none.db")
        assert done.returncode == 1
        assert "no store at" in done.stderr
    assert not (tmp_path / "none.db").exists()


def test_a_second_writer_is_told_who_writes_and_readers_go_on(path: Path) -> None:
    async def while_it_is_open() -> None:
        async with await SqliteStore.open(path):
            refused = await asyncio.to_thread(run_cli, "import", "-", "--store", path)
            assert refused.returncode == 1
            assert f"process {os.getpid()}" in refused.stderr
            assert "nostr-agent" in refused.stderr
            assert refused.stderr.count("\n") == 1
            counted = await asyncio.to_thread(run_cli, "count", "--store", path, "--kind", "1")
            assert (counted.returncode, counted.stdout) == (0, "10\n")

    asyncio.run(while_it_is_open())


def as_an_older_version(path: Path) -> None:
    """The store as it is before a schema was added to the program."""
    conn = sqlite3.connect(path)
    conn.executescript(
        "DELETE FROM _sqlite_migrations WHERE migration_set = 'nostr_tally.sync';"
        " DROP TABLE sync_event; DROP TABLE sync_filter;"
    )
    conn.close()


def test_a_store_of_an_older_version_is_brought_up_to_date_by_a_reader(
    path: Path, lines: list[str]
) -> None:
    as_an_older_version(path)

    async def while_it_is_held() -> None:
        async with await Database.open(path):
            refused = await asyncio.to_thread(run_cli, "show", "--store", path)
            assert refused.returncode == 1
            assert f"process {os.getpid()}" in refused.stderr

    asyncio.run(while_it_is_held())
    found = run_cli("query", "--store", path, "--tag", "t=x", "--kind", "1")
    assert found.stdout.splitlines() == lines[::-1]
    assert run_cli("verify", "--store", path).returncode == 0


def test_verify_finds_damage(path: Path) -> None:
    async def damage() -> None:
        async with await SqliteStore.open(path) as store:
            await store.database.write(
                lambda conn: conn.execute("DELETE FROM tag WHERE seq = 3").rowcount
            )
            await store.database.write(
                lambda conn: conn.execute("UPDATE event SET content = x'00' WHERE seq = 5").rowcount
            )

    asyncio.run(damage())
    done = run_cli("verify", "--store", path)
    assert done.returncode == 1
    assert "tag index" in done.stdout
    assert "hash of the event" in done.stdout


def test_a_time_that_no_calendar_has_is_shown_as_it_is(tmp_path: Path) -> None:
    line = make(1, at=2**63 - 1).event.to_json()
    assert run_cli("import", "-", "--store", tmp_path / "s.db", stdin=line).returncode == 0
    done = run_cli("show", "--store", tmp_path / "s.db")
    assert done.returncode == 0, done.stderr
    assert str(2**63 - 1) in done.stdout


@pytest.mark.posix("named pipes, and a signal to another process")
@pytest.mark.parametrize("sent", [b"", b"{}\n"])
def test_ctrl_c_ends_an_import_that_waits_for_a_pipe(tmp_path: Path, sent: bytes) -> None:
    """It waits for the first bytes, or in a thread for more of them."""
    fifo, store = tmp_path / "fifo", tmp_path / "s.db"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "nostr_client", "store", "import", fifo, "--store", store]
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE) as process,
        fifo.open("wb", buffering=0) as pipe,  # waits for the reader
    ):
        pipe.write(sent)
        while sent and not store.exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert (process.returncode, said.strip()) == (130, b"nostr-client: interrupted")
