"""Runs rust-nostr's LocalRelay (PyPI nostr-sdk, 0.44 or 0.45) on a port that the system gives.

Usage: run_local_relay.py [--auth]; prints `LISTENING ws://...`, serves until stdin ends. With
--auth both reading and writing need NIP-42.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from typing import Any

import nostr_sdk


def build(auth: bool) -> Any:
    """A relay over a database in memory; the class of the builder is the version's."""
    new = hasattr(nostr_sdk, "LocalRelayBuilder")
    builder: Any = nostr_sdk.LocalRelayBuilder() if new else nostr_sdk.RelayBuilder()
    builder = builder.rate_limit(nostr_sdk.RateLimit(max_reqs=500, notes_per_minute=1_000_000))
    if auth:
        kind = nostr_sdk.LocalRelayBuilderNip42 if new else nostr_sdk.RelayBuilderNip42
        mode = nostr_sdk.LocalRelayBuilderNip42Mode if new else nostr_sdk.RelayBuilderNip42Mode
        builder = builder.nip42(kind(mode=mode.BOTH))
    return builder.build() if new else nostr_sdk.LocalRelay(builder)


async def settled(value: Any) -> Any:
    """The value, awaited where the version gives an awaitable."""
    return await value if inspect.isawaitable(value) else value


async def main() -> None:
    nostr_sdk.uniffi_set_event_loop(asyncio.get_running_loop())
    relay = build("--auth" in sys.argv)
    await settled(relay.run())
    url = await settled(relay.url())
    print("LISTENING", url, flush=True)  # noqa: T201  (the protocol of tests.peers.servers)
    await asyncio.to_thread(sys.stdin.read)
    relay.shutdown()


asyncio.run(main())
