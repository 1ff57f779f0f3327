"""The tables that Spark staged on this machine, read for publishing by Arrow, in batches."""

from __future__ import annotations

import heapq
import itertools
import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.dataset as ds

from agent.reindex.spark.columns import KEY
from agent.reindex.spark.days import day_and_kind
from agent.reindex.spark.numeric import number_of
from agent.reindex.tables import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PLACES: Final = {
    "hot": ("registers", "hot"),
    "hot_author": ("registers", "groups"),
    "daily": ("daily", "daily"),
    "daily_author": ("daily", "groups"),
    "zap": ("counters", "zap"),
    "kinds": ("counters", "kinds"),
    "status": ("dead", "status"),
    "fingerprint": ("fingerprints", "sums"),
}
"""Stage and table where each table is staged."""

CHUNK: Final = 50_000

GROUPS: Final = 500
"""Rows of many authors each that are read at once."""


class StagedTables:
    """`agent.reindex.tables.Tables` over a work folder."""

    def __init__(self, root: str) -> None:
        self._root = root

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table of COLUMNS."""
        stage, name = PLACES[table]
        found = ds.dataset(f"{self._root}/{stage}/{name}", format="parquet")
        if table == "fingerprint":
            yield from self._sums(found)
            return
        if table == "hot_author":
            yield from self._pairs(found, lambda t: (t,))
            return
        if table == "daily_author":
            yield from self._pairs(found, day_and_kind)
            return
        columns = list(COLUMNS[table])
        for batch in found.to_batches(columns=columns, batch_size=CHUNK):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def _pairs(
        self, found: Any, named: Callable[[int], tuple[int, ...]]
    ) -> Iterator[tuple[Any, ...]]:
        """An author a row, behind what names the group.

        Each file has its groups in order; they are merged, as SQLite likes its rows so.
        """
        files = [self._groups(one) for one in found.get_fragments()]
        for t, keys, counts in heapq.merge(*files):
            n = np.frombuffer(counts, "<i4").tolist()
            people = [key for (key,) in struct.iter_unpack(f"{KEY}s", keys)]
            yield from zip(*map(itertools.repeat, named(t)), people, n, strict=False)

    def _groups(self, file: Any) -> Iterator[tuple[Any, ...]]:
        for batch in file.to_batches(columns=["t", "keys", "counts"], batch_size=GROUPS):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def _sums(self, found: Any) -> Iterator[tuple[Any, ...]]:
        for batch in found.to_batches():
            for day, events, *limbs in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                yield day, events, number_of(tuple(limbs))
