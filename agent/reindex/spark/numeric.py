"""Sums numbers of 256 bits in numpy, batch by batch.

They are partial: what comes out is merged by a native aggregation, so batches may be cut anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as f

from agent.reindex.parquet import LIMBS, SCHEMAS, arrow
from agent.reindex.spark.columns import KEY
from agent.reindex.spark.groups import data_of, matrix_of
from nostr_client.store.index.schema import DAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    Batches = Iterator[pa.RecordBatch]

TAKEN: Final = ["created_at", "id"]
"""The columns of events that are summed."""

SUMS: Final = SCHEMAS["fingerprint"]
SUMS_ARROW: Final = arrow(SUMS)


def fingerprints(events: DataFrame) -> DataFrame:
    """Events and the sum of their ids of each day, as SUMS."""
    sums = events.select(*TAKEN).mapInArrow(summed, SUMS)
    return sums.groupBy("day").agg(*(f.sum(name).alias(name) for name in ("events", *LIMBS)))


def number_of(limbs: tuple[int, ...]) -> bytes:
    """The sum mod 2^256 of limbs that have not been carried, as 32 little-endian bytes."""
    total = sum(limb << (32 * at) for at, limb in enumerate(limbs))
    return (total & ((1 << 256) - 1)).to_bytes(32, "little")


def summed(batches: Batches) -> Batches:
    """Columns TAKEN of events to SUMS: events and the sum of their ids in eight limbs of 32 bits,
    a row for each day in a batch."""
    for batch in batches:
        day, place = np.unique(batch.column(0).to_numpy() // DAY, return_inverse=True)
        limbs = (
            np.ascontiguousarray(matrix_of(data_of(batch.column(1)), KEY))
            .view("<u4")
            .astype(np.int64)
        )
        sums = np.zeros((len(day), 8), np.int64)
        np.add.at(sums, place, limbs)
        columns: list[Any] = [day, np.bincount(place, minlength=len(day)).astype(np.int64)]
        columns += [sums[:, at] for at in range(8)]
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, pa.int64()) for column in columns], schema=SUMS_ARROW
        )
