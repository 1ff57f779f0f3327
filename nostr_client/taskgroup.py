"""Tasks that live and fail together, with errors of our own tree as themselves."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from nostr_client.errors import NostrTallyError, innermost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """An `asyncio.TaskGroup` that raises the first of our own errors bare, not in a group.

    So a caller catches StoreError where the documentation says StoreError. Bugs, which are errors
    of any other kind, stay an ExceptionGroup and hide no other.
    """
    found: NostrTallyError | None = None
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except* NostrTallyError as errors:
        first = innermost(errors)
        assert isinstance(first, NostrTallyError)
        found = first
    if found is not None:
        raise found
