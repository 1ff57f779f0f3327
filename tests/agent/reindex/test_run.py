"""A rebuild from its question to the index in its place; what a check finds and a repair mends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import aclosing, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner

from agent.api.schema import RebuildBody
from agent.cli import cli
from agent.reindex import engines, inputs, launcher, run
from agent.reindex.launcher import ReindexFailed, messages
from agent.reindex.protocol import Built, Checked, Stage, checked_memory, from_line, to_line
from agent.reindex.reporter import Reporter, tree
from agent.reindex.run import Result
from agent.reindex.single import run_job
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import stored_event
from nostr_client.errors import InvalidInput, StoreError
from nostr_client.store.base import KEPT, DifferenceLog
from nostr_client.store.index import update as index_update
from nostr_client.store.index.keeper import Index
from nostr_client.store.index.read import check_built
from tests.agent.reindex import looking
from tests.agent.reindex.nasty import HOT, NOTE, NOW, URLS, fill, make, nasty, opened, write_archive

if TYPE_CHECKING:
    from agent.reindex.protocol import Job


@pytest.fixture(autouse=True)
def _few_are_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_update, "HOT", HOT)


def silent(message: object) -> None:
    """Nobody listens."""


def job_of(path: Path, **options: Any) -> Job:
    source = inputs.Input(kind="store", paths=(str(path),))
    job, _ = run.make_job(source, engine="reference", urls=URLS, hot=HOT, now=NOW, **options)
    return job


async def built(path: Path, **options: Any) -> Result:
    """A rebuild in this process: most tests are not about the child."""
    job = job_of(path, **options)
    said: list[Any] = []
    await asyncio.to_thread(run_job, job, Reporter(lambda line: said.append(from_line(line))))
    (made,) = [one for one in said if isinstance(one, Built)]
    checked = next((one for one in said if isinstance(one, Checked)), None)
    return Result(engine="reference", why="a test", built=made, checked=checked)


async def new_store(folder: Path) -> Path:
    path = folder / "store.db"
    async with await opened(path) as store:
        await Index.open(store)
        await fill(store, nasty())
        await store.fingerprints.register()
    return path


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if "index" in path.name}


async def test_the_new_index_equals_the_old_one_and_takes_its_place(tmp_path: Path) -> None:
    path = await new_store(tmp_path)
    people = looking.people_of(path)
    before = looking.of_file(tmp_path / "store.index-0.db", people)
    result = await built(path)
    async with await opened(path) as store:
        result = await run.put_in_place(store, None, result, repairs=False)
        assert result.generation == 1
        index = await Index.open(store)
        await index.refresh(1_000)
    after = looking.of_file(tmp_path / "store.index-1.db", people)
    assert {k: v for k, v in after.items() if k != "hot"} == {
        k: v for k, v in before.items() if k != "hot"
    }
    assert left(tmp_path) == {"store.index-1.db"}


async def test_what_comes_and_goes_meanwhile_is_in_the_new_index(tmp_path: Path) -> None:
    path = await new_store(tmp_path)
    later = [make(n, 7, at=NOW - 40, tags=(("e", NOTE),), content="late") for n in range(6)]
    gone = next(e for e in nasty() if e.kind == 7 and list(e.tags[0][:2]) == ["e", NOTE])
    async with await opened(path) as store:
        index = await Index.open(store)
        await index.snapshot()
        await store.save([stored_event(later[0])])
        result = await built(path)
        await store.save([stored_event(event) for event in later[1:]])
        assert await store.delete([Filter(ids=[later[0].id, later[3].id, gone.id])]) >= 2
        await run.put_in_place(store, index, result, repairs=False)
        await index.refresh(1_000)
        fresh = await built(path, check=True)
    run.discard(Path(fresh.built.path))
    assert fresh.checked is not None
    assert fresh.checked.found == 0, fresh.checked.differences


async def test_a_store_keeps_its_own_least_number_of_events(tmp_path: Path) -> None:
    """An index of another one would lose and gain targets as events come: no check could hold."""
    path = await new_store(tmp_path)
    with pytest.raises(InvalidInput, match="--hot is for archives"):
        run.make_job(inputs.Input(kind="store", paths=(str(path),)), hot=HOT + 1)
    assert command("--store", str(path), "--hot", "2").returncode == 2
    result = await built(path)
    other = Path(result.built.path)
    with closing(sqlite3.connect(other)) as conn, conn:
        conn.execute("UPDATE about SET value = 2 WHERE key = 'hot'")
        conn.execute("DELETE FROM hot WHERE t = 1")
    with pytest.raises(StoreError, match="from 2 events on"):
        check_built(other)
    async with await opened(path) as store:
        await run.put_in_place(store, None, result, repairs=False)
    checked = (await built(path, check=True)).checked
    assert checked is not None
    assert checked.found == 0, checked.differences


async def test_a_store_in_order_has_no_differences(tmp_path: Path) -> None:
    path = await new_store(tmp_path)
    result = await built(path, check=True)
    assert result.checked is not None
    assert result.checked.found == 0, result.checked.differences
    assert set(result.checked.compared) >= {"hot", "tag", "event", "fingerprint", "registers"}


async def test_a_difference_is_told_in_words(tmp_path: Path) -> None:
    """People by their keys, days as days, and nothing that a screen would obey."""
    path = await new_store(tmp_path)
    who = make(1, 1).pubkey
    with closing(sqlite3.connect(tmp_path / "store.index-0.db")) as conn, conn:
        conn.execute("INSERT INTO daily_author SELECT 20000, 7, a, 1 FROM daily_author LIMIT 1")
        conn.execute("UPDATE daily_author SET n = 9, a = ? WHERE day = 20000", (a_of(path, who),))
        conn.execute("INSERT INTO daily VALUES (9000000, 9, 1, 1)")
        conn.execute("INSERT INTO zap VALUES ('e', '\x1b[2J' || char(10), 1, 1)")
        conn.execute("INSERT INTO hot_author SELECT t, 4242, 1 FROM hot WHERE name = 'e' LIMIT 1")
    checked = (await built(path, check=True)).checked
    assert checked is not None
    told = {(one.table, one.key.partition(" of kind")[0]) for one in checked.differences}
    assert told == {
        ("daily_author", f"{who} on 2024-10-04, kind 7"),
        ("daily", "day 9000000, kind 9"),
        ("zap", r"e: '\x1b[2J\n'"),
        ("hot_author", "nobody (4242) in e"),
    }


def a_of(store: Path, pubkey: str) -> int:
    return next(a for a, key in looking.people_of(store).items() if key.hex() == pubkey)


DAMAGES = {
    "hot": ("live", "UPDATE hot SET events = events + 1 WHERE t = 1", "rebuilt"),
    "registers": ("live", "UPDATE hot SET registers = zeroblob(256), dirty = 0", "clean target"),
    "hot_author": ("live", "DELETE FROM hot_author WHERE t = 1", "misses"),
    "daily": ("live", "INSERT INTO daily VALUES (1, 9, 1, 1)", "do not give"),
    "zap": ("live", "UPDATE zap SET msats = msats + 1", "rebuilt"),
    "tag": ("store", "DELETE FROM tag WHERE seq % 5 = 0", "missing"),
    "event": ("store", "UPDATE event SET exp = 5 WHERE seq = 20", "does not fit"),
    "tomb": ("store", "DELETE FROM tomb_id", "not blocked"),
    "vanished": ("store", "DELETE FROM vanished", "not blocked"),
    "fingerprint": ("store", "UPDATE neg_chunk SET n = n + 1", "not those of the events"),
}


@pytest.mark.parametrize("table", DAMAGES)
async def test_a_damage_is_found_with_its_cause_and_mended(tmp_path: Path, table: str) -> None:
    path = await new_store(tmp_path)
    where, sql, cause = DAMAGES[table]
    file = path if where == "store" else tmp_path / "store.index-0.db"
    with closing(sqlite3.connect(file)) as conn, conn:
        assert conn.execute(sql).rowcount
    result = await built(path, check=True)
    assert result.checked is not None
    assert table in {one.table for one in result.checked.differences}
    assert any(cause in one.cause for one in result.checked.differences if one.table == table)
    async with await opened(path) as store:
        await run.put_in_place(store, None, result, repairs=True)
    again = await built(path, check=True)
    assert again.checked is not None
    assert again.checked.found == 0, again.checked.differences


def test_many_differences_of_one_table_hide_no_other() -> None:
    found = DifferenceLog()
    for n in range(2_000):
        found.add("tag", n, "is missing")
    found.add("zap", "x", "is missing")
    assert found.number == 2_001
    assert {one.table for one in found.kept} == {"tag", "zap"}
    assert len(found.kept) == KEPT + 1


async def test_an_event_that_should_be_dead_is_found_and_removed(tmp_path: Path) -> None:
    path = await new_store(tmp_path)
    old, new = make(4, 10_050, at=NOW - 20), make(4, 10_050, at=NOW - 10)
    async with await opened(path) as store:
        await Index.open(store)
        await fill(store, [old])
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("UPDATE event SET d = NULL WHERE id = ?", (bytes.fromhex(old.id),))
    async with await opened(path) as store:
        await Index.open(store)
        await fill(store, [new])
    result = await built(path, check=True)
    assert result.checked is not None
    assert result.checked.repairs.dead == (old.id,)
    async with await opened(path) as store:
        await run.put_in_place(store, None, result, repairs=True)
        assert await store.held([old.id, new.id]) == {new.id}
    again = await built(path, check=True)
    assert again.checked is not None
    assert again.checked.found == 0, again.checked.differences


async def test_archives_become_an_index_of_their_own(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "a.jsonl", nasty())
    source = inputs.archive("jsonl", [str(archive)])
    job, _ = run.make_job(
        source, engine="reference", out=tmp_path / "out", urls=URLS, hot=HOT, now=NOW
    )
    result = await run.build(job, "a test", silent)
    path = await new_store(tmp_path)
    async with await opened(path) as store:
        await (await Index.open(store)).refresh(1_000)
    live = looking.of_file(tmp_path / "store.index-0.db", looking.people_of(path))
    assert looking.of_file(Path(result.built.path)) == live


def test_what_cannot_be_read_is_said_at_once(tmp_path: Path) -> None:
    packed = tmp_path / "a.jsonl.lz4"
    packed.touch()
    for paths, told in (
        ([str(packed)], "lz4"),
        ([str(tmp_path / "no")], "not there"),
        ([], "no a"),
    ):
        with pytest.raises(InvalidInput, match=told):
            inputs.archive("jsonl", paths)
    with pytest.raises(InvalidInput, match="--out"):
        run.make_job(inputs.archive("jsonl", [str(write_archive(tmp_path / "b.jsonl", []))]))


def test_the_engine_of_a_store_is_the_quicker_one_by_size_and_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = inputs.Input(kind="store", paths=(str(tmp_path / "store.db"),))
    for events, cores, engine in (
        (10, 64, "reference"),
        (1_000_000, 2, "reference"),
        (2_000_000, 2, "spark"),
        (1_000_000, 4, "spark"),
        (10**9, 1, "reference"),
    ):
        monkeypatch.setattr(engines, "events_of", lambda _, events=events: events)
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert engines.choose("auto", source).engine == engine, (events, cores)


def test_archives_run_on_spark_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = inputs.archive("jsonl", [str(write_archive(tmp_path / "a.jsonl", []))])
    assert engines.choose("auto", source).engine == "spark"
    monkeypatch.setattr(engines, "has_spark", lambda: False)
    assert engines.choose("auto", source).engine == "reference"


@pytest.fixture
def waiting_input(tmp_path: Path) -> inputs.Input:
    """An archive whose reader waits for ever."""
    os.mkfifo(tmp_path / "endless.jsonl")
    return inputs.Input(kind="jsonl", paths=(str(tmp_path / "endless.jsonl"),))


async def test_a_cancelled_rebuild_leaves_nothing(
    tmp_path: Path, waiting_input: inputs.Input
) -> None:
    job, _ = run.make_job(waiting_input, engine="reference", out=tmp_path / "out", now=NOW)
    started = asyncio.Event()

    def tell(message: object) -> None:
        if isinstance(message, Stage):
            started.set()

    task = asyncio.create_task(run.build(job, "a test", tell))
    await asyncio.wait_for(started.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not list((tmp_path / "out").rglob("*.part*"))
    assert not list((tmp_path / "out").rglob("rows"))


async def test_a_killed_child_is_explained(tmp_path: Path, waiting_input: inputs.Input) -> None:
    job, _ = run.make_job(waiting_input, engine="reference", out=tmp_path / "out", now=NOW)
    with pytest.raises(ReindexFailed, match="SIGKILL"):
        await kill_at_the_first_word(job)


async def test_what_java_says_on_stdout_is_told_as_text(
    tmp_path: Path, waiting_input: inputs.Input, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a line of ours that is cut ends it."""
    said = "Error occurred during initialization of VM"
    failed = '{"type":"failed","message":"Spark did not start","code":1}'
    job, _ = run.make_job(waiting_input, engine="reference", out=tmp_path / "out", now=NOW)
    for last, why in ((failed, "^Spark did not start$"), ('{"type":', '^the .* said: {"type":$')):
        script = f"print({said!r}); print({last!r})"
        monkeypatch.setattr(launcher, "COMMAND", [sys.executable, "-c", script])
        heard: list[Any] = []
        with pytest.raises(ReindexFailed, match=why):
            await run.build(job, "a test", heard.append)
        assert [one.text for one in heard] == ["engine: reference (a test)", said]


async def test_a_child_that_ends_before_it_hears_its_job_is_believed(
    tmp_path: Path, waiting_input: inputs.Input, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a Java that cannot start: why it ended is said, whether or not it read."""
    job, _ = run.make_job(waiting_input, engine="reference", out=tmp_path / "out", now=NOW)
    monkeypatch.setattr(launcher, "to_line", lambda job: b" " * 2**20)  # more than a pipe takes
    for script, why in (
        ("""print('{"type":"failed","message":"no Spark","code":1}')""", "^no Spark$"),
        ("import sys; sys.exit('no Java')", "ended with 1: no Java$"),
        ("", "ended without a result$"),
    ):
        monkeypatch.setattr(launcher, "COMMAND", [sys.executable, "-c", script])
        with pytest.raises(ReindexFailed, match=why):
            await run.build(job, "a test", silent)


@pytest.mark.parametrize(
    ("memory", "told"),
    [("1m", "512m"), ("511m", "512m"), ("4", "as 4g"), ("4096k", "as 4g"), ("0g", "as 4g"),
     ("4g\n", "as 4g"), ("4gb", "as 4g")],
)  # fmt: skip
def test_a_memory_that_spark_cannot_start_with_is_refused(memory: str, told: str) -> None:
    """By the command before anything is started, and by the API."""
    done = CliRunner().invoke(cli, ["reindex", "--memory", memory])
    assert done.exit_code == 2
    assert "'--memory'" in done.stderr
    assert told in done.stderr
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"memory": memory}, RebuildBody)


@pytest.mark.parametrize("memory", ["512m", "520m", "600m", "999m", "1000m", "9999m", "1g", "64g"])
def test_a_memory_that_spark_can_start_with_is_taken(memory: str) -> None:
    assert checked_memory(memory) == memory
    assert msgspec.convert({"memory": memory}, RebuildBody).memory == memory


async def kill_at_the_first_word(job: Job) -> None:
    before = set(tree())
    async with aclosing(messages(job)) as said:
        async for _ in said:
            for child in set(tree()) - before:
                os.kill(child, signal.SIGKILL)


def test_the_command_ends_with_130_on_sigterm(tmp_path: Path, waiting_input: inputs.Input) -> None:
    command = [sys.executable, "-m", "agent", "reindex", "--engine", "reference"]
    command += ["--jsonl", waiting_input.paths[0], "--out", str(tmp_path / "out")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        assert "engine: reference" in child.stderr.readline()
        below = tree(child.pid)[1:]
        child.send_signal(signal.SIGTERM)
        assert child.wait(40) == 130
    assert not any(Path(f"/proc/{pid}").exists() for pid in below)


async def test_the_command_rebuilds_and_checks(tmp_path: Path) -> None:
    path = await new_store(tmp_path)
    done = command("--store", str(path), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["engine"] == "reference"
    assert "Spark would take longer" in told["why"]
    assert told["generation"] == 1
    assert left(tmp_path) == {"store.index-1.db"}
    with closing(sqlite3.connect(tmp_path / "store.index-1.db")) as conn, conn:
        conn.execute("UPDATE daily SET events = events + 1")
    staged = tmp_path / "store.reindex" / "0123456789abcdef"
    staged.mkdir(parents=True)
    found = command("--store", str(path), "--check")
    assert found.returncode == 1
    assert not staged.parent.exists()
    assert "daily\t" in found.stdout
    assert command("--store", str(path), "--repair").returncode == 0
    assert left(tmp_path) == {"store.index-2.db"}


async def test_the_command_says_where_rejects_are_and_no_store_takes_its_index(
    tmp_path: Path,
) -> None:
    archive = write_archive(tmp_path / "a.jsonl", nasty()[:3])
    archive.write_text(archive.read_text("utf-8") + "no event\n", "utf-8")
    stale = tmp_path / "out" / "rejects" / "part-0.parquet"
    stale.parent.mkdir(parents=True)
    stale.touch()
    arguments = ("--jsonl", str(archive), "--out", str(tmp_path / "out"), "--engine", "reference")
    done = command(*arguments)
    assert done.returncode == 0, done.stderr
    assert f"what was rejected is in {tmp_path / 'out' / 'rejects'}\n" in done.stderr
    (kept,) = stale.parent.iterdir()
    assert json.loads(kept.read_text("utf-8"))["line"] == "no event"
    with pytest.raises(StoreError, match="other numbers"):
        check_built(tmp_path / "out" / "index.db")


async def test_the_seconds_are_those_of_the_whole_process(tmp_path: Path) -> None:
    """Its start and end too: what the child says of itself is less."""
    archive = inputs.archive("jsonl", [str(write_archive(tmp_path / "a.jsonl", nasty()[:3]))])
    job, _ = run.make_job(archive, engine="reference", out=tmp_path / "out", now=NOW)
    heard: list[object] = []
    result = await run.build(job, "a test", heard.append)
    (told,) = [one for one in heard if isinstance(one, Built)]
    assert result.built.seconds > told.seconds


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agent", "reindex", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_messages_pass_as_lines() -> None:
    message = Built(path="x", fingerprint="f", next_seq=1, removals=0, rows={}, statuses={})
    assert from_line(to_line(message)) == message


@pytest.mark.parametrize("order", [("--check", "--repair"), ("--repair", "--check")])
def test_a_repair_is_asked_for_alone(order: tuple[str, str]) -> None:
    done = CliRunner().invoke(cli, ["reindex", *order])
    assert done.exit_code == 2
    assert "give it alone" in done.stderr
