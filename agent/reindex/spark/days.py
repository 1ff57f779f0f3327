"""Collects the authors of each day and kind in numpy, chunk by chunk, as `groups` for a target.

A day and kind are one number, `t`, so that what merges the authors of targets merges theirs too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as f

from agent.reindex.spark.columns import KEY, binary_array
from agent.reindex.spark.groups import arrow, data_of, matrix_of
from nostr_client.store.index_schema import DAY

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column

    Held = list[pa.RecordBatch]

TAKEN: Final = ["created_at", "kind", "pubkey"]
"""The columns of events that are grouped."""

DAYS: Final = "t long, events int, authors binary"
DAYS_ARROW: Final = arrow(DAYS)

_KIND_BITS: Final = 16


def day_and_kind(t: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What staged `t` name."""
    return t >> _KIND_BITS, t & ((1 << _KIND_BITS) - 1)


def day_column() -> Column:
    """The day of a column `t`."""
    return f.shiftright("t", _KIND_BITS).alias("day")


def kind_column() -> Column:
    """The kind of a column `t`."""
    return f.col("t").bitwiseAND(f.lit((1 << _KIND_BITS) - 1)).cast("int").alias("kind")


def of_days(held: Held) -> pa.RecordBatch:
    """Batches with columns TAKEN to DAYS, a row for each day and kind: one chunk."""
    table = pa.Table.from_batches([batch.select(TAKEN) for batch in held]).combine_chunks()
    created_at, kind = (table.column(at).to_numpy() for at in (0, 1))
    authors = matrix_of(data_of(table.column(2).chunk(0)), KEY)
    found, which = np.unique(created_at // DAY << _KIND_BITS | kind, return_inverse=True)
    sizes = np.bincount(which, minlength=len(found))
    columns = [
        pa.array(found, pa.int64()),
        pa.array(sizes.astype(np.int32)),
        binary_array(authors[np.argsort(which, kind="stable")], sizes),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DAYS_ARROW)
