"""Bring a profile's notes home: python sync_notes.py STORE NPUB RELAY..."""

import asyncio
import sys

from nostr_client import Filter, NostrClient, SqliteStore
from nostr_client.nip19 import decode_pubkey


async def main(path: str, npub: str, *relays: str) -> None:
    notes = Filter(authors=[decode_pubkey(npub)], kinds=[1])
    async with NostrClient(relays, store=path) as client:
        report = await client.sync(notes, direction="down")
        for relay in report.relays:
            print(f"{relay.relay}: {relay.status}, {relay.downloaded} downloaded", relay.reason)
    async with await SqliteStore.open(path, read_only=True) as store:
        for event in await store.query([notes.replace(limit=5)]):
            print(event.created_at, event.content[:60])


asyncio.run(main(*sys.argv[1:]))
