"""Copy what each of two relays lacks from the other: python mirror_relays.py RELAY RELAY"""

import argparse
import asyncio
import sys

from nostr_client import Filter, NostrClient


async def main(first: str, second: str) -> None:
    async with NostrClient() as client:
        report = await client.mirror(Filter(kinds=[0, 3]), first, second, direction="both")
    for relay in report.relays:
        print(f"{relay.relay}: {relay.status}, {relay.uploaded} events given", relay.reason)
    if any(relay.status != "complete" for relay in report.relays):
        sys.exit(1)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("relays", nargs=2)
asyncio.run(main(*parser.parse_args().relays))
