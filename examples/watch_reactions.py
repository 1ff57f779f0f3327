"""The reactions to a note as they come: python watch_reactions.py NEVENT RELAY...

Ends with Ctrl-C.
"""

import asyncio
import contextlib
import sys

from nostr_client import NostrClient, count


async def main(note: str, *relays: str) -> None:
    async with NostrClient(relays) as client:
        results = client.watch(count.reactions(note), interval=300)
        async for result in results:
            print(result.value, "reactions", flush=True)


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main(*sys.argv[1:]))
