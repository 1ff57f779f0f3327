"""An aiohttp app with counts in it: python web_counts.py RELAY..., then GET /followers/NPUB"""

import argparse
from collections.abc import AsyncIterator

from aiohttp import web

from nostr_client import InvalidInput, NostrClient, count

CLIENT = web.AppKey("client", NostrClient)


async def followers(request: web.Request) -> web.Response:
    try:
        query = count.followers(request.match_info["npub"])
    except InvalidInput as error:
        raise web.HTTPBadRequest(text=str(error)) from error
    result = await request.app[CLIENT].count(query, timeout=5)
    answered = sum(claim.status == "ok" for claim in result.relays)
    return web.json_response(
        {"value": result.value, "low": result.low, "high": result.high, "relays": answered}
    )


async def connected(app: web.Application) -> AsyncIterator[None]:
    async with NostrClient(args.relays, store="counts.db") as app[CLIENT]:
        yield


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("relays", nargs="+")
args = parser.parse_args()
app = web.Application()
app.cleanup_ctx.append(connected)
app.add_routes([web.get("/followers/{npub}", followers)])
web.run_app(app, host="127.0.0.1", port=0)
