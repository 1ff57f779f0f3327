"""The reactions to a note as they come: python watch_reactions.py NEVENT RELAY...

Ends with Ctrl-C.
"""

import argparse
import asyncio
import contextlib

from nostr_client import NostrClient, count


async def main(note: str, *relays: str) -> None:
    async with NostrClient(relays) as client:
        results = client.watch(count.reactions(note), interval=300)
        async for result in results:
            print(result.value, "reactions", flush=True)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("nevent")
parser.add_argument("relays", nargs="+")
args = parser.parse_args()
with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main(args.nevent, *args.relays))
