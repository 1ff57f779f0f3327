"""Open a store to read from it, beside whoever writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.errors import SchemaTooOld

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nostr_client.store.migrate import Schema
    from nostr_client.store.sqlite import SqliteStore


async def open_to_read(path: Path, migrations: Sequence[Schema] = ()) -> SqliteStore:
    """A store that is open for reading; one of an older version is brought up to date first.

    Raises StoreLocked for an older one that another process writes, and as SqliteStore.open does.
    """
    from nostr_client.store.sqlite import SqliteStore

    try:
        return await SqliteStore.open(path, read_only=True, migrations=migrations)
    except SchemaTooOld:
        await (await SqliteStore.open(path, migrations=migrations)).close()
        return await SqliteStore.open(path, read_only=True, migrations=migrations)
