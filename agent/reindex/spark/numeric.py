"""What numpy does better than SQL, batch by batch: registers, and sums of 256 bits.

Both are partial: what comes out is merged by a native aggregation, so batches may be cut anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as f

from nostr_client import hll
from nostr_client.store.index_schema import DAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    Batches = Iterator[pa.RecordBatch]

LIMBS: Final = tuple(f"limb{n}" for n in range(8))
_PARTIAL: Final = "t long, cell int, rank int"
_SUMS: Final = "day long, events long, " + ", ".join(f"{name} long" for name in LIMBS)


def registers(authors: DataFrame, hot: DataFrame) -> DataFrame:
    """The HLL registers of each target: `t`, `registers` (256 bytes)."""
    rows = authors.join(hot.select("t", "target"), "t").select("t", "target", "pubkey")
    partial = rows.mapInArrow(_ranks, _PARTIAL)
    best = partial.groupBy("t", "cell").agg(f.max("rank").alias("rank"))
    # A register as one number: its place and its value, which is below 64.
    packed = f.collect_list((f.col("cell") * 64 + f.col("rank")).cast("short")).alias("packed")
    return best.groupBy("t").agg(packed).mapInArrow(_expand, "t long, registers binary")


def fingerprints(events: DataFrame) -> DataFrame:
    """Events and the sum of their ids of each day: `day`, `events`, eight limbs of 32 bits."""
    partial = events.select("created_at", "id").mapInArrow(_sums, _SUMS)
    sums = [f.sum(name).alias(name) for name in ("events", *LIMBS)]
    return partial.groupBy("day").agg(*sums)


def number_of(limbs: tuple[int, ...]) -> bytes:
    """The sum mod 2^256 of limbs that have not been carried, as 32 little-endian bytes."""
    total = sum(limb << (32 * at) for at, limb in enumerate(limbs))
    return (total & ((1 << 256) - 1)).to_bytes(32, "little")


def _ranks(batches: Batches) -> Batches:
    """The highest rank of each target and register in a batch."""
    for batch in batches:
        t = batch.column(0).to_numpy()
        offsets = _offsets(batch.column(1))
        keys = _matrix(batch.column(2))
        cell, rank = _cells(keys, offsets)
        order = np.lexsort((rank, cell, t))
        t, cell, rank = t[order], cell[order], rank[order]
        last = np.ones(len(t), bool)
        last[:-1] = (t[1:] != t[:-1]) | (cell[1:] != cell[:-1])
        yield pa.RecordBatch.from_arrays(
            [pa.array(t[last]), pa.array(cell[last], pa.int32()), pa.array(rank[last], pa.int32())],
            names=["t", "cell", "rank"],
        )


def _offsets(targets: pa.Array) -> NDArray[np.int64]:
    """The offset of each target, computed once for each different one of a batch."""
    coded = targets.dictionary_encode()
    offsets = [hll.offset({f"#{one[0]}": [one[1:]]}) or 8 for one in coded.dictionary.to_pylist()]
    of_each: NDArray[np.int64] = np.array(offsets, np.int64)[coded.indices.to_numpy()]
    return of_each


def _matrix(column: pa.Array) -> NDArray[np.uint8]:
    """Pubkeys as (n, 32), without a copy."""
    data = np.frombuffer(column.buffers()[2], np.uint8)
    first = np.frombuffer(column.buffers()[1], np.int32)[column.offset]
    return data[first : first + len(column) * 32].reshape(-1, 32)


def _cells(
    keys: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Register and rank of each key: the byte at its offset, and the zeros of the 56 bits after."""
    at = offsets[:, None] + np.arange(8)
    window = np.take_along_axis(keys, at, axis=1)
    words = np.ascontiguousarray(window).view(">u8").ravel().astype(np.uint64)
    cell = (words >> np.uint64(56)).astype(np.int64)
    words = (words << np.uint64(8)) | np.uint64(0x80)
    # Clear the bit after the leading one: doubles round near powers of two.
    words &= ~(words >> np.uint64(1))
    exponent = words.astype(np.float64).view(np.uint64) >> np.uint64(52)
    return cell, (np.uint64(1023 + 64) - exponent).astype(np.int64)


def _expand(batches: Batches) -> Batches:
    for batch in batches:
        made = []
        for packed in batch.column(1).to_pylist():
            dense = bytearray(hll.M)
            for one in packed:
                dense[one >> 6] = one & 63
            made.append(bytes(dense))
        yield pa.RecordBatch.from_arrays(
            [batch.column(0), pa.array(made, pa.binary())], names=["t", "registers"]
        )


def _sums(batches: Batches) -> Batches:
    for batch in batches:
        day, place = np.unique(batch.column(0).to_numpy() // DAY, return_inverse=True)
        limbs = np.ascontiguousarray(_matrix(batch.column(1))).view("<u4").astype(np.int64)
        sums = np.zeros((len(day), 8), np.int64)
        np.add.at(sums, place, limbs)
        columns: list[Any] = [day, np.bincount(place, minlength=len(day)).astype(np.int64)]
        columns += [sums[:, at] for at in range(8)]
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, pa.int64()) for column in columns], names=["day", "events", *LIMBS]
        )
