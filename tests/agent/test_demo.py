"""`make demo` shows true numbers, would notice a false one, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from agent.demo.history import points
from agent.demo.relays import KINDS, SPREAD
from agent.demo.tour import check, check_exact, holds
from agent.demo.world import WEEK, World
from nostr_client import count, hll
from nostr_client.count.merge import Figure

ROOT = Path(__file__).parents[2]
NOW = 1_700_000_000


async def start_demo(*words: str, temp: Path) -> asyncio.subprocess.Process:
    (temp / "nostr-agent-demo-of-one-that-was-killed").mkdir()
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent", "demo", *words),
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(temp)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


def left_in(temp: Path) -> list[str]:
    return [name for name in os.listdir(temp) if name.startswith("nostr-")]


async def test_the_demonstration_shows_the_truth_beside_each_number(tmp_path: Path) -> None:
    process = await start_demo(temp=tmp_path)
    out, err = await process.communicate()
    said = out.decode()
    assert process.returncode == 0, (said, err)
    assert err.decode().startswith("all right")
    assert said.count("inside what the count says") == 2
    assert all(said.count(kind.name) >= 3 for kind in KINDS)
    assert "6 of 7 relays answered" in said
    assert "auth_required" in said
    assert "left out of the number" in said
    assert "once more: 0 new" in said
    assert "all are here" in said
    assert "all that the agent says holds" in said
    assert left_in(tmp_path) == []


async def test_as_json_the_agent_stores_and_counts_everything(tmp_path: Path) -> None:
    process = await start_demo("--json", temp=tmp_path)
    out, err = await process.communicate()
    assert (process.returncode, err) == (0, b""), err
    told = json.loads(out)
    assert told["right"] is True
    assert all(one["right"] for one in told["numbers"])
    values = {one["name"]: one for one in told["numbers"]}
    assert values["stored: events"]["value"] == values["stored: events"]["truth"] > 0
    assert values["counter events.3"]["value"] == values["watch author-followers"]["truth"]
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_told_to_end_it_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    process = await start_demo(temp=tmp_path)
    assert process.stdout is not None
    await process.stdout.readuntil(b"\n\n")  # the first count is there: everything runs
    process.send_signal(number)
    _, talk = await process.communicate()
    assert process.returncode == 130
    assert talk.decode().split() == ["nostr-agent:", "interrupted"]
    assert left_in(tmp_path) == []
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.parametrize(
    ("figure", "truth", "expected"),
    [
        (Figure.exactly(5), 5, True),
        (Figure.exactly(5), 6, False),
        (Figure.at_least(5), 9, True),
        (Figure.at_least(5), 4, False),
        (Figure(value=5, low=4, high=7), 7, True),
        (Figure(value=5, low=4, high=7), 8, False),
        (None, 0, False),
    ],
)
def test_a_number_that_is_not_true_is_noticed(
    figure: Figure | None, truth: int, expected: bool
) -> None:
    assert holds(figure, truth) is expected
    assert check("one", figure, truth).right is expected


def test_a_number_that_is_known_must_be_equal() -> None:
    assert check_exact("one", 5, 5).right
    assert not check_exact("one", 4, 5).right


def test_the_people_and_their_registers_are_the_same_at_any_time() -> None:
    worlds = [World(NOW + later, SPREAD, people=60) for later in (0, 1, 86_401)]
    told = set()
    for world in worlds:
        offset = hll.offset({"#e": [world.launch.event.id]})
        assert offset is not None
        reactions = count.reactions(world.launch.event.id).filters[0]
        keys = [post.event.event.pubkey for post in world.matching(reactions)]
        told.add((hll.from_pubkeys(keys, offset), len(keys)))
    assert len(told) == 1


def test_no_post_is_twice_and_none_is_later_than_now() -> None:
    world = World(NOW, SPREAD, people=60)
    for _ in range(60):
        world.join(NOW)
    ids = [post.event.event.id for post in world.posts]
    assert len(set(ids)) == len(ids)
    assert max(post.at for post in world.posts) <= NOW
    assert all(set(post.relays) <= set(range(SPREAD)) for post in world.posts)


def test_the_history_of_a_watch_grows_to_what_relays_hold_now() -> None:
    world = World(NOW, SPREAD, people=60)
    found = list(points(world.posts, count.followers(world.author), NOW - WEEK, NOW))
    assert [one.at for one in found] == sorted({one.at for one in found})
    assert found[0].value < found[-1].value
    assert found[-1].low <= 60 <= found[-1].high
