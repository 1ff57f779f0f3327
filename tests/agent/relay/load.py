"""A crowd of clients in a process of its own: `python -m tests.agent.relay.load URL …`.

Connections with live subscriptions, one publisher at a steady rate, a COUNT of a hot target now
and then, and on wish one client that never reads. Prints one JSON object: what was sent, answered
and seen, and how long answers took (seconds, as the clients saw it).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import aiohttp

from nostr_client.codecs.event import EventTemplate
from tests.agent.relay.client import deaf
from tests.agent.relay.kit import NOW, frame, key

HOT = "ab" * 32
KEYS = 50
PER_GROUP = 5
"""Subscriptions that match one event."""


Socket = aiohttp.ClientWebSocketResponse


@dataclass
class Tally:
    """What the crowd saw."""

    sent: int = 0
    accepted: int = 0
    refused: int = 0
    live: int = 0
    live_latency: list[float] = field(default_factory=list)
    count_latency: list[float] = field(default_factory=list)
    last_count: int = 0
    sent_at: dict[str, float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    expected: int = 0
    complete: asyncio.Event = field(default_factory=asyncio.Event)


def events(count: int, groups: int) -> list[tuple[str, str]]:
    """Id and frame of `count` signed events: each of one group, every twentieth about HOT."""
    signers = [key(seed) for seed in range(KEYS)]
    made = []
    for n in range(count):
        tags = [("t", f"g{n % groups}")]
        if n % 20 == 0:
            tags.append(("e", HOT))
        template = EventTemplate(kind=7, tags=tuple(tags), content=str(n), created_at=NOW + n // 50)
        event = signers[n % KEYS].sign_now(template).event
        made.append((event.id, f'["EVENT",{event.to_json()}]'))
    return made


async def subscribe(ws: Socket, first: int, subs: int, groups: int) -> None:
    """`subs` live subscriptions, each to one group, and their EOSE."""
    for n in range(subs):
        group = (first + n) % groups
        await ws.send_str(frame("REQ", f"s{n}", {"kinds": [7], "#t": [f"g{group}"], "limit": 0}))
    for _ in range(subs):
        message = await ws.receive()
        assert message.data.startswith('["EOSE"'), message


async def listen(ws: Socket, tally: Tally) -> None:
    """Count live events until the connection ends."""
    async for message in ws:
        if message.type is not aiohttp.WSMsgType.TEXT or not message.data.startswith('["EVENT"'):
            tally.errors.append(str(message)[:200])
            continue
        tally.live += 1
        if tally.live >= tally.expected:
            tally.complete.set()
        if tally.live % 50 == 0:
            event_id = message.data.split('"id":"', 1)[1][:64]
            sent_at = tally.sent_at.get(event_id)
            if sent_at is not None:
                tally.live_latency.append(time.perf_counter() - sent_at)
    if ws.close_code not in (None, 1000, 1001):
        tally.errors.append(f"closed with {ws.close_code}")


async def publish(ws: Socket, made: list[tuple[str, str]], rate: float, tally: Tally) -> None:
    """Send at `rate` events a second, by the clock and not by the answers."""
    start = time.perf_counter()
    for n, (event_id, text) in enumerate(made):
        ahead = n / rate - (time.perf_counter() - start)
        if ahead > 0.005:
            await asyncio.sleep(ahead)
        tally.sent_at[event_id] = time.perf_counter()
        await ws.send_str(text)
        tally.sent += 1


async def answers(ws: Socket, tally: Tally, count: int) -> None:
    """Read the OK of every event."""
    for _ in range(count):
        parts = json.loads((await ws.receive()).data)
        if parts[0] == "OK" and parts[2]:
            tally.accepted += 1
        else:
            tally.refused += 1
            tally.errors.append(str(parts)[:200])


async def count_now_and_then(ws: Socket, tally: Tally, stop: asyncio.Event, every_s: float) -> None:
    """COUNT the hot target until told to stop."""
    query = frame("COUNT", "q", {"kinds": [7], "#e": [HOT]})
    while not stop.is_set():
        start = time.perf_counter()
        await ws.send_str(query)
        answer = json.loads((await ws.receive()).data)
        tally.count_latency.append(time.perf_counter() - start)
        tally.last_count = answer[2]["count"]
        await asyncio.wait({asyncio.ensure_future(stop.wait())}, timeout=every_s)


async def run(options: argparse.Namespace) -> Tally:
    """The whole load."""
    tally = Tally()
    total = options.connections * options.subs
    groups = max(1, total // PER_GROUP)
    made = events(int(options.rate * options.seconds), groups)
    tally.expected = len(made) * PER_GROUP
    connector = aiohttp.TCPConnector(limit=0)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        if options.deaf:
            live = [frame("REQ", f"all{n}", {"kinds": [7], "limit": 0}) for n in range(4)]
            await stack.enter_async_context(deaf(options.url, *live))
        sockets = []
        for n in range(options.connections):
            ws = await http.ws_connect(options.url, max_msg_size=0)
            await subscribe(ws, n * options.subs, options.subs, groups)
            sockets.append(ws)
        listeners = [asyncio.create_task(listen(ws, tally)) for ws in sockets]
        writer, counter = await http.ws_connect(options.url), await http.ws_connect(options.url)
        stop = asyncio.Event()
        counting = asyncio.create_task(count_now_and_then(counter, tally, stop, options.every))
        reading = asyncio.create_task(answers(writer, tally, len(made)))
        await publish(writer, made, options.rate, tally)
        await reading
        async with asyncio.timeout(30):
            await tally.complete.wait()
        stop.set()
        await counting
        for ws in sockets:
            await ws.close()
        await asyncio.gather(*listeners)
    return tally


def summary(tally: Tally) -> dict[str, object]:
    """What the parent reads."""
    return {
        "sent": tally.sent,
        "accepted": tally.accepted,
        "refused": tally.refused,
        "live": tally.live,
        "counts": len(tally.count_latency),
        "last_count": tally.last_count,
        "count_p50": quantile(tally.count_latency, 0.5),
        "count_p99": quantile(tally.count_latency, 0.99),
        "live_p50": quantile(tally.live_latency, 0.5),
        "live_p99": quantile(tally.live_latency, 0.99),
        "errors": tally.errors[:5],
        "cpu": sum(resource.getrusage(resource.RUSAGE_SELF)[:2]),
    }


def quantile(values: list[float], q: float) -> float:
    """The q-quantile; 0 for no values."""
    if len(values) < 2:
        return values[0] if values else 0.0
    return statistics.quantiles(values, n=1000, method="inclusive")[min(998, int(q * 1000) - 1)]


def main() -> None:
    """Run as told on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--subs", type=int, default=5)
    parser.add_argument("--rate", type=float, default=2_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--every", type=float, default=0.02, help="seconds between two COUNTs")
    parser.add_argument("--deaf", action="store_true", help="one client that never reads")
    tally = asyncio.run(run(parser.parse_args()))
    sys.stdout.write(json.dumps(summary(tally)) + "\n")


if __name__ == "__main__":
    main()
