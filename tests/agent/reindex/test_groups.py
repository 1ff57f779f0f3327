"""Authors of targets in chunks: however they are cut or split, the groups and registers are those
of a plain count."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from agent.reindex.spark import groups
from agent.reindex.spark.columns import KEY, batch
from nostr_client import hll
from nostr_client.store.tombstones import EventRow

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

rng = random.Random(11)
KEYS = [rng.randbytes(KEY) for _ in range(40)]
TEXTS = ("", "é" * 15, KEYS[0].hex().upper(), "30023:" + KEYS[1].hex() + ":d", KEYS[2].hex()[:-2])
VALUES = [key.hex() for key in KEYS] + list(TEXTS)


def events() -> list[EventRow]:
    """Contact lists, reactions and comments that name keys and texts, some of them twice."""
    found = []
    for at in range(600):
        kind, names = rng.choice([(3, "p"), (7, "ea"), (1111, "qEA"), (0, "p")])
        named = rng.choices(VALUES, k=rng.randrange(30))
        tags = tuple((rng.choice(names), value, "more") for value in named)
        author = rng.choice(KEYS)
        found.append(EventRow(at, rng.randbytes(KEY), author, 0, kind, None, None, (*tags, ("p",))))
    return found


def counted(rows: Iterable[EventRow]) -> Counter[tuple[str, str, int, bytes]]:
    tracked = {3: "p", 7: "ea", 1111: "qEA"}
    return Counter(
        (name, value, row.kind, row.pubkey)
        for row in rows
        for name, value in {tag[:2] for tag in row.tags if len(tag) > 1}
        if name in tracked.get(row.kind, "")
    )


def chunks(rows: list[EventRow], size: int) -> list[pa.RecordBatch]:
    wanted = ["kind", "pubkey", "targets", "others"]
    return [batch(rows[at : at + size]).select(wanted) for at in range(0, len(rows), size)]


@pytest.mark.parametrize("chunk", [1, 700, 10**6])
def test_groups_of_chunks_are_those_of_a_plain_count(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "CHUNK", chunk)
    rows = events()
    found: Counter[tuple[str, str, int, bytes]] = Counter()
    for made in groups.grouped(iter(chunks(rows, 70))):
        for row in made.to_pylist():
            name, value = groups.name_and_value(row["target"])
            assert row["events"] * KEY == len(row["authors"])
            for key in (row["authors"][at : at + KEY] for at in range(0, len(row["authors"]), KEY)):
                found[name, value, row["kind"], key] += 1
    assert found == counted(rows)


def spread_rows(split: int | None) -> list[dict[str, Any]]:
    """Every target of the events, its authors in one part or in many, sorted as Spark does it."""
    parts: list[tuple[Any, ...]] = []
    for made in groups.grouped(iter(chunks(rows_of_all, 70))):
        for row in made.to_pylist():
            t = numbers.setdefault((row["target"], row["kind"]), len(numbers))
            parts.append((t, row["target"], row["events"], row["authors"]))
    if split is None:
        return [{"t": t, "part": 0, "target": a, "authors": b} for t, a, _, b in parts]
    asked = groups.rows(groups.arrow("t long, target binary, events int, authors binary"), parts)
    return [one for made in groups.spread(split)(iter([asked])) for one in made.to_pylist()]


rows_of_all = events()
numbers: dict[tuple[bytes, int], int] = {}


@pytest.mark.parametrize("split", [None, 1, 7])
@pytest.mark.parametrize("cut", [1, 13, 10**6])
def test_split_and_cut_anywhere_registers_are_those_of_all_authors(
    split: int | None, cut: int
) -> None:
    spread = sorted(spread_rows(split), key=lambda row: (row["t"], row["part"]))
    columns = [(row["t"], row["part"], row["target"], row["authors"]) for row in spread]
    batches = [
        groups.rows(groups.SPREAD_ARROW, columns[at : at + cut])
        for at in range(0, len(columns), cut)
    ]
    merged = list(groups.merged(iter(batches)))
    found = Counter(
        {(row["t"], row["pubkey"]): row["n"] for b in merged for row in pairs_of(b).to_pylist()}
    )
    sketches: dict[int, bytes] = {}
    for made in merged:
        for row in made.to_pylist():
            sketches[row["t"]] = hll.merge(sketches.get(row["t"], bytes(hll.M)), row["registers"])
    expected: Counter[tuple[int, bytes]] = Counter()
    people: dict[int, list[bytes]] = {}
    targets = {t: (*groups.name_and_value(target), kind) for (target, kind), t in numbers.items()}
    places = {named: t for t, named in targets.items()}
    for (name, value, kind, key), n in counted(rows_of_all).items():
        t = places[name, value, kind]
        expected[t, key] += n
        people.setdefault(t, []).append(key)
    assert found == expected
    for t, keys in people.items():
        name, value, _ = targets[t]
        offset = hll.offset({f"#{name}": [value]})
        plain = bytes(hll.M) if offset is None else hll.from_raw(b"".join(keys), offset)
        assert sketches[t] == plain


def pairs_of(made: pa.RecordBatch) -> pa.RecordBatch:
    (found,) = groups.pairs(iter([made.select(["t", "keys", "counts"])]))
    return found
