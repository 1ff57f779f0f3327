"""Groups living events chunk by chunk, in one pass, into the four tables of the stage `tags`.

An event crosses from Java to Python once for all four: the crossing costs more than the grouping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from agent.reindex.spark import counts, days, groups, numeric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Batches = Iterator[pa.RecordBatch]

TAKEN: Final = ["id", "created_at", "kind", "pubkey", "targets", "others"]
"""The columns of events that are grouped."""

_DDL: Final = {
    "tags": groups.TAGS,
    "counts": counts.COUNTS,
    "days": days.DAYS,
    "sums": numeric.SUMS,
}

SCHEMAS: Final[Mapping[str, str]] = {
    table: f"{table} struct<{', '.join(one.replace(' ', ': ') for one in ddl.split(', '))}>"
    for table, ddl in _DDL.items()
}
"""How each table is staged: one column of its own name, which holds all of its columns."""

UNITED: Final = ", ".join(("table string", *SCHEMAS.values()))
"""A row of any of the tables: `table` names the one column that is not null."""

ARROW: Final = {
    "tags": groups.TAGS_ARROW,
    "counts": counts.COUNTS_ARROW,
    "days": days.DAYS_ARROW,
    "sums": numeric.SUMS_ARROW,
}


def of_chunk(held: groups.Held) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The tables of one chunk of events, in pieces."""
    for made in groups.of_targets([batch.select(groups.TAKEN) for batch in held]):
        yield "tags", made
        for packed in counts.of_batch(made.select(counts.TAKEN)):
            yield "counts", packed
    yield "days", days.of_days(held)
    for summed in numeric.summed(batch.select(numeric.TAKEN) for batch in held):
        yield "sums", summed


def grouped(batches: Batches) -> Batches:
    """Columns TAKEN of events to UNITED."""
    for held in groups.chunks(batches):
        for table, made in of_chunk(held):
            yield _united(table, made)


def nested(table: str, rows: pa.RecordBatch) -> pa.StructArray:
    """Rows of a table as values of one column."""
    return pa.StructArray.from_arrays(rows.columns, fields=list(ARROW[table]))


def _united(table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        nested(table, rows) if one == table else pa.nulls(len(rows), pa.struct(list(schema)))
        for one, schema in ARROW.items()
    ]
    return pa.RecordBatch.from_arrays(
        [pa.repeat(table, len(rows)), *columns], names=["table", *ARROW]
    )
