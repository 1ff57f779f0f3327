"""How long a COUNT takes while another client publishes at a steady rate, by the clock."""

from __future__ import annotations

import asyncio
import json
import time
from statistics import median
from typing import TYPE_CHECKING

import aiohttp

from bench.relay_loads import notes_and_reactions, target
from bench.relay_servers import DEADLINE_S, ask, our_relay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.relay_loads import Request
    from bench.report import Report

RATE = 2_000
"""EVENTs a second: a busy sync of several relays."""

TURN_S = 0.005
"""Seconds between two groups of EVENTs."""

PAUSE_S = 0.005
"""Seconds between an answer and the next COUNT."""

MOST_S = 0.010
"""What 99 of 100 COUNTs may take: a person does not notice a screen of them."""


async def beside_writes(report: Report, held: int, seconds: float) -> None:
    """Report the 99th percentile of the COUNTs of one client beside the EVENTs of another."""
    events = list(notes_and_reactions(held + int(RATE * seconds)))
    async with (
        our_relay() as relay,
        aiohttp.ClientSession() as http,
        http.ws_connect(relay.url, max_msg_size=0) as publisher,
        http.ws_connect(relay.url, max_msg_size=0) as counter,
    ):
        await ask(publisher, "EVENT", events[:held])
        done = asyncio.Event()
        counting = asyncio.create_task(_count_until(done, counter))
        spent = await _publish(publisher, events[held:])
        done.set()
        times = sorted(await counting)
    what = f"COUNT beside {RATE:,} EVENT/s, 99th percentile"
    report.figure(what, times[len(times) * 99 // 100], "s", at_most=MOST_S)
    report.note(
        f"Of {len(times):,} COUNTs beside {(len(events) - held) / spent:,.0f} EVENT/s, the median"
        f" took {median(times) * 1e3:.1f} ms, and the slowest {times[-1] * 1e3:.1f} ms."
    )


async def _publish(ws: aiohttp.ClientWebSocketResponse, events: Sequence[Request]) -> float:
    """Send events at RATE and take every OK. Returns the seconds until the last OK."""
    start = time.perf_counter()
    taking = asyncio.create_task(_take(ws, len(events)))
    for n, (_, frame) in enumerate(events):
        ahead = start + n / RATE - time.perf_counter()
        if ahead > TURN_S:
            await asyncio.sleep(ahead)
        await ws.send_str(frame)
    await taking
    return time.perf_counter() - start


async def _take(ws: aiohttp.ClientWebSocketResponse, answers: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        for _ in range(answers):
            await ws.receive()


async def _count_until(done: asyncio.Event, ws: aiohttp.ClientWebSocketResponse) -> list[float]:
    """Ask one COUNT after the other until the event is set. Returns the seconds of each."""
    times: list[float] = []
    while not done.is_set():
        asked = json.dumps(["COUNT", "c", {"kinds": [7], "#e": [target(len(times))]}])
        start = time.perf_counter()
        await ws.send_str(asked)
        async with asyncio.timeout(DEADLINE_S):
            answer = json.loads((await ws.receive()).data)
        times.append(time.perf_counter() - start)
        if answer[0] != "COUNT":
            raise RuntimeError(str(answer))
        await asyncio.sleep(PAUSE_S)
    return times
