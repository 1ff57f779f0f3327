"""Words with colons: only the extensions that NIP-50 defines are passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nostr_client.codecs.filters import Filter
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW, make
from tests.field import field_case

if TYPE_CHECKING:
    from pathlib import Path


@field_case("search-colon-words")
async def check(given: Any, tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "s.db", search=True, clock=lambda: NOW) as store:
        await store.save([make(n, content=text) for n, text in enumerate(given["contents"])])
        found = {text: await store.count([Filter(search=text)]) for text in given["searches"]}
    assert found == given["searches"]
