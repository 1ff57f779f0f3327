"""Which task sends a frame: the caller's own if nothing delays it, else the loop that writes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from nostr_client.errors import NetworkError
from nostr_client.network.access.budget import Budget
from nostr_client.network.pump import Pump
from nostr_client.network.waiting import Gate
from nostr_client.options import Limits, RelayBudget, Timeouts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Socket:
    """Notes what is sent and by whom; `room` lets a send end."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.bytes_sent = 0
        self.gate = Gate()
        self.tasks: list[asyncio.Task[None] | None] = []
        self.room = asyncio.Event()
        self.room.set()
        self.error: NetworkError | None = None

    async def send(self, *texts: str) -> None:
        if self.error is not None:
            raise self.error
        self.sent += texts
        self.bytes_sent += sum(len(text.encode()) for text in texts)
        self.tasks += [asyncio.current_task()] * len(texts)
        self.gate.wake()
        await self.room.wait()


@asynccontextmanager
async def writing(
    budget: Budget | None = None, limits: Limits | None = None
) -> AsyncIterator[tuple[Pump, Socket, asyncio.Task[None]]]:
    socket = Socket()
    pump = Pump(socket, limits or Limits(), Timeouts(), budget)
    task = asyncio.create_task(pump.write())
    await asyncio.sleep(0)
    try:
        yield pump, socket, task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def written(socket: Socket, number: int) -> None:
    async with asyncio.timeout(60):
        await socket.gate.wait(lambda: len(socket.sent) >= number)


async def test_a_request_goes_at_once_in_the_task_of_its_caller() -> None:
    async with writing() as (pump, socket, _):
        await pump.send_now(["a"])
        assert (socket.sent, socket.tasks) == (["a"], [asyncio.current_task()])


async def test_a_request_waits_behind_frames_that_wait() -> None:
    async with writing() as (pump, socket, task):
        pump.send(["a", "b"])
        await pump.send_now(["c"])
        await written(socket, 3)
        assert (socket.sent, socket.tasks) == (["a", "b", "c"], [task] * 3)


async def test_one_frame_at_a_time_goes_through_the_socket() -> None:
    async with writing() as (pump, socket, task):
        socket.room.clear()
        asking = asyncio.create_task(pump.send_now(["a"]))
        await written(socket, 1)
        await pump.send_now(["b"])
        pump.send(["c"])
        for _ in range(5):
            await asyncio.sleep(0)
        assert socket.sent == ["a"]
        socket.room.set()
        await asking
        await written(socket, 3)
        assert (socket.sent, socket.tasks[1:]) == (["a", "b", "c"], [task] * 2)


async def test_a_caller_that_gives_up_leaves_the_socket_to_the_next() -> None:
    async with writing() as (pump, socket, _):
        socket.room.clear()
        asking = asyncio.create_task(pump.send_now(["a"]))
        await written(socket, 1)
        pump.send(["b"])
        asking.cancel()
        await asyncio.wait([asking])
        await written(socket, 2)
        assert socket.sent == ["a", "b"]


async def test_a_budget_and_the_rate_decide_in_the_loop() -> None:
    async with writing(Budget(RelayBudget())) as (pump, socket, task):
        await pump.send_now(['["COUNT"'])
        assert pump.withdraw("COUNT", "c1") is False
        await written(socket, 1)
        assert socket.tasks == [task]
    async with writing(limits=Limits(messages_per_second_out=1)) as (pump, socket, task):
        await pump.send_now(["a"])
        await pump.send_now(["b"])
        assert socket.sent == ["a"]


async def test_an_error_of_the_socket_ends_the_loops_too() -> None:
    async with writing() as (pump, socket, task):
        socket.error = NetworkError("sending: gone")
        with pytest.raises(NetworkError, match="gone"):
            await pump.send_now(["a"])
        await asyncio.wait([task])
        assert task.exception() is socket.error
