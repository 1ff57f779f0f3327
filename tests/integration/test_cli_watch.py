"""`nostr-client watch` and `count --store` from the outside."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from nostr_client import nip19
from nostr_client.cli.relays import worst_code
from tests.faults import COUNT_REFUSALS, RefusesCount
from tests.faulty_relay import FaultyRelay
from tests.worlds import NOTE, TARGET, follow, reaction

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    Run = Callable[..., Coroutine[Any, Any, tuple[int, str, str]]]

NPUB = nip19.PublicKey(TARGET).encode()
PNG = b"\x89PNG\r\n\x1a\n"


def silent() -> RefusesCount:
    """A relay that knows no COUNT."""
    return RefusesCount(COUNT_REFUSALS["notice, rnostr"])


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `nostr-client` with a store of this test; gives exit code, stdout, stderr."""

    async def runs(*args: str) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "nostr_client", *args),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"NOSTR_TALLY_STORE": str(tmp_path / "store.db"), "PATH": "", "COLUMNS": "200"},
        )
        out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    return runs


async def test_the_second_count_with_a_store_reads_what_is_new(run: Run, tmp_path: Path) -> None:
    async with FaultyRelay(silent(), events=[reaction(i) for i in range(1500)]) as relay:
        ask = ("count", "reactions", NOTE, "--relay", relay.url, "--json")
        ask = (*ask, "--store", str(tmp_path / "kept.db"))
        _, first, _ = await run(*ask)
        relay.events += [reaction(5000 + i) for i in range(5)]
        code, second, err = await run(*ask)
    assert (code, err) == (0, "")
    one, two = json.loads(first)["relays"][0], json.loads(second)["relays"][0]
    assert json.loads(first)["value"] == 1500
    assert json.loads(second)["value"] == 1505
    assert one["events_read"] >= 1500
    assert 5 <= two["events_read"] <= 5 + 360 + 3  # what is new, and the overlap of an hour
    assert two["last_read"] > 0


async def test_a_watch_from_its_first_to_its_last_day(run: Run, tmp_path: Path) -> None:
    async with FaultyRelay(silent(), events=[follow(i) for i in range(50)]) as relay:
        code, _, err = await run(
            *("watch", "add", "me", "followers", NPUB, "--relay", relay.url, "--interval", "1h")
        )
        assert (code, err) == (0, "watching me every 3600 s\n")
        code, _, err = await run("watch", "add", "me", "followers", NPUB, "-r", relay.url)
        assert code == 2
        assert "already" in err
        code, out, _ = await run("watch", "run", "--once")
        assert code == 0
        assert "followers: 50 (exact)" in out
        relay.events += [follow(i) for i in range(50, 60)]
        await asyncio.sleep(1.01 - time.time() % 1)  # a history has one point a second
        code, out, _ = await run("watch", "run", "me", "--once", "--json")
        assert json.loads(out)["value"] == 60
    _, out, _ = await run("watch", "list", "--json")
    (listed,) = json.loads(out)
    assert (listed["name"], listed["interval"], listed["newest"]["value"]) == ("me", 3600, 60)
    _, out, _ = await run("watch", "list")
    assert "me  followers  60" in out
    _, out, _ = await run("watch", "show", "me", "--json")
    shown = json.loads(out)
    assert shown["result"]["value"] == 60
    assert shown["parts"][0]["used"] == ["events"]
    code, out, _ = await run("watch", "show", "me")
    assert "events used, 100% of all" in out
    await check_history(run, tmp_path)
    assert (await run("watch", "rm", "me"))[0] == 0
    code, _, err = await run("watch", "history", "me")
    assert (code, err) == (2, "nostr-client: there is no watch named 'me'\n")


async def check_history(run: Run, tmp_path: Path) -> None:
    _, out, _ = await run("watch", "history", "me", "--json")
    points = json.loads(out)["points"]
    assert [point["value"] for point in points] == [50, 60]
    _, out, _ = await run("watch", "history", "me", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["value"] for row in rows] == ["50", "60"]
    assert rows[0].keys() == points[0].keys()
    file = tmp_path / "series.parquet"
    code, _, _ = await run("watch", "history", "me", "--format", "parquet", "-o", str(file))
    assert code == 0
    assert pq.read_table(file).to_pylist() == points
    picture = tmp_path / "series.png"
    code, _, _ = await run("watch", "history", "me", "--plot", str(picture))
    assert code == 0
    assert picture.read_bytes().startswith(PNG)
    _, out, _ = await run("watch", "history", "me")
    assert out.splitlines()[0] == "▁█"
    code, _, err = await run("watch", "history", "me", "--format", "parquet")
    assert code == 2
    assert "--output" in err


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["watch", "add", "x", "followers", "nobody"], 2, "not bech32"),
        (["watch", "add", "x"], 2, "WHAT and TARGET"),
        (["watch", "add", "a/b", "followers", NPUB], 2, "name"),
        (["watch", "add", "x", "followers", NPUB, "--interval", "soon"], 2, "duration"),
        (["watch", "add", "x", "followers", NPUB, "--interval", "1s"], 2, "10 seconds"),
        (["watch", "list"], 1, "no store"),
        (["watch", "show", "x"], 1, "no store"),
        (["watch", "run", "x", "--once"], 2, "no watch named"),
    ],
)
async def test_mistakes_get_one_clear_line(run: Run, args: list[str], code: int, says: str) -> None:
    got, out, err = await run(*args)
    assert (got, out) == (code, "")
    assert says in err
    assert err.count("\n") == 1


async def test_a_watch_without_relays_is_named_and_stops_no_other(run: Run) -> None:
    async with FaultyRelay(silent(), events=[follow(i) for i in range(3)]) as relay:
        await run("watch", "add", "good", "followers", NPUB, "--relay", relay.url)
        await run("watch", "add", "lost", "followers", NPUB)
        code, out, err = await run("watch", "run", "--once")
    assert (code, err) == (3, "lost: no relay to ask: give --relay or --indexer\n")
    assert "good  followers: 3 (exact)" in out
    assert (await run("watch", "run", "lost", "--once"))[0] == 2


async def test_each_watch_is_to_have_an_answer(run: Run) -> None:
    async with FaultyRelay(silent(), events=[follow(1)]) as relay:
        await run("watch", "add", "good", "followers", NPUB, "--relay", relay.url)
        await run("watch", "add", "away", "followers", NPUB, "--relay", "ws://127.0.0.1:9")
        assert (await run("watch", "run", "--once"))[0] == 3
        assert (await run("watch", "run", "good", "--once"))[0] == 0


@pytest.mark.parametrize(
    ("codes", "code"),
    [([], 0), ([0, 0], 0), ([0, 3], 3), ([124, 0], 124), ([124, 124], 124), ([124, 3, 0], 3)],
)
def test_the_worst_of_many_questions_decides(codes: list[int], code: int) -> None:
    assert worst_code(codes) == code
