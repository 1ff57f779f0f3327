"""Authors of days in chunks: however they are cut or split, they are those of a plain count."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from agent.reindex.spark import days, groups
from agent.reindex.spark.columns import KEY, batch
from nostr_client.store.index_schema import DAY
from nostr_client.store.tombstones import EventRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

rng = random.Random(12)
KEYS = [rng.randbytes(KEY) for _ in range(20)]
TIMES = [0, DAY - 1, DAY, 20_000 * DAY + 5, 2**53 - 1]
ROWS = [
    EventRow(at, rng.randbytes(KEY), rng.choice(KEYS), rng.choice(TIMES), kind, None, None, ())
    for at, kind in enumerate(rng.choices([0, 1, 7, 65_535], k=900))
]
PLAIN = Counter((row.created_at // DAY, row.kind, row.pubkey) for row in ROWS)


def cut(size: int) -> Iterator[pa.RecordBatch]:
    wanted = [*days.TAKEN, "targets"]
    return (batch(ROWS[at : at + size]).select(wanted) for at in range(0, len(ROWS), size))


@pytest.mark.parametrize("chunk", [1, 130, 10**6])
@pytest.mark.parametrize("split", [1, 7, 10**6])
def test_authors_of_days_are_those_of_a_plain_count(
    chunk: int, split: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "CHUNK", chunk)
    chunks = groups.chunks(cut(60))
    made = [row for held in chunks for row in days.of_days(held).to_pylist()]
    assert all(row["events"] * KEY == len(row["authors"]) for row in made)
    total: Counter[int] = Counter()
    for row in made:
        total[row["t"]] += row["events"]
    asked = groups.rows(
        groups.arrow("t long, target binary, events int, authors binary"),
        [(row["t"], b"", total[row["t"]], row["authors"]) for row in made],
    )
    parts = [row for one in groups.spread(split)(iter([asked])) for row in one.to_pylist()]
    parts.sort(key=lambda row: (row["t"], row["part"]))
    spread = groups.rows(groups.SPREAD_ARROW, [tuple(row.values()) for row in parts])
    merged = [one.select(["t", "keys", "counts"]) for one in groups.merged(iter([spread]))]
    found = {
        (*days.day_and_kind(row["t"]), row["pubkey"]): row["n"]
        for one in groups.pairs(iter(merged))
        for row in one.to_pylist()
    }
    assert found == PLAIN
