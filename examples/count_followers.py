"""How many people follow somebody: python count_followers.py NPUB RELAY..."""

import argparse
import asyncio

from nostr_client import NostrClient, count


async def main(npub: str, *relays: str) -> None:
    async with NostrClient(relays) as client:
        result = await client.count(count.followers(npub))
    for claim in result.relays:
        print(f"{claim.relay}: {claim.count} by {claim.method}, {claim.status}")
    most = "or more" if result.high is None else f"to {result.high}"
    word = "exactly" if result.exact else f"{result.low} {most}, about"
    print(f"{word} {result.value} followers")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("npub")
parser.add_argument("relays", nargs="+")
args = parser.parse_args()
asyncio.run(main(args.npub, *args.relays))
