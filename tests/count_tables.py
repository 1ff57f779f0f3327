"""A table of counts as `nostr-agent reindex` writes it, for `assertions publish --from`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

SCHEMA = pa.schema(
    [
        ("kind", pa.int32()),
        ("subject", pa.string()),
        ("subject_kinds", pa.list_(pa.string())),
        ("fields", pa.map_(pa.string(), pa.int64())),
        ("as_of", pa.int64()),
    ]
)


class Counted(NamedTuple):
    """A row; `fields` may have a name twice, as a map of a hostile file may."""

    kind: int | None
    subject: str | None
    fields: Sequence[tuple[str, int | None]] | None
    as_of: int | None
    subject_kinds: Sequence[str | None] | None = None


def write_table(folder: Path, rows: Iterable[Counted], name: str = "part-00000.parquet") -> Path:
    """Write a file of the table in the tables of `folder`, and the mark of its end."""
    place = folder / "assertions"
    place.mkdir(parents=True, exist_ok=True)
    dicts = [row._asdict() for row in rows]
    pq.write_table(pa.Table.from_pylist(dicts, SCHEMA), place / name, compression="zstd")
    (place / "_SUCCESS").touch()
    return folder
