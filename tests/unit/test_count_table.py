"""The table of counts of an archive: good rows as they stand, all others with a reason."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nostr_client.assertions.count_table import CountRow, CountTable
from nostr_client.assertions.fields import ADDRESS, EVENT, FIELDS, IDENTIFIER, USER, is_field
from nostr_client.errors import InvalidInput
from tests.count_tables import SCHEMA, Counted, write_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NOW = 1_800_000_000
KEY, ID = "ab" * 32, "cd" * 32
PLACE = f"30023:{KEY}:an article"
SITE = "https://example.com"

GOOD = [
    Counted(USER, KEY, [("followers", 12), ("post_cnt", 3)], NOW - 5),
    Counted(EVENT, ID, [("comment_cnt", 0), ("repost_cnt", 1), ("reaction_cnt", 2)], NOW),
    Counted(ADDRESS, PLACE, [("quote_cnt", 4)], NOW),
    Counted(IDENTIFIER, SITE, [("comment_cnt", 1)], NOW, ["web"]),
    Counted(IDENTIFIER, "isbn:9780765382030", [], NOW, []),
]


def read(folder: Path) -> list[CountRow]:
    return [row for rows in CountTable(folder).batches(NOW) for row in rows]


def test_rows_are_read_as_they_stand_from_every_file_in_either_folder(tmp_path: Path) -> None:
    write_table(tmp_path / "tables", GOOD[:2])
    write_table(tmp_path / "tables", GOOD[2:], "part-00001.zstd.parquet")
    for folder in (tmp_path, tmp_path / "tables"):
        assert read(folder) == [
            CountRow(
                row.kind or 0,
                row.subject or "",
                {name: number or 0 for name, number in row.fields or ()},
                tuple(one or "" for one in row.subject_kinds or ()),
                row.as_of or 0,
            )
            for row in GOOD
        ]


BAD = [
    (GOOD[0]._replace(kind=1), "kind or subject"),
    (GOOD[0]._replace(kind=None), "kind or subject"),
    (GOOD[0]._replace(subject=KEY.upper()), "kind or subject"),
    (GOOD[0]._replace(subject=KEY[:-1]), "kind or subject"),
    (GOOD[1]._replace(subject=PLACE), "kind or subject"),
    (GOOD[2]._replace(subject=ID), "kind or subject"),
    (GOOD[3]._replace(subject=""), "kind or subject"),
    (GOOD[3]._replace(subject="x" * 2_001), "kind or subject"),
    (GOOD[3]._replace(subject="x" * 1_000_000), "kind or subject"),
    (GOOD[3]._replace(subject=None), "kind or subject"),
    (GOOD[0]._replace(fields=None), "a number"),
    (GOOD[0]._replace(fields=[("followers", -1)]), "a number"),
    (GOOD[0]._replace(fields=[("followers", None)]), "a number"),
    (GOOD[0]._replace(fields=[("followers", 1), ("followers", 2)]), "a number"),
    (GOOD[0]._replace(fields=[("score", 1)]), "a number"),
    (GOOD[0]._replace(fields=[("comment_cnt", 1)]), "a number"),
    (GOOD[0]._replace(fields=[("rank", 100)]), "a number"),
    (GOOD[0]._replace(fields=[("zap_amt_recd", 1)]), "a number"),
    (GOOD[1]._replace(fields=[("zap_cnt", 1)]), "a number"),
    (GOOD[0]._replace(fields=[(f"f{n}", 1) for n in range(100_000)]), "a number"),
    (GOOD[0]._replace(fields=[("followers" * 100_000, 1)]), "a number"),
    (GOOD[0]._replace(as_of=None), "time of counting"),
    (GOOD[0]._replace(as_of=0), "time of counting"),
    (GOOD[0]._replace(as_of=NOW + 86_400), "time of counting"),
    (GOOD[0]._replace(subject_kinds=["web"]), "kinds of an identifier"),
    (GOOD[3]._replace(subject_kinds=[None]), "kinds of an identifier"),
    (GOOD[3]._replace(subject_kinds=["w" * 101]), "kinds of an identifier"),
]


def test_a_row_that_is_not_allowed_has_a_reason_and_hides_no_other(tmp_path: Path) -> None:
    write_table(tmp_path, [one for bad, _ in BAD for one in (bad, *GOOD)])
    found = read(tmp_path)
    assert len(found) == len(BAD) * (1 + len(GOOD))
    step = 1 + len(GOOD)
    for n, (bad, why) in enumerate(BAD):
        refused, *others = found[n * step : (n + 1) * step]
        assert why in refused.why_not, bad
        assert (refused.values, refused.identifier_kinds) == ({}, ()), bad
        assert [one.why_not for one in others] == [""] * len(GOOD), bad
        assert refused.has_subject == (why != "kind or subject"), bad


TEXTS = st.one_of(
    st.none(),
    st.sampled_from([KEY, ID, PLACE, SITE, "", "followers", "comment_cnt", "zap_cnt"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)
NUMBERS = st.one_of(st.none(), st.sampled_from([0, 1, NOW]), st.integers(-(2**63), 2**63 - 1))
NAMES = st.sampled_from(sorted({one.name for fields in FIELDS.values() for one in fields}))
ROWS = st.builds(
    Counted,
    kind=st.one_of(st.none(), st.sampled_from(list(FIELDS)), st.integers(0, 40_000)),
    subject=TEXTS,
    fields=st.one_of(st.none(), st.lists(st.tuples(NAMES, NUMBERS), max_size=40)),
    as_of=NUMBERS,
    subject_kinds=st.one_of(st.none(), st.lists(TEXTS, max_size=40)),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(rows=st.lists(ROWS, max_size=20))
def test_no_row_gives_a_number_that_the_table_of_fields_does_not_define(
    tmp_path: Path, rows: list[Counted]
) -> None:
    write_table(tmp_path, rows)
    found = read(tmp_path)
    assert len(found) == len(rows)
    for given_, one in zip(rows, found, strict=True):
        assert all(is_field(one.kind, name) for name in one.values)
        if not one.why_not:
            assert one.values == dict(given_.fields or ())
            assert (one.kind, one.subject, one.as_of) == (
                given_.kind,
                given_.subject,
                given_.as_of,
            )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(at=st.integers(0, 10**6), bits=st.integers(1, 255))
def test_a_damaged_file_is_refused_or_read_and_never_crashes(
    tmp_path: Path, at: int, bits: int
) -> None:
    file = write_table(tmp_path, GOOD) / "assertions" / "part-00000.parquet"
    raw = bytearray(file.read_bytes())
    raw[at % len(raw)] ^= bits
    file.write_bytes(raw)
    found: list[CountRow] = []
    with suppress(InvalidInput):
        found = read(tmp_path)
    assert all(is_field(one.kind, name) for one in found for name in one.values)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("kind", ["30382"]),
        ("subject", [5]),
        ("subject_kinds", ["web"]),
        ("fields", ['{"followers": 1}']),
        ("as_of", ["now"]),
    ],
)
def test_a_column_of_another_type_is_refused(
    tmp_path: Path, column: str, values: Sequence[object]
) -> None:
    write_table(tmp_path, [])
    good = pa.Table.from_pylist([GOOD[0]._asdict()], SCHEMA)
    other = good.set_column(good.schema.get_field_index(column), column, pa.array(values))
    pq.write_table(other, tmp_path / "assertions" / "part-00001.parquet")
    with pytest.raises(InvalidInput, match=column):
        read(tmp_path)


def test_a_folder_without_a_whole_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has no table 'assertions'"):
        CountTable(tmp_path)
    write_table(tmp_path, GOOD)
    (tmp_path / "assertions" / "_SUCCESS").unlink()
    with pytest.raises(InvalidInput, match="not written to its end"):
        CountTable(tmp_path)
    write_table(tmp_path, GOOD)
    os.mkfifo(tmp_path / "assertions" / "part-00001.parquet")
    with pytest.raises(InvalidInput, match="is not a file"):
        CountTable(tmp_path)


def test_one_long_name_for_many_rows_takes_the_memory_of_one(tmp_path: Path) -> None:
    """A dictionary has the name once; a row of each batch that is good stays."""
    name, rows = "x" * 2**20, 1_000
    keys = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([name]))
    fields = pa.MapArray.from_arrays(range(rows + 1), keys, pa.array([1] * rows))
    good = pa.Table.from_pylist([GOOD[0]._asdict()] * rows, SCHEMA)
    place = good.schema.get_field_index("fields")
    file = write_table(tmp_path, GOOD) / "assertions" / "part-00001.parquet"
    table = good.set_column(place, "fields", fields)
    pq.write_table(table, file, compression="zstd", dictionary_pagesize_limit=2**22)
    pool = pa.default_memory_pool()
    before = pool.max_memory()
    found = read(tmp_path)
    assert pool.max_memory() - before < 64 * len(name)
    assert [one.why_not for one in found] == [""] * len(GOOD) + [found[-1].why_not] * rows
    assert "a number" in found[-1].why_not
