"""Publish a counter over Nostr, and add it up elsewhere: python publish_counter.py RELAY..."""

import argparse
import asyncio
import time

from nostr_client import KeySigner, RelayPool
from nostr_client.counters import SourceConfig, SqliteCounterStore, StreamConfig, nostr
from nostr_client.counters.engine.remote import Remote

KEY = KeySigner.generate()
APP = StreamConfig(name="app", subjects=("app.*",), allow_msg_counter=True)


async def publish(pool: RelayPool, *relays: str) -> None:
    async with await SqliteCounterStore.open(":memory:") as store:
        await store.create_stream(APP)
        await (await store.counters("app")).add("app.plays", 3)
        content = nostr.render(await store.remotes.values("app", [">"], nostr.MOST_EVENT))
    event = KEY.sign_now(nostr.template("app", content, int(time.time())))
    for url, answer in (await pool.publish(event, relays)).items():
        print(f"{url}: {answer.status}")


async def main(*relays: str) -> None:
    async with RelayPool() as pool, await SqliteCounterStore.open(":memory:") as store:
        await publish(pool, *relays)
        await store.create_stream(APP)
        await (await store.counters("app")).add("app.plays", 4)
        for url in relays:  # what the first brought, the others do not bring again
            for one in (await pool.relay(url).fetch(nostr.address(KEY.pubkey, "app"))).events:
                said = nostr.parse(one.event.content, "app", one.event)
                await store.remotes.take(Remote("app", SourceConfig("one")), said)
        print("app.plays", await (await store.counters("app")).load("app.plays"))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("relays", nargs="+")
asyncio.run(main(*parser.parse_args().relays))
