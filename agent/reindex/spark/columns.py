"""Rows as Arrow batches of the plan's one input schema: what every reader gives.

Tags are parsed once, here, where the rows pass through Python anyway: `targets` holds the tracked
targets of an event, each once, name and value in one string; `tags` keeps the JSON of those few
kinds whose tags a later stage looks at; of a zap receipt it has what was paid for what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from agent.reindex.rows import event_of
from nostr_client import kinds
from nostr_client.store.index_schema import TRACKED
from nostr_client.store.rows import encode_tags
from nostr_client.zaps import paid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.reindex.rows import Row

SCHEMA: Final = (
    "seq long, id binary, pubkey binary, created_at long, kind int, d string, exp long,"
    " targets array<string>, tags string"
)

ARROW: Final = pa.schema(
    [
        ("seq", pa.int64()),
        ("id", pa.binary()),
        ("pubkey", pa.binary()),
        ("created_at", pa.int64()),
        ("kind", pa.int32()),
        ("d", pa.string()),
        ("exp", pa.int64()),
        ("targets", pa.list_(pa.string())),
        ("tags", pa.string()),
    ]
)

LOOKED_AT: Final = frozenset({kinds.DELETION, kinds.VANISH, kinds.GIFT_WRAP, kinds.ZAP})
"""Kinds whose tags decide more than targets."""

_NAMES: Final = {
    kind: frozenset(name for name, tracked in TRACKED if tracked == kind) for _, kind in TRACKED
}


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as one batch."""
    seq, id_, pubkey, created_at, kind, d, exp, tags = zip(*rows, strict=True)
    columns: list[Sequence[Any]] = [seq, id_, pubkey, created_at, kind, d, exp]
    tagged = list(zip(kind, tags, strict=True))
    columns.append([_targets(k, t) for k, t in tagged])
    columns.append([_kept(row) if row.kind in LOOKED_AT else None for row in rows])
    arrays = [pa.array(values, field.type) for values, field in zip(columns, ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW)


def _kept(row: Row) -> str:
    tags: Sequence[Sequence[str]] = row.tags
    if row.kind == kinds.ZAP:
        tags = [(name, value, str(msats)) for name, value, msats in paid(event_of(row))]
    return encode_tags(tags).decode()


def _targets(kind: int, tags: Sequence[Sequence[str]]) -> list[str] | None:
    names = _NAMES.get(kind)
    if names is None:
        return None
    found = {tag[0] + tag[1] for tag in tags if tag[0] in names and len(tag) > 1}
    return list(found) or None
