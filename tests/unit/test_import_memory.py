"""An import of long lines holds a bounded part of them at a time."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from nostr_client.store.base import SaveOutcome, SaveStatus
from nostr_client.sync.files import jsonl
from tests.conformance.store_events import make

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import VerifiedEvent


class _Sizes:
    """A target that keeps only how many events each call of `save` brought."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def save(self, events: Sequence[VerifiedEvent]) -> list[SaveOutcome]:
        self.sizes.append(len(events))
        return [SaveOutcome(one.event.id, SaveStatus.STORED) for one in events]

    async def held(self, ids: Sequence[str]) -> set[str]:
        return set()

    async def query(self, filters: Sequence[Filter]) -> list[Event]:
        return []


async def test_a_batch_ends_at_its_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "CHUNK", 5)
    monkeypatch.setattr(jsonl, "BATCH_BYTES", 20_000)
    lines = [make(n, content="x" * 1000).event.to_json().encode() for n in range(60)]
    target = _Sizes()
    report = await jsonl.import_jsonl(target, BytesIO(b"\n".join(lines)))
    assert (report.stored, sum(target.sizes)) == (60, 60)
    assert max(target.sizes) <= 20
