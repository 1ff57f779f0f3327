"""A store and a relay over it, for one test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.relay.server import RelayServer, serve
from nostr_client.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    """An empty store in memory."""
    async with await SqliteStore.open(":memory:") as opened:
        yield opened


@pytest.fixture
async def relay(store: SqliteStore) -> AsyncIterator[RelayServer]:
    """A relay with default options on a free port, over `store`."""
    async with serve(store, port=0) as server:
        yield server
