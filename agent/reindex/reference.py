"""Computes the tables in one plain process: the reference engine.

It is the oracle of the Spark engine, and the engine of stores of ordinary size: Spark costs 10 to
15 CPU seconds before its first row. Everything about authors is one 64-bit key (what, who) per
event and tag, sorted by numpy at the end: 8 bytes each where sets would take a hundred.
"""

from __future__ import annotations

import itertools
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from agent.reindex.parquet import MOST_MSATS
from nostr_client import hll
from nostr_client.codecs import kinds
from nostr_client.codecs.zaps import paid
from nostr_client.store.base import SaveStatus
from nostr_client.store.index.schema import DAY, TRACKED_NAMES
from nostr_client.store.tombstones import EventRow, Tombstones, event_of, tombstones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from agent.reindex.inputs import Settings

    Rows = Callable[[], Iterable[EventRow]]

_SUM_MASK = (1 << 256) - 1


class Groups(NamedTuple):
    """Sorted keys (what << 32 | who) as runs: what, who, and how often."""

    what: NDArray[np.int64]
    who: NDArray[np.int64]
    n: NDArray[np.int64]


class Accumulator:
    """Takes rows, gives tables; the memory is some 8 bytes a tag, and a name for each target."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._people: dict[bytes, int] = {}
        self._targets: dict[tuple[str, str, int], int] = {}
        self._days: dict[tuple[int, int], int] = {}
        self._of_targets = array("q")
        self._of_days = array("q")
        self._zaps: dict[tuple[str, str], list[int]] = {}
        self._fingerprints: dict[int, list[int]] = {}
        self.statuses: Counter[str] = Counter()
        self._hot: Groups | None = None

    def add(self, rows: Iterable[EventRow]) -> None:
        """Count rows that a store holds."""
        people, days, targets = self._people, self._days, self._targets
        of_days, of_targets = self._of_days.append, self._of_targets.append
        for row in rows:
            who = people.setdefault(row.pubkey, len(people))
            day, kind = row.created_at // DAY, row.kind
            of_days(days.setdefault((day, kind), len(days)) << 32 | who)
            self._fingerprint(day, row.id)
            names = TRACKED_NAMES.get(kind)
            if names is not None:
                for name, value in {t[:2] for t in row.tags if t[0] in names and len(t) > 1}:
                    of_targets(targets.setdefault((name, value, kind), len(targets)) << 32 | who)
            elif kind == kinds.ZAP:
                self._zap(row)

    def _fingerprint(self, day: int, id_: bytes) -> None:
        found = self._fingerprints.get(day)
        if found is None:
            found = self._fingerprints[day] = [0, 0]
        found[0] += 1
        found[1] += int.from_bytes(id_, "little")

    def _zap(self, row: EventRow) -> None:
        for name, value, msats in paid(event_of(row)):
            found = self._zaps.setdefault((name, value), [0, 0])
            found[0] += 1
            found[1] = min(found[1] + msats, MOST_MSATS)

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table of `tables.COLUMNS`."""
        makers: dict[str, Callable[[], Iterator[tuple[Any, ...]]]] = {
            "hot": self._hot_rows,
            "hot_author": self._hot_authors,
            "daily": self._daily,
            "daily_author": self._daily_authors,
            "zap": lambda: ((*target, *sums) for target, sums in self._zaps.items()),
            "kinds": self._kinds,
            "fingerprint": self._sums,
            "status": lambda: iter(self.statuses.items()),
        }
        return makers[table]()

    def _hot_groups(self) -> Groups:
        """The groups of hot targets, sorted by target."""
        if self._hot is None:
            groups = _grouped(self._of_targets)
            events = np.bincount(groups.what, groups.n, len(self._targets)).astype(np.int64)
            keep = events[groups.what] >= self._settings.hot
            self._hot = Groups(*(column[keep] for column in groups))
        return self._hot

    def _hot_rows(self) -> Iterator[tuple[Any, ...]]:
        groups = self._hot_groups()
        names = list(self._targets)
        keys = self._keys()
        for start, end in _runs(groups.what):
            t = int(groups.what[start])
            name, value, kind = names[t]
            offset = hll.offset({f"#{name}": [value]})
            who = groups.who[start:end]
            registers = hll.from_raw(keys[who], offset) if offset is not None else bytes(hll.M)
            events = int(groups.n[start:end].sum())
            yield t, name, value, kind, events, end - start, registers

    def _hot_authors(self) -> Iterator[tuple[Any, ...]]:
        groups = self._hot_groups()
        people = list(self._people)
        for t, who, n in zip(*(column.tolist() for column in groups), strict=True):
            yield t, people[who], n

    def _daily(self) -> Iterator[tuple[Any, ...]]:
        groups = _grouped(self._of_days)
        days = list(self._days)
        for start, end in _runs(groups.what):
            yield *days[groups.what[start]], int(groups.n[start:end].sum()), end - start

    def _daily_authors(self) -> Iterator[tuple[Any, ...]]:
        groups = _grouped(self._of_days)
        days, people = list(self._days), list(self._people)
        for what, who, n in zip(*(column.tolist() for column in groups), strict=True):
            yield *days[what], people[who], n

    def _kinds(self) -> Iterator[tuple[Any, ...]]:
        sums: Counter[int] = Counter()
        for _, kind, events, _ in self._daily():
            sums[kind] += events
        return iter(sums.items())

    def _sums(self) -> Iterator[tuple[Any, ...]]:
        for day, (n, total) in self._fingerprints.items():
            yield day, n, (total & _SUM_MASK).to_bytes(32, "little")

    def _keys(self) -> NDArray[np.uint8]:
        return np.frombuffer(b"".join(self._people), np.uint8).reshape(-1, 32)


def from_store_rows(rows: Iterable[EventRow], settings: Settings) -> Accumulator:
    """The tables of a store's rows: all of them count until the store itself removes them."""
    made = Accumulator(settings)
    made.add(rows)
    made.statuses[SaveStatus.STORED] = len(made._of_days)
    return made


def from_archive(rows: Rows, settings: Settings) -> Accumulator:
    """The tables of archives; `rows` is called three times, and each event may come again."""
    blocked = tombstones(rows, settings.urls, settings.now)
    made = Accumulator(settings)
    made.add(_living(rows(), blocked, made.statuses))
    return made


def _living(
    rows: Iterable[EventRow], blocked: Tombstones, statuses: Counter[str]
) -> Iterator[EventRow]:
    seen: set[bytes] = set()
    for row in rows:
        status = SaveStatus.DUPLICATE if row.id in seen else blocked.status(row)
        seen.add(row.id)
        statuses[status] += 1
        if status is SaveStatus.STORED:
            yield row


def _grouped(keys: array[int]) -> Groups:
    if not keys:
        empty = np.empty(0, np.int64)
        return Groups(empty, empty, empty)
    unique, n = np.unique(np.frombuffer(keys, np.int64), return_counts=True)
    return Groups(unique >> 32, unique & 0xFFFFFFFF, n.astype(np.int64))


def _runs(what: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Where each run of equal values begins and ends."""
    if not len(what):
        return
    starts = [0, *(np.flatnonzero(np.diff(what)) + 1).tolist(), len(what)]
    yield from itertools.pairwise(starts)
