"""A WebSocket server of aiohttp that answers without a store: what the library alone costs.

It answers EVENT with an OK, and REQ with notes and EOSE in one write: with twenty notes, and every
second time with none, as in the first data set. It finds the id of the request by its place in the
frame, and verifies and stores nothing.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import islice

from aiohttp import web

from agent.relay.server import text_frames
from bench.relay_loads import notes_and_reactions

NOTES = [frame[len('["EVENT",') :] for _, frame in islice(notes_and_reactions(40), 0, None, 2)]


async def handle(request: web.BaseRequest) -> web.StreamResponse:
    """Answer one client until it leaves."""
    ws = web.WebSocketResponse(compress=False)
    await ws.prepare(request)
    async for message in ws:
        answer = _answer(message.data)
        if answer and request.transport is not None:
            request.transport.write(text_frames(map(str.encode, answer)))
            await request.writer.drain()
    return ws


def _answer(frame: str) -> list[str]:
    if frame.startswith('["EVENT"'):
        at = frame.index('"id":"') + len('"id":"')
        return [f'["OK","{frame[at : at + 64]}",true,""]']
    if not frame.startswith('["REQ"'):
        return []
    sub_id = frame.split('"', 4)[3]
    notes = [] if int(sub_id.removeprefix("REQ")) % 2 else NOTES
    return [*(f'["EVENT","{sub_id}",{note}' for note in notes), f'["EOSE","{sub_id}"]']


async def main() -> None:
    """Serve until stdin ends."""
    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    sys.stdout.write(f"LISTENING ws://{host}:{port}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
