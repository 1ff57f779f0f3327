"""What the store exports is read and verified by nostr-sdk."""

from __future__ import annotations

import io

import pytest

from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.files.jsonl import export_jsonl, import_jsonl
from tests.conftest import missing, shared_path

pytestmark = pytest.mark.interop


async def test_every_exported_line_verifies_in_nostr_sdk() -> None:
    try:
        import nostr_sdk
    except ImportError:
        missing("nostr-sdk")
        return
    out = io.BytesIO()
    async with await SqliteStore.open(":memory:") as store:
        with shared_path("data/events.jsonl").open("rb") as lines:
            report = await import_jsonl(store, lines)
        await export_jsonl(store.export(), out.write)
    exported = out.getvalue().decode().split("\n")[:-1]
    assert len(exported) == report.stored
    failed = [line for line in exported if not nostr_sdk.Event.from_json(line).verify()]
    assert failed == []
