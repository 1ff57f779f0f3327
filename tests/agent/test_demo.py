"""`make demo` shows a true number, and would notice a false one."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from agent.demo import KINDS, holds
from nostr_client.merge import Figure
from tests.running import start

SECONDS = 55


async def test_the_demonstration_tells_the_truth_in_well_under_a_minute() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "agent.demo",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(SECONDS):
        out, err = await process.communicate()
    assert process.returncode == 0, (out, err)
    said = out.decode()
    assert err == b""
    assert said.count("inside what the count says") == 2
    assert all(said.count(kind.name) == 3 for kind in KINDS)
    assert "once more: 0 new" in said
    assert "all are here" in said
    assert "auth_required" in said
    assert "3 of 4 relays answered" in said


async def test_ctrl_c_ends_it_without_a_traceback() -> None:
    process = await start(module="agent.demo")
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        await process.stdout.readline()  # the first count is there: relays run
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert (process.returncode, err) == (130, b"demo: interrupted\n")


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
