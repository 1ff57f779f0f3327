"""Files of events as people have them: each form is read whole, or refused with line and hint."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.files.jsonl import import_jsonl
from tests.field import field_case

if TYPE_CHECKING:
    from pathlib import Path


@field_case("import-formats")
async def check(given: Any, tmp_path: Path) -> None:
    lines: list[str] = given["lines"]
    written = _forms(lines)
    for name in given["forms"]:
        store = await SqliteStore.open(tmp_path / f"{len(name)}.db")
        try:
            report = await import_jsonl(store, io.BytesIO(written[name].encode()))
        finally:
            await store.close()
        assert report.whole, (name, report.reasons)
        assert report.stored == len(lines), name


def _forms(lines: list[str]) -> dict[str, str]:
    """Each form that the case names, written with its events."""
    events = [json.loads(line) for line in lines]
    return {
        "one JSON array": json.dumps(events),
        "[ then one event a line with trailing commas ]": "[\n" + ",\n".join(lines) + "\n]\n",
        '["EVENT","s",{...}] a line': "".join(f'["EVENT","s",{line}]\n' for line in lines),
        "no newline between": "".join(lines),
    }
