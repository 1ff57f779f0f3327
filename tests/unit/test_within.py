"""A deadline that costs a timer only if something waits."""

from __future__ import annotations

import asyncio

import pytest

from nostr_client.network import waiting
from nostr_client.network.waiting import within


async def waits(times: int, ended: list[str]) -> int:
    try:
        for _ in range(times):
            await asyncio.sleep(0)
        return times
    finally:
        ended.append("ended")


async def waits_for_ever(after: int, ended: list[str]) -> None:
    await waits(after, [])
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("ended")


async def test_work_that_never_waits_sets_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[float | None] = []
    timeout = asyncio.timeout

    def noted(seconds: float | None) -> asyncio.Timeout:
        timers.append(seconds)
        return timeout(seconds)

    monkeypatch.setattr(waiting.asyncio, "timeout", noted)
    assert await within(60.0, waits(0, [])) == 0
    assert timers == []
    assert await within(60.0, waits(3, [])) == 3
    assert timers == [60.0]


async def test_an_error_before_and_after_a_wait_passes() -> None:
    async def fails(times: int) -> None:
        await waits(times, [])
        raise ValueError("gone")

    for times in (0, 2):
        with pytest.raises(ValueError, match="gone"):
            await within(60.0, fails(times))


@pytest.mark.parametrize("after", [0, 2])
async def test_the_end_of_the_time_and_a_cancellation_end_the_work(after: int) -> None:
    ended: list[str] = []
    with pytest.raises(TimeoutError):
        await within(0.01, waits_for_ever(after, ended))
    task = asyncio.create_task(within(3600.0, waits_for_ever(after, ended)))
    for _ in range(after + 2):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["ended", "ended"]
