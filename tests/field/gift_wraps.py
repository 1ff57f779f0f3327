"""A gift wrap and the request of its recipient to delete it (NIP-59)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nostr_client.codecs.event import parse_event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import verify
from nostr_client.store.sqlite import SqliteStore
from tests.field import field_case

if TYPE_CHECKING:
    from pathlib import Path


@field_case("gift-wrap-deleted-by-recipient")
async def check(given: Any, tmp_path: Path) -> None:
    wrap, deletion = (verify(parse_event(given[name])) for name in ("wrap", "deletion"))
    for number, order in enumerate(([wrap, deletion], [deletion, wrap])):
        store = await SqliteStore.open(tmp_path / f"{number}.db")
        try:
            for event in order:
                await store.save([event])
            assert await store.count([Filter(kinds=[wrap.event.kind])]) == 0
            assert await store.count([Filter(kinds=[deletion.event.kind])]) == 1
        finally:
            await store.close()
