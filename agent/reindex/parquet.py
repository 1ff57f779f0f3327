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
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    Row = tuple[Any, ...]

LIMBS: Final = tuple(f"limb{n}" for n in range(8))
"""A sum of ids in eight numbers of 32 bits, the lowest first."""

SCHEMAS: Final = {
    "hot": "t long, name string, value string, kind int, events long, authors long,"
    " registers binary",
    "hot_author": "t long, pubkey binary, n long",
    "daily": "day long, kind int, events long, authors long",
    "daily_author": "day long, kind int, pubkey binary, n long",
    "zap": "name string, value string, receipts long, msats long",
    "kinds": "kind int, events long",
    "fingerprint": ", ".join(f"{name} long" for name in ("day", "events", *LIMBS)),
    "status": "status string, events long",
}
"""The tables and their columns, as Spark writes a schema."""

COLUMNS: Final = {
    table: tuple(one.split()[0] for one in schema.split(", ")) for table, schema in SCHEMAS.items()
}

CHUNK: Final = 50_000
"""Rows of a table that are read or written at once."""

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


DONE: Final = "_SUCCESS"
"""What is written last into a table's folder, as by Spark."""


def arrow(schema: str) -> Any:
    """The Arrow form of a schema as Spark writes it. Raises MissingExtra."""
    with optional("writing tables as Parquet"):
        import pyarrow as pa
    types = {
        "long": pa.int64(),
        "int": pa.int32(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "string": pa.string(),
    }
    pairs = (one.split() for one in schema.split(", "))
    return pa.schema([(name, types[kind]) for name, kind in pairs])


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
    for table, schema in SCHEMAS.items():
        rows = tables.rows(table)
        if table == "fingerprint":
            rows = map(_limbs, rows)
        _write_table(folder / table, arrow(schema), rows)
    facts = arrow(", ".join(f"{name} long" for name in about))
    _write_table(folder / "about", facts, iter([tuple(about.values())]))


def _limbs(row: Row) -> Row:
    day, events, total = row
    limbs = (total[at : at + 4] for at in range(0, len(total), 4))
    return (day, events, *(int.from_bytes(limb, "little") for limb in limbs))


def _write_table(folder: Path, schema: Any, rows: Iterable[Row]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    file = folder / "part-00000.zstd.parquet"
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for chunk in chunks(iter(rows)):
            values = zip(*chunk, strict=True)
            arrays = [pa.array(v, one.type) for v, one in zip(values, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    (folder / DONE).touch()
