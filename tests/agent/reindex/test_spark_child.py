"""The Spark engine as the child that it is: ended from outside, it leaves no process behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from agent.reindex import inputs, run
from agent.reindex.launcher import ReindexFailed, messages
from agent.reindex.protocol import STAGES, Failed, Job, Stage
from agent.reindex.reporter import tree
from agent.reindex.spark import submit
from agent.reindex.tempdir import PREFIX
from tests.agent.reindex import cluster
from tests.agent.reindex.nasty import HOT, NOW, URLS, nasty, write_archive
from tests.worlds import NOTE, TARGET, follow, reaction

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "reindex_archive.sh"

pytestmark = pytest.mark.timeout(600)


def job_in(folder: Path, *, master: str = "local[2]", out: str = "out") -> Job:
    archive = inputs.archive("jsonl", [str(write_archive(folder / "a.jsonl", nasty()))])
    job, _ = run.make_job(
        archive,
        engine="spark",
        out=folder / out,
        urls=URLS,
        hot=HOT,
        now=NOW,
        master=master,
        memory="1g",
        partitions=2,
        aot="use",
    )
    return job


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def driver_of(children: set[int]) -> int:
    """The child itself: not the lowest number, as numbers begin again."""
    return next(pid for pid in children if b"agent.reindex.child" in cmdline(pid))


def java_of(children: set[int]) -> list[int]:
    return [pid for pid in children if program(pid) == "java"]


def program(pid: int) -> str:
    try:
        return Path(os.readlink(f"/proc/{pid}/exe")).name
    except OSError:
        return ""


async def until(job: Job, stage: str, act: Callable[[set[int]], None]) -> set[int]:
    """Run until a stage has begun, act on the processes of the run, read on; the processes."""
    before = set(tree())
    below: set[int] = set()
    async with aclosing(messages(job)) as said:
        async for message in said:
            if isinstance(message, Failed):
                raise ReindexFailed(message.message)
            if isinstance(message, Stage) and (message.name, message.state) == (stage, "started"):
                below = set(tree()) - before
                act(below)
    return below


def gone(pids: set[int]) -> bool:
    """Whether all have ended, or do within some seconds."""
    end = time.monotonic() + 30
    while any(alive(pid) for pid in pids):
        if time.monotonic() > end:
            return False
        threading.Event().wait(0.1)
    return True


def alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def leftovers(folder: Path) -> list[str]:
    names = [path.name for path in (folder / "out").rglob("*")]
    half = ("index.db", PREFIX)
    return [name for name in names if name.startswith(half) or name.endswith(".part")]


def kept_apart(out: Path, below: set[int]) -> bool:
    """Whether Java keeps nothing in /tmp, which no start of another run would clean."""
    (folder,) = out.glob(f"work/{PREFIX}*")
    (java,) = java_of(below)
    told = Path(f"/proc/{java}/cmdline").read_text("utf-8").split("\0")
    assert {f"-Djava.io.tmpdir={folder}/tmp", "-XX:-UsePerfData"} <= set(told)
    environ = Path(f"/proc/{java}/environ").read_text("utf-8").split("\0")
    assert f"TMPDIR={folder}" in environ
    return any((folder / "tmp").iterdir())


async def test_sigkill_and_sigterm_leave_no_process_and_nothing_half(
    tmp_path: Path, no_java: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a killed driver could not clean goes when the next run starts; SIGTERM ends with 130."""
    monkeypatch.setenv("PATH", no_java["PATH"])
    monkeypatch.delenv("JAVA_HOME", raising=False)
    job = job_in(tmp_path)
    all_of_it: set[int] = set()

    def end(number: int, below: set[int]) -> None:
        assert kept_apart(tmp_path / "out", below)
        all_of_it.update(below)
        os.kill(driver_of(below), number)

    with pytest.raises(ReindexFailed, match="SIGKILL"):
        await until(job, "events", partial(end, signal.SIGKILL))
    assert gone(all_of_it)
    assert leftovers(tmp_path) != []
    with pytest.raises(ReindexFailed, match="130"):
        await until(job, "dead", partial(end, signal.SIGTERM))
    assert gone(all_of_it)
    assert leftovers(tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("stage", STAGES)
async def test_sigterm_in_each_stage(tmp_path: Path, stage: str) -> None:
    job = job_in(tmp_path)
    with pytest.raises(ReindexFailed, match="130"):
        await until(job, stage, lambda below: os.kill(driver_of(below), signal.SIGTERM))
    assert leftovers(tmp_path) == []
    result = await run.build(job, "a test", lambda message: None)
    assert await asyncio.to_thread(Path(result.built.path).exists)


@pytest.mark.long
@pytest.mark.parametrize("who", ["driver", "java"])
async def test_sigkill_of_driver_or_java_leaves_no_process(tmp_path: Path, who: str) -> None:
    """What a dead driver could not clean goes when the next run starts."""
    job = job_in(tmp_path)
    all_of_it: set[int] = set()

    def kill(below: set[int]) -> None:
        all_of_it.update(below)
        os.kill(driver_of(below) if who == "driver" else java_of(below)[0], signal.SIGKILL)

    with pytest.raises(ReindexFailed):
        await until(job, "registers", kill)
    assert gone(all_of_it)
    assert bool(leftovers(tmp_path)) == (who == "driver")
    result = await run.build(job, "a test", lambda message: None)
    assert await asyncio.to_thread(Path(result.built.path).exists)
    assert leftovers(tmp_path) == ["index.db"]


@pytest.mark.long
def test_the_child_ends_with_its_parent(tmp_path: Path) -> None:
    """A parent that is killed says nothing: the end of stdin does."""
    job_in(tmp_path)
    code = (
        "import asyncio, sys; from agent.cli import run;"
        f"sys.exit(run(['reindex', '--engine', 'spark', '--jsonl', {str(tmp_path / 'a.jsonl')!r},"
        f" '--out', {str(tmp_path / 'out')!r}, '--memory', '1g', '--master', 'local[2]']))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if line.startswith("events"):
                break
        below = set(tree(child.pid)) - {child.pid}
        child.kill()
        assert gone(below)


@pytest.mark.long
@pytest.mark.parametrize("who", ["python", "java"])
def test_sigterm_ends_what_was_submitted(tmp_path: Path, who: str) -> None:
    """The program's own process says 130, which spark-submit hands on."""
    archive = write_archive(tmp_path / "a.jsonl", nasty())
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]"]
    command += ["--driver-memory", "1g", "--driver-java-options", f"-Djava.io.tmpdir={tmp_path}"]
    for key, value in {
        "spark.pyspark.python": sys.executable,
        "spark.ui.enabled": "false",
        "spark.local.dir": str(tmp_path),
    }.items():
        command += ["--conf", f"{key}={value}"]
    command += [str(Path(submit.__file__)), "--jsonl", archive.as_uri()]
    command += ["--out", f"{tmp_path.as_uri()}/out", "--partitions", "2"]
    environment = cluster.environment() | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as java:
        assert java.stdout is not None
        for line in java.stdout:
            if b'"events"' in line:
                break
        below = set(tree(java.pid))
        python = next(pid for pid in below - {java.pid} if b"submit.py" in cmdline(pid))
        os.kill(python if who == "python" else java.pid, signal.SIGTERM)
        assert java.wait(60) in ((130,) if who == "python" else (130, 143))
    assert gone(below)
    left = {path.name for path in tmp_path.iterdir()} - {"a.jsonl", "out"}
    assert left == set()
    assert not list((tmp_path / "out").rglob("tables"))


@pytest.mark.long
def test_the_example_rebuilds_an_archive_from_the_command_line(
    tmp_path: Path, no_java: dict[str, str]
) -> None:
    """`examples/reindex_archive.sh`: from a folder of lines to who is hot."""
    events = [one for i in range(6) for one in (follow(i), reaction(i))]
    archive = write_archive(tmp_path / "a.jsonl", events)
    python = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["bash", str(EXAMPLE), "tables", str(archive)],
        cwd=tmp_path,
        env=no_java
        | {"PATH": f"{python}{os.pathsep}{no_java['PATH']}", "PYTHONPATH": str(ROOT)}
        | {"NOSTR_TALLY_JVM_TRAIN": "no", "MEMORY": "1g", "HOT": "3"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == [
        f"{6:>8} people, kind 3, p {TARGET}",
        f"{6:>8} people, kind 7, e {NOTE}",
    ]
