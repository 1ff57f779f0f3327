"""How many people follow somebody: python count_followers.py NPUB RELAY..."""

import asyncio
import sys

from nostr_client import NostrClient, count


async def main(npub: str, *relays: str) -> None:
    async with NostrClient(relays) as client:
        result = await client.count(count.followers(npub))
    for claim in result.relays:
        print(f"{claim.relay}: {claim.count} by {claim.method}, {claim.status}")
    word = "exactly" if result.exact else f"between {result.low} and {result.high}, about"
    print(f"{word} {result.value} followers")


asyncio.run(main(*sys.argv[1:]))
