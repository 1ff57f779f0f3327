"""Counts the events of each target in numpy, chunk by chunk, and finds the hot ones.

A row of Spark for each target of a chunk would be most of a rebuild's rows, for a sum. A row here
has all targets of one bucket and width, one behind the other; a bucket has 1/256 of all targets,
by the last byte of what they name: ids are mined from the other end.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from agent.reindex.spark.columns import binary_array
from agent.reindex.spark.groups import (
    arrow,
    coded,
    data_of,
    lengths,
    matrix_of,
    starts_of,
    whole_groups,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Batches = Iterator[pa.RecordBatch]
    Bytes = NDArray[np.uint8]

TAKEN: Final = ["target", "kind", "events"]
"""The columns of `groups.TAGS` that are counted."""

COUNTS: Final = "bucket int, width int, targets binary, events binary"
COUNTS_ARROW: Final = arrow(COUNTS)

TARGETS: Final = "target binary, kind int, events long"
TARGETS_ARROW: Final = arrow(TARGETS)

_KIND: Final = 4
"""Bytes of a kind, before the target's own."""


def of_batch(batch: pa.RecordBatch) -> Batches:
    """Columns TAKEN of `groups.TAGS` to COUNTS."""
    widths = lengths(batch.column(0))
    for width in np.unique(widths).tolist():
        these = batch.filter(pa.array(widths == width))
        kinds = these.column(1).to_numpy().astype("<i4")
        targets = matrix_of(data_of(these.column(0)), width)
        named = np.concatenate([kinds.view(np.uint8).reshape(-1, _KIND), targets], axis=1)
        yield _packed(named, these.column(2).to_numpy().astype("<i4"))


def _packed(named: Bytes, events: NDArray[np.int32]) -> pa.RecordBatch:
    """Kinds and targets of one width, and their events, a row for each bucket."""
    order = np.argsort(named[:, -1], kind="stable")
    buckets, sizes = np.unique(named[:, -1], return_counts=True)
    columns = [
        pa.array(buckets.astype(np.int32)),
        pa.array(np.full(len(buckets), named.shape[1], np.int32)),
        binary_array(named[order], sizes),
        binary_array(events[order].view(np.uint8).reshape(-1, 4), sizes),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=COUNTS_ARROW)


def hot_targets(hot: int) -> Callable[[Batches], Batches]:
    """Rows of COUNTS, sorted by bucket and width, to TARGETS: those with `hot` events or more."""

    def run(batches: Batches) -> Batches:
        for batch in whole_groups(batches):
            for start, end in pairwise([*starts_of(batch).tolist(), len(batch)]):
                yield _summed(batch.slice(start, end - start), hot)

    return run


def _summed(group: pa.RecordBatch, hot: int) -> pa.RecordBatch:
    """All rows of one bucket and width to TARGETS."""
    width = group.column(1)[0].as_py()
    codes, named = coded(matrix_of(data_of(group.column(2)), width))
    events = np.frombuffer(data_of(group.column(3)), "<i4")
    # The sums are of whole numbers far below 2^53: a float has them as they are.
    sums = np.bincount(codes, events, len(named)).astype(np.int64)
    kept = named[sums >= hot]
    columns = [
        binary_array(kept[:, _KIND:], np.ones(len(kept), np.int64)),
        pa.array(np.ascontiguousarray(kept[:, :_KIND]).view("<i4").ravel()),
        pa.array(sums[sums >= hot]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=TARGETS_ARROW)
