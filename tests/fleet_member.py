"""One member of a fleet without an agent around it: a store, its counters, and both carriers."""

from __future__ import annotations

import io
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from agent.config.model import PublishSection, RelaysSection, SourceSection, TransformSection
from agent.counters.links import Links
from agent.counters.publisher import PublishRunner, link_name
from agent.counters.reader import NostrReader
from agent.counters.sources import SourceRunner
from agent.log import Log
from agent.state import AGENT
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.engine.schema import MIGRATIONS as COUNTERS
from nostr_client.counters.sqlite.store import SqliteCounterStore
from nostr_client.errors import CounterError
from nostr_client.network.pool import RelayPool
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from agent.api.schema import CounterLink
    from nostr_client.codecs.keys import KeySigner

STREAM = "app"


class Member:
    """Counts in the stream `app`; publishes it, and sources others into it."""

    def __init__(
        self, store: SqliteStore, counters: SqliteCounterStore, pool: RelayPool, signer: KeySigner
    ) -> None:
        self.store, self.counters, self.pool, self.signer = store, counters, pool, signer
        self.log = io.StringIO()
        clock, log = SystemClock(), Log(time.time, style="json", out=self.log)
        self.links = Links(lambda link: None, lambda name: None)
        self.relays: Sequence[str] = ()
        remotes = counters.remotes
        self.sourcing = SourceRunner(
            clock,
            log,
            remotes,
            self.links,
            lambda section: NostrReader(
                section, lambda: section.relays, pool, store, clock, signer, lambda id, url: None
            ),
        )
        self.publishing = PublishRunner(clock, log, remotes, self.links, store, pool, signer)

    async def add(self, subject: str, n: int) -> None:
        await (await self.counters.counters(STREAM)).add(subject, n)

    async def value(self, subject: str) -> int:
        try:
            return await (await self.counters.counters(STREAM)).load(subject)
        except CounterError:
            return 0

    async def publish(self, *urls: str, readers: Sequence[KeySigner] = ()) -> CounterLink:
        """A turn of publishing, with these relays."""
        section = PublishSection(
            stream=STREAM, relays=urls, readers=tuple(one.pubkey for one in readers)
        )
        self.publishing.configure([section], RelaysSection(default=()))
        await self.publishing.run(link_name(section))
        return self._link(link_name(section))

    async def source(
        self, other: Member, *urls: str, src: str = ">", most_subjects: int = 10_000
    ) -> CounterLink:
        """A turn of sourcing another member, from these relays."""
        name = f"from-{other.signer.pubkey[:8]}"
        section = SourceSection(
            name=name,
            stream=STREAM,
            pubkey=other.signer.pubkey,
            relays=urls,
            transforms=(TransformSection(src=src),),
            most_subjects=most_subjects,
        )
        await self.sourcing.configure([section])
        await self.sourcing.run(name)
        return self._link(name)

    def _link(self, name: str) -> CounterLink:
        found = self.links.get(name)
        assert found is not None
        return found


@asynccontextmanager
async def member(path: Path | str, signer: KeySigner, run: str = "run") -> AsyncIterator[Member]:
    """A member over a file, or ":memory:"; `run` names this run."""
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(
            await SqliteStore.open(path, migrations=[COUNTERS, AGENT])
        )
        pool = await stack.enter_async_context(RelayPool(signer=signer))
        counters = await SqliteCounterStore.over(store.database)
        config = StreamConfig(name=STREAM, subjects=("app.>",), allow_msg_counter=True)
        await counters.create_stream(config)
        await counters.remotes.begin_run(run)
        yield Member(store, counters, pool, signer)
