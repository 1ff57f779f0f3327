"""A NIP-46 bunker that we did not write: the one of NDK (npm), run by node.

async with bunker(url, key, secret) as link: ...
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.peers.node import node, packages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nostr_client.codecs.keys import KeySigner

START_SECONDS = 60

_SCRIPT = """
import ndk, { NDKNip46Backend, NDKPrivateKeySigner } from "@nostr-dev-kit/ndk";
const { url, key, secret, mute } = JSON.parse(process.env.BUNKER);
const known = new Set();
let spent = false;
class Bunker extends NDKNip46Backend {
  async applyToken(pubkey, token) {
    if (spent || token !== secret) throw new Error(`no such secret: ${token}`);
    spent = true;
    known.add(pubkey);
  }
}
const permit = async ({ pubkey, method }) => {
  if (mute && method === "sign_event") await new Promise(() => {});
  return known.has(pubkey);
};
const client = new ndk({ explicitRelayUrls: [url] });
await client.connect(20000);
const backend = new Bunker(client, new NDKPrivateKeySigner(key), permit, [url]);
await backend.start();
const relays = [...client.pool.relays.values(), ...backend.rpc.pool.relays.values()];
while (!relays.every((one) => one.connected)) await new Promise((r) => setTimeout(r, 20));
console.log("READY");
process.stdin.on("end", () => process.exit(0)).resume();
"""


@asynccontextmanager
async def bunker(
    url: str, signer: KeySigner, secret: str = "a secret", *, mute: bool = False
) -> AsyncIterator[str]:
    """The link of a bunker at a relay, for one key; its secret is good for one client.

    `mute`: it answers no request to sign.
    """
    asked = {"url": url, "key": signer.nsec(), "secret": secret, "mute": mute}
    process = await asyncio.create_subprocess_exec(
        *node(),
        "--input-type=module",
        "--experimental-websocket",
        "--eval",
        _SCRIPT,
        cwd=packages(),
        env={**os.environ, "BUNKER": json.dumps(asked), "NODE_NO_WARNINGS": "1"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = await process.stdout.readline()
        assert line == b"READY\n", line.decode() + (await process.stdout.read()).decode()[-2000:]
        found = f"relay={quote(url, safe='')}&secret={quote(secret, safe='')}"
        yield f"bunker://{signer.pubkey}?{found}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
