"""What the tests of sync share: signed notes, a store in memory, and a client over both."""

from __future__ import annotations

import functools
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from nostr_client.client import NostrClient
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner, VerifiedEvent
from nostr_client.options import Options, ReconnectPolicy, Timeouts
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.options import SyncOptions
from tests.faulty_relay import Behaviour, FaultyRelay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from nostr_client.codecs.event import Event

SIGNER = KeySigner(bytes(31) + b"\x15", rand=bytes)
NOTES = Filter(kinds=[1])
START = 1_700_000_000

CONNECTION = Options(
    timeouts=Timeouts(connect=3, eose=0.5, publish=1.0, auth=0.3, close=0.1, page=5),
    reconnect=ReconnectPolicy(first=0.01, longest=0.05),
)
QUICK = SyncOptions(answer=0.5, progress=0.5, pause=0.02)
"""Deadlines for relays that fail; generous ones stand in the defaults."""


@functools.cache
def note(number: int, *, at: int | None = None, kind: int = 1, tag: str = "") -> VerifiedEvent:
    """A signed event; a minute apart unless `at` says when."""
    template = EventTemplate(
        kind=kind,
        content=f"note {number}",
        created_at=START + 60 * number if at is None else at,
        tags=(("t", tag),) if tag else (),
    )
    return SIGNER.sign_now(template)


def notes(numbers: Iterable[int]) -> list[VerifiedEvent]:
    """Notes by number."""
    return [note(number) for number in numbers]


@functools.cache
def crowd(authors: int, each: int) -> list[VerifiedEvent]:
    """Events of one second: so many of kind 1 and of kind 7 by each author."""
    return [
        KeySigner(bytes(31) + bytes([100 + author]), rand=bytes).sign_now(
            EventTemplate(kind=kind, content=f"{number}", created_at=START)
        )
        for author in range(authors)
        for kind in (1, 7)
        for number in range(each)
    ]


def plain(events: Iterable[VerifiedEvent]) -> list[Event]:
    """The events alone, for a relay."""
    return [one.event for one in events]


def ids(events: Iterable[Any]) -> set[str]:
    """Ids of events, verified or plain."""
    return {getattr(one, "event", one).id for one in events}


@asynccontextmanager
async def syncing(
    held: Sequence[VerifiedEvent],
    *relays: tuple[Behaviour, Sequence[VerifiedEvent]],
    connection: Options = CONNECTION,
    **client_args: Any,
) -> AsyncIterator[tuple[NostrClient, SqliteStore, list[FaultyRelay]]]:
    """A client whose store holds `held`, and relays that hold what stands beside each."""
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(FaultyRelay(behaviour, events=plain(events)))
            for behaviour, events in relays
        ]
        store = await stack.enter_async_context(await SqliteStore.open(":memory:"))
        await store.save(held)
        client = await stack.enter_async_context(
            NostrClient(
                [server.url for server in servers], store=store, options=connection, **client_args
            )
        )
        yield client, store, servers


async def held_ids(store: SqliteStore) -> set[str]:
    """Ids of everything in a store."""
    return ids(await store.query([Filter()]))
