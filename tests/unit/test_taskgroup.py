"""Our own errors come out of a group as themselves; bugs and cancellation as ever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from nostr_client.errors import NetworkError, StoreError
from nostr_client.network.waiting import task_group

if TYPE_CHECKING:
    from collections.abc import Coroutine


async def fail(error: Exception) -> None:
    raise error


async def together(*coroutines: Coroutine[None, None, None]) -> None:
    async with task_group() as group:
        for one in coroutines:
            group.create_task(one)


async def wait_for_ever(stopped: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        stopped.append("stopped")


async def test_an_error_of_ours_comes_bare_and_stops_the_others() -> None:
    stopped: list[str] = []
    with pytest.raises(StoreError, match="no room"):
        await together(wait_for_ever(stopped), fail(StoreError("no room")))
    assert stopped == ["stopped"]


async def test_an_error_of_a_group_within_a_group_comes_bare() -> None:
    async def nested() -> None:
        async with asyncio.TaskGroup() as inner:
            inner.create_task(fail(StoreError("deep")))

    with pytest.raises(StoreError, match="deep"):
        await together(nested())


async def test_an_error_of_the_block_itself_comes_bare() -> None:
    with pytest.raises(NetworkError):
        async with task_group():
            raise NetworkError("gone")


async def test_a_bug_stays_a_group_and_is_not_hidden_by_an_error_of_ours() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await together(fail(StoreError("full")), fail(KeyError("bug")))
    assert [type(error) for error in caught.value.exceptions] == [KeyError]


async def test_cancelling_and_deadlines_pass() -> None:
    stopped: list[str] = []

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await together(wait_for_ever(stopped))
    task = asyncio.create_task(together(wait_for_ever(stopped)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped == ["stopped", "stopped"]
