"""What the pages presuppose: two relays with something to count, and what their names stand for."""

from __future__ import annotations

import re
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agent.relay.server import serve
from nostr_client import EventTemplate, Filter, SqliteStore, verify
from nostr_client.codecs.nip19 import Address, EventPointer, Note, PublicKey
from tests import forks
from tests.nats_cluster import free_ports
from tests.nats_peer import NatsServer
from tests.proxied import real_proxy
from tests.worlds import START, TARGET, follow, signer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOTE = signer(0).sign_now(
    EventTemplate(kind=1, content=Filter(kinds=[3]).to_json(), created_at=START)
)
REACTIONS = [
    signer(i).sign_now(
        EventTemplate(kind=7, content="+", tags=(("e", NOTE.event.id),), created_at=START + i)
    )
    for i in range(4)
]
PEOPLE = [verify(follow(i)) for i in range(9)]


class World(NamedTuple):
    """URLs of two relays, ports for an agent and its relay, and the folder that is its home."""

    one: str
    two: str
    api: int
    relay: int
    home: Path
    nats: str = ""
    proxy: int = 0
    forked: bool = True
    """Whether programs are forked where their imports are done, or started as users start them."""

    def substituted(self, text: str) -> str:
        """A text of a page with what its placeholders stand for.

        Any relay under a name of example(s) is one of the two here: the second one where it is
        called so. Fixed ports become free ones, and identifiers cut by an ellipsis whole ones.
        """
        text = re.sub(r"wss://[\w.]*example[\w.]*", self._relay, text)
        text = re.sub(
            "nostr-agent relay(?!s|.*--listen)",
            f"nostr-agent relay --listen 127.0.0.1:{self.relay}",
            text,
        )
        for old, new in self._names().items():
            text = text.replace(old, new)
        return text

    def _relay(self, match: re.Match[str]) -> str:
        return self.two if re.search(r"//(two|relay\.two|b)\.", match[0]) else self.one

    def _names(self) -> dict[str, str]:
        return {
            "npub1…": PublicKey(TARGET).encode(),
            "note1…": Note(NOTE.event.id).encode(),
            "nevent1…": EventPointer(NOTE.event.id).encode(),
            "naddr1…": Address(30023, TARGET, "post").encode(),
            "s3a://bucket/": f"{self.home}/",
            "…64 hex…": TARGET,
            '["…"]': f'["{TARGET}"]',
            "/backups/": f"{self.home}/backups/",
            ":9050": f":{self.proxy}",
            ":4869": f":{self.relay}",
            ":4870": f":{self.api}",
            ".example:": ".localhost:",
            "nats://127.0.0.1:4222": self.nats,
            "nats://hub.example.com:4222": self.nats,
            "/etc/nostr-tally/hub.creds": "",
        }

    def _path(self) -> list[str]:
        first = [str(forks.folder())] if self.forked and forks.HERE else []
        return [*first, str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]

    def environment(self) -> dict[str, str]:
        """That of an empty account whose agent keeps to this machine."""
        return {
            "HOME": str(self.home),
            "PATH": ":".join(self._path()),
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color",
            "NOSTR_TALLY_JVM_TRAIN": "no",  # it would go on in the background after a rebuild
            "NOSTR_AGENT_RELAYS__DEFAULT": f'["{self.one}", "{self.two}"]',
            "NOSTR_AGENT_RELAYS__INDEXERS": "[]",
            "NOSTR_AGENT_API__LISTEN": f"127.0.0.1:{self.api}",
            "NOSTR_AGENT_API__TOKEN_FILE": "~/token",
            "NOSTR_AGENT_RELAY__LISTEN": f"127.0.0.1:{self.relay}",
        }


@asynccontextmanager
async def world(
    home: Path, *, nats: bool = False, proxied: bool = False, forked: bool = True
) -> AsyncIterator[World]:
    """Two relays of ours in memory, that share some of their events; a nats-server if wanted.

    `proxied`: a proxy too.
    """
    async with AsyncExitStack() as stack:
        urls = []
        for events in (
            [NOTE, *REACTIONS[:3], *PEOPLE[:6]],
            [NOTE, *REACTIONS[1:], *PEOPLE[3:]],
        ):
            store = await stack.enter_async_context(await SqliteStore.open(":memory:"))
            await store.save(events)
            server = await stack.enter_async_context(serve(store, port=0))
            urls.append(server.url)
        api, relay = free_ports(2)
        hub = NatsServer(home)
        if nats:
            stack.callback(hub.kill)
            hub.start()
        proxy = (await stack.enter_async_context(real_proxy())).port if proxied else 0
        yield World(urls[0], urls[1], api, relay, home, hub.url, proxy, forked)
