"""Bring a profile's notes home: python sync_notes.py STORE NPUB RELAY..."""

import argparse
import asyncio

from nostr_client import Filter, NostrClient, SqliteStore
from nostr_client.codecs.nip19 import decode_pubkey


async def main(path: str, npub: str, *relays: str) -> None:
    notes = Filter(authors=[decode_pubkey(npub)], kinds=[1])
    async with NostrClient(relays, store=path) as client:
        report = await client.sync(notes, direction="down")
        for relay in report.relays:
            print(f"{relay.relay}: {relay.status}, {relay.downloaded} downloaded", relay.reason)
    async with await SqliteStore.open(path, read_only=True) as store:
        for event in await store.query([notes.replace(limit=5)]):
            print(event.created_at, event.content[:60])


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("store")
parser.add_argument("npub")
parser.add_argument("relays", nargs="+")
args = parser.parse_args()
asyncio.run(main(args.store, args.npub, *args.relays))
