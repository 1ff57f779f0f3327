"""Reads by Arrow, in batches, the tables that Spark staged on this machine."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.dataset as ds

from agent.reindex.parquet import CHUNK, COLUMNS
from agent.reindex.spark.columns import KEY
from agent.reindex.spark.groups import coded, matrix_of
from agent.reindex.spark.numeric import number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from agent.reindex.publish import Numbers

    Group = tuple[int, bytes, bytes]
    """What a group is of, its keys one behind the other, and how often each, in four bytes."""

PLACES: Final = {
    "hot": ("registers", "hot"),
    "hot_author": ("registers", "groups"),
    "daily": ("daily", "daily"),
    "daily_author": ("daily", "authors"),
    "zap": ("counters", "zap"),
    "kinds": ("counters", "kinds"),
    "status": ("dead", "status"),
    "fingerprint": ("fingerprints", "sums"),
}
"""Stage and table where each table is staged."""

GROUPS: Final = 500
"""Rows of many authors each that are read at once."""

PAIRS: Final = 100_000
"""Authors whose numbers are looked up at once, each person's once: some 20 MB."""


class StagedTables:
    """The tables of a work folder, as an index has them."""

    def __init__(self, root: str) -> None:
        self._root = root

    def rows(self, table: str, numbers: Numbers) -> Iterator[tuple[Any, ...]]:
        """As `agent.reindex.publish.RowsOf`. Raises KeyError for who has no number."""
        stage, name = PLACES[table]
        found = ds.dataset(f"{self._root}/{stage}/table={name}", format="parquet")
        if table == "fingerprint":
            return self._sums(found)
        if table == "hot_author":
            return self._pairs(found, numbers)
        if table == "daily_author":
            files = [self._plain(one, COLUMNS[table]) for one in found.get_fragments()]
            return ((*what, numbers[who], n) for *what, who, n in heapq.merge(*files))
        return self._plain(found, COLUMNS[table])

    def _plain(self, found: Any, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
        for batch in found.to_batches(columns=list(columns), batch_size=CHUNK):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def _pairs(self, found: Any, numbers: Numbers) -> Iterator[tuple[Any, ...]]:
        """An author a row, behind the number of the target.

        Each file has its groups in order; they are merged, as SQLite likes its rows so.
        """
        files = [self._groups(one) for one in found.get_fragments()]
        for held in _held(heapq.merge(*files)):
            yield from zip(*(c.tolist() for c in _numbered(held, numbers)), strict=True)

    def _groups(self, file: Any) -> Iterator[Group]:
        for batch in file.to_batches(columns=["t", "keys", "counts"], batch_size=GROUPS):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def _sums(self, found: Any) -> Iterator[tuple[Any, ...]]:
        for batch in found.to_batches():
            for day, events, *limbs in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                yield day, events, number_of(tuple(limbs))


def _held(groups: Iterable[Group]) -> Iterator[list[Group]]:
    """Groups, as many at once as have some PAIRS authors."""
    held: list[Group] = []
    size = 0
    for group in groups:
        held.append(group)
        size += len(group[1]) // KEY
        if size >= PAIRS:
            yield held
            held, size = [], 0
    if held:
        yield held


def _numbered(
    held: list[Group], numbers: Numbers
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """What each author's group is of, their number, and how often; sorted within a group."""
    t, keys, counts = zip(*held, strict=True)
    codes, people = coded(matrix_of(np.frombuffer(b"".join(keys), np.uint8), KEY))
    known = people.view(f"V{KEY}").ravel().tolist()
    a = np.array([numbers[one] for one in known], np.int64)[codes]
    group = np.repeat(np.arange(len(held)), [len(one) // KEY for one in keys])
    order = np.argsort(group << 32 | a)
    n = np.frombuffer(b"".join(counts), "<i4").astype(np.int64)
    return np.array(t, np.int64)[group], a[order], n[order]
