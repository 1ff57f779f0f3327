"""Every example runs as its first line says, against relays on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from agent.maintenance import archive
from nostr_client import EventTemplate, Filter, NostrClient, PublishStatus, verify
from nostr_client.cli.app import run
from nostr_client.codecs.nip19 import Note, PublicKey
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch import Point, Watch, WatchRepository, repository
from tests.faulty_relay import FaultyRelay
from tests.nats_cluster import free_ports
from tests.peers.servers import local_relay
from tests.worlds import NOTE, START, TARGET, Sketches, follow, reaction, signer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nostr_client import Event

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
NPUB = PublicKey(TARGET).encode()
DEADLINE_S = 40


@asynccontextmanager
async def running(
    name: str, *args: str, cwd: Path
) -> AsyncIterator[tuple[asyncio.subprocess.Process, asyncio.StreamReader]]:
    """An example as a process of its own, and what it prints; killed at the end."""
    program = ["bash"] if name.endswith(".sh") else [sys.executable, "-u", "-W", "error"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *program,
        str(EXAMPLES / name),
        *args,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PATH": path, "PYTHONFAULTHANDLER": "1"},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield process, process.stdout
    except TimeoutError:
        process.send_signal(signal.SIGABRT)
        pytest.fail(f"{name} hangs: {(await process.stdout.read()).decode()}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def said(name: str, *args: str, cwd: Path) -> str:
    """Everything that an example prints; it must succeed."""
    async with running(name, *args, cwd=cwd) as (process, out):
        text = (await out.read()).decode()
        assert await process.wait() == 0, text
    return text


async def publish(client: NostrClient, events: list[Event], *relays: str) -> None:
    for event in events:
        for answer in (await client.publish(verify(event), relays=relays or None)).values():
            assert answer.status == PublishStatus.OK


def test_every_example_is_tested_and_short() -> None:
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    listed = (ROOT / "docs/examples.md").read_text("utf-8")
    for path in sorted(EXAMPLES.glob("*.*")):
        assert f'"{path.name}"' in tests
        assert f"`{path.name}`" in listed
        if path.suffix != ".ipynb":
            lines = path.read_text("utf-8").splitlines()
            assert len(lines) < 40, path.name
            program = "python" if path.suffix == ".py" else "bash"
            assert f": {program} {path.name} " in lines[0], "the first line says how to run it"


@pytest.mark.parametrize(
    "name", [*sorted(path.name for path in EXAMPLES.glob("*.py")), "reindex_archive.sh"]
)
async def test_an_example_without_arguments_says_its_usage(name: str, tmp_path: Path) -> None:
    async with running(name, cwd=tmp_path) as (process, out):
        text = (await out.read()).decode()
        assert await process.wait() == 2
    assert text.startswith("usage: ")
    assert "Traceback" not in text


async def test_count_followers(tmp_path: Path) -> None:
    people = [follow(i) for i in range(30)]
    async with (
        FaultyRelay(Sketches(), events=people[:20]) as one,
        FaultyRelay(events=people[10:]) as two,
    ):
        text = await said("count_followers.py", NPUB, one.url, two.url, cwd=tmp_path)
    assert f"{two.url}: 20 by" in text
    assert "30 followers" in text or "about" in text


async def test_watch_reactions(tmp_path: Path) -> None:
    async with local_relay() as url, NostrClient(url) as client:
        await publish(client, [reaction(i) for i in range(3)])
        async with running("watch_reactions.py", Note(NOTE).encode(), url, cwd=tmp_path) as (
            process,
            out,
        ):
            assert await out.readline() == b"3 reactions\n"
            await publish(client, [reaction(3, at=int(time.time()))])
            assert await out.readline() == b"4 reactions\n"
            process.send_signal(signal.SIGINT)
            assert await out.read() == b""
            assert await process.wait() == 0


async def test_sync_notes(tmp_path: Path) -> None:
    notes = [
        signer(1).sign_now(EventTemplate(kind=1, content=f"note {n}", created_at=START + n))
        for n in range(7)
    ]
    npub = PublicKey(signer(1).pubkey).encode()
    async with FaultyRelay(events=[note.event for note in notes]) as relay:
        text = await said("sync_notes.py", "events.db", npub, relay.url, cwd=tmp_path)
    assert "7 downloaded" in text
    assert [line.split()[-1] for line in text.splitlines()[1:]] == ["6", "5", "4", "3", "2"]


async def test_mirror_relays(tmp_path: Path) -> None:
    people = [follow(i) for i in range(9)]
    async with local_relay() as one, local_relay() as two, NostrClient() as client:
        await publish(client, people[:6], one)
        await publish(client, people[4:], two)
        text = await said("mirror_relays.py", one, two, cwd=tmp_path)
        for url in (one, two):
            report = await client.sync(Filter(kinds=[3]), url, ids_only=True)
            assert report.events == 9
    assert "3 events given" in text
    assert "4 events given" in text


async def test_publish_counter(tmp_path: Path) -> None:
    async with local_relay() as one, local_relay() as two:
        text = await said("publish_counter.py", one, two, cwd=tmp_path)
    assert text.count(": ok\n") == 2
    assert text.endswith("app.plays 7\n")


async def test_two_agents(tmp_path: Path) -> None:
    text = await said("two_agents.sh", *map(str, free_ports(2)), cwd=tmp_path)
    lines = [one for one in text.splitlines() if not one.startswith("through the agent at ")]
    assert lines[:2] == ["3", "4"]
    assert re.search(r"^app.plays +7 .* es app.plays.es 3$", text, re.MULTILINE), text


async def test_web_counts(tmp_path: Path) -> None:
    async with (
        FaultyRelay(events=[follow(i) for i in range(5)]) as relay,
        running("web_counts.py", relay.url, cwd=tmp_path) as (_, out),
    ):
        url = (await out.readline()).split()[3].decode()
        async with aiohttp.ClientSession(url) as session:
            async with session.get(f"/followers/{NPUB}") as answer:
                assert await answer.json() == {"value": 5, "low": 5, "high": 5, "relays": 1}
            async with session.get("/followers/nobody") as answer:
                assert answer.status == 400


async def test_plot_history(tmp_path: Path) -> None:
    """The notebook's code, cell after cell, as a script."""
    async with await WatchRepository.open(tmp_path / "events.db") as book:
        await book.add(Watch(name="me", query="followers", target=NPUB))
        for n in range(20):
            point = Point.sample(
                START + 60 * n, 100 + n, 95, 130, exact=False, unit="distinct_authors"
            )
            await book.database.write(lambda conn, p=point: repository.asked(conn, "me", p.at, p))
    cells = json.loads((EXAMPLES / "plot_history.ipynb").read_text("utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    script = tmp_path / "notebook.py"
    script.write_text(code, "utf-8")
    text = await said(str(script), cwd=tmp_path)
    assert text.startswith("20 points, the last 119 ")
    assert (tmp_path / "me.png").read_bytes().startswith(b"\x89PNG")


async def test_archive_analytics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script, and the notebook's code as a script; both say the same."""
    people = [follow(i) for i in range(12)]
    async with await SqliteStore.open(tmp_path / "store.db") as store:
        await store.save([verify(event) for event in people])
        await archive.export(store.export(), tmp_path / "one", "parquet")
        half = store.export([Filter(authors=[event.pubkey for event in people[:6]])])
        await archive.export(half, tmp_path / "two", "parquet")
    text = await said("archive_analytics.py", "one", "two", cwd=tmp_path)
    assert f"12 follow {TARGET}" in text
    assert "12 events" in text
    assert re.search(r"about [567] of 1[123] authors", text), "6 of 12, estimated"
    cells = json.loads((EXAMPLES / "archive_analytics.ipynb").read_text("utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    script = tmp_path / "notebook.py"
    script.write_text(code, "utf-8")
    monkeypatch.setenv("FOLDER", "one")
    monkeypatch.setenv("OTHER", "two")
    assert await said(str(script), cwd=tmp_path) == text


@pytest.mark.parametrize("name", ["duckdb_parquet.ipynb", "polars_parquet.ipynb"])
async def test_notebooks_over_exported_parquet(name: str, tmp_path: Path) -> None:
    """Cell after cell, as a script, over what `store export` wrote."""
    people = [follow(i) for i in range(7)]
    async with await SqliteStore.open(tmp_path / "store.db") as store:
        await store.save([verify(event) for event in (*people, reaction(1))])
    words = ["store", "export", str(tmp_path / "events.parquet")]
    assert await asyncio.to_thread(run, [*words, "--store", str(tmp_path / "store.db")]) == 0
    cells = json.loads((EXAMPLES / name).read_text("utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    (tmp_path / "notebook.py").write_text(code, "utf-8")
    lines = (await said(str(tmp_path / "notebook.py"), cwd=tmp_path)).splitlines()
    month = datetime.fromtimestamp(START, UTC).strftime("%Y-%m")
    assert lines[0] == "8 events"
    assert f"{month} 3 7" in lines
    assert f"{month} 7 1" in lines
    assert f"{TARGET} 7" in lines
