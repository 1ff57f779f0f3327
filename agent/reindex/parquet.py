"""Writes the tables of the reference engine as Parquet, in the form that Spark writes.

All tables are written beside the earlier ones, `about` last: a half-written set has another name,
or lacks the table with its time.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from nostr_client.errors import MissingExtra, optional
from nostr_client.paths import remove, replaced_file

if TYPE_CHECKING:
    from collections.abc import Iterator


COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "hot": ("t", "name", "value", "kind", "events", "authors", "registers"),
    "hot_author": ("t", "pubkey", "n"),
    "daily": ("day", "kind", "events", "authors"),
    "daily_author": ("day", "kind", "pubkey", "n"),
    "zap": ("name", "value", "receipts", "msats"),
    "kinds": ("kind", "events"),
    "fingerprint": ("day", "events", "sum"),
    "status": ("status", "events"),
}

CHUNK: Final = 50_000
"""Rows of a table that are read or written at once."""

LIMBS: Final = tuple(f"limb{n}" for n in range(8))
"""A sum of ids in eight numbers of 32 bits, the lowest first."""

MOST_MSATS: Final = 9 * 10**18
"""Where the sum of a target's zaps stops, as in the live index."""


def chunks(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Rows in lists of CHUNK."""
    while chunk := list(islice(rows, CHUNK)):
        yield chunk


class Tables(Protocol):
    """The tables of one rebuild."""

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table of COLUMNS."""
        ...


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    Row = tuple[Any, ...]

DONE: Final = "_SUCCESS"
"""What is written last into a table's folder, as by Spark."""

_WIDE: Final = frozenset({"pubkey", "registers"})
_TEXT: Final = frozenset({"name", "value", "status"})


def write_tables(tables: Tables, out: Path, about: Mapping[str, int]) -> str | None:
    """Replace `<out>/tables/<table>`; return why not if it cannot.

    Without pyarrow the earlier tables are removed too: they are of another rebuild.
    """
    place = out / "tables"
    try:
        with replaced_file(place) as part:
            _write(tables, part, about)
    except MissingExtra as error:
        remove(place)
        return str(error)
    return None


def _write(tables: Tables, folder: Path, about: Mapping[str, int]) -> None:
    for table, columns in COLUMNS.items():
        rows = tables.rows(table)
        if table == "fingerprint":
            columns, rows = (*columns[:-1], *LIMBS), map(_limbs, rows)
        _write_table(folder / table, columns, rows)
    _write_table(folder / "about", tuple(about), iter([tuple(about.values())]))


def _limbs(row: Row) -> Row:
    day, events, total = row
    limbs = (total[at : at + 4] for at in range(0, len(total), 4))
    return (day, events, *(int.from_bytes(limb, "little") for limb in limbs))


def _write_table(folder: Path, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
    with optional("writing tables as Parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    schema = pa.schema([(name, _type(pa, name)) for name in columns])
    folder.mkdir(parents=True)
    file = folder / "part-00000.zstd.parquet"
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for chunk in chunks(iter(rows)):
            values = zip(*chunk, strict=True)
            arrays = [pa.array(v, one.type) for v, one in zip(values, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    (folder / DONE).touch()


def _type(arrow: Any, column: str) -> Any:
    if column in _WIDE:
        return arrow.binary()
    if column in _TEXT:
        return arrow.string()
    return arrow.int32() if column == "kind" else arrow.int64()
