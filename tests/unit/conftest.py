"""What several files here need: an empty store in memory whose clock stands at NOW."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    """An empty store in memory."""
    async with await SqliteStore.open(":memory:", clock=lambda: NOW) as opened:
        yield opened
