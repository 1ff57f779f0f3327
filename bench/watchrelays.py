"""The relays that `bench.watches` asks: one process, a port for each, everything signed.

Lines on stdin tell the time, in Unix seconds; what is dated later is not there yet. A line on
stdout has the ports, once they listen.

    python -m bench.watchrelays RELAYS
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from functools import lru_cache
from typing import Any

from aiohttp import WSMsgType, web

from nostr_client import hll
from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.keys import KeySigner

PEOPLE = 200
"""Who react to each target; a relay has the reactions of half of them."""

LATE = 20
"""Of these, who react within the next two days."""

START = 1_700_000_000
SIGNERS = [KeySigner(bytes(30) + (n + 1).to_bytes(2, "big"), rand=bytes) for n in range(PEOPLE)]

_clock = START


@lru_cache(100_000)
def signed(target: str, person: int, at: int) -> Event:
    """A reaction, signed once for all relays that hold it."""
    template = EventTemplate(kind=7, content="+", tags=(("e", target),), created_at=at)
    return SIGNERS[person].sign_now(template).event


@lru_cache(None)
def held(relay: int, target: str) -> tuple[tuple[int, int], ...]:
    """When and by whom a relay was told of a target, newest first."""
    when, whether = random.Random(target), random.Random(f"{relay} {target}")
    rows = []
    for person in range(PEOPLE):
        late = person < LATE
        at = START + when.randrange(2 * 86_400) if late else START - 3600 * person
        if whether.random() < 0.5:
            rows.append((at, person))
    return tuple(sorted(rows, reverse=True))


def matching(relay: int, asked: dict[str, Any]) -> list[tuple[int, int]]:
    """What a relay has for a filter at this time."""
    since, until = asked.get("since", 0), min(asked.get("until", _clock), _clock)
    return [row for row in held(relay, asked["#e"][0]) if since <= row[0] <= until]


def count(relay: int, query_id: str, asked: dict[str, Any]) -> str:
    """The answer to a COUNT; every fifth relay gives no registers."""
    found = matching(relay, asked)
    answer: dict[str, Any] = {"count": len(found)}
    if relay % 5:
        offset = hll.offset(asked) or 8
        answer["hll"] = hll.to_hex(
            hll.from_pubkeys([SIGNERS[person].pubkey for _, person in found], offset)
        )
    return json.dumps(["COUNT", query_id, answer])


async def serve(request: web.Request) -> web.WebSocketResponse:
    """One connection."""
    assert request.transport is not None
    relay = PORTS[request.transport.get_extra_info("sockname")[1]]
    ws = web.WebSocketResponse(compress=False)
    await ws.prepare(request)
    async for message in ws:
        if message.type is not WSMsgType.TEXT:
            continue
        label, name, *rest = json.loads(message.data)
        if label == "COUNT":
            await ws.send_str(count(relay, name, rest[0]))
        elif label == "REQ":
            for at, person in matching(relay, rest[0])[: rest[0].get("limit")]:
                event = signed(rest[0]["#e"][0], person, at).to_json()
                await ws.send_str(f'["EVENT",{json.dumps(name)},{event}]')
            await ws.send_str(json.dumps(["EOSE", name]))
        elif label == "NEG-OPEN":
            await ws.send_str(json.dumps(["NOTICE", "ERROR: bad msg: unknown cmd"]))
    return ws


PORTS: dict[int, int] = {}


async def main(relays: int) -> None:
    """Listen until stdin ends."""
    global _clock
    app = web.Application()
    app.router.add_get("/", serve)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    for relay in range(relays):
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        PORTS[runner.addresses[-1][1]] = relay
    sys.stdout.write(json.dumps(list(PORTS)) + "\n")
    sys.stdout.flush()
    while line := await asyncio.to_thread(sys.stdin.readline):
        _clock = int(line)
        sys.stdout.write("\n")
        sys.stdout.flush()
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
