"""The tables for analysts equal DuckDB's on the shared events; the page's queries run on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest

from agent.reindex.spark.queries import ANALYSTS
from nostr_client.assertions.count_table import CountTable
from nostr_client.assertions.fields import ADDRESS, EVENT, FIELDS, IDENTIFIER, USER
from nostr_client.assertions.tally import AssertionTally
from nostr_client.codecs.private_kinds import is_private
from nostr_client.codecs.references import address_of
from tests.agent.reindex import analysts
from tests.agent.reindex.nasty import NOW
from tests.docs.blocks import blocks
from tests.unit import test_assertions as plain

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.agent.reindex.rebuilding import Archived

pytestmark = pytest.mark.xdist_group("spark")

PAGE = "docs/reference/tables.md"


def rows_of(tables: Path, name: str) -> list[tuple[Any, ...]]:
    found = pq.read_table(tables / name)
    if "sketch" in found.column_names:
        found = found.drop_columns("sketch")
    return [tuple(row.values()) for row in found.to_pylist(maps_as_pydicts="strict")]


def test_every_table_equals_that_of_duckdb(archived: Archived) -> None:
    tables, events, said = archived.tables, archived.events, archived.heard.built.rows
    wanted = analysts.tables(events, archived.copies)
    assert wanted.keys() == set(ANALYSTS) - {"assertions"}
    for name, rows in wanted.items():
        found = rows_of(tables, name)
        assert rows, name
        assert set(found) - set(rows) == set(), name
        assert set(rows) - set(found) == set(), name
        assert len(found) == len(rows) == said[name], name


def test_the_card_of_every_subject_equals_the_sdks_tally(
    archived: Archived,
) -> None:
    tables, events = archived.tables, archived.events
    public = [e for e, status in events if status == "stored" and not is_private(e)]
    tally = AssertionTally(NOW, lambda *_: None)
    for event in public:
        tally.add(event)
    found = {(kind, subject): rest for kind, subject, *rest in rows_of(tables, "assertions")}
    assert found.keys() == set(tally.subjects())
    counts = {
        (kind, one.name)
        for kind, fields in FIELDS.items()
        for one in fields
        if not one.personal and not one.zaps
    }
    for (kind, subject), (kinds, fields, as_of) in found.items():
        known = tally.values(kind, subject)
        assert fields == {name: n for name, n in known.items() if (kind, name) in counts}, subject
        named = tally.identifier_kinds(subject) if kind == IDENTIFIER else ()
        assert tuple(kinds or ()) == named, subject
        assert as_of == NOW


def test_the_card_of_every_author_and_event_equals_a_plain_count(
    archived: Archived,
) -> None:
    """The count of the tests of cards, over the decoded lines: each author, each busy event."""
    tables, events = archived.tables, archived.events
    lines = [
        {"id": e.id, "pubkey": e.pubkey, "created_at": e.created_at, "kind": e.kind, "tags": e.tags}
        for e, status in events
        if status == "stored" and not is_private(e)
    ]
    about = [one for one in lines if one["kind"] in (1, 3, 6, 7, 16, 1111)]
    cards = {(kind, subject): f for kind, subject, _, f, _ in rows_of(tables, "assertions")}
    people = {subject for kind, subject in cards if kind == USER}
    assert {one["pubkey"] for one in lines if one["kind"] != 62} == people
    busy = [one for one in cards if one[0] in (EVENT, ADDRESS) and any(cards[one].values())]
    assert busy
    for kind, subject in busy[:: max(1, len(busy) // 100)]:
        name = "a" if kind == ADDRESS else "e"
        assert cards[kind, subject] == plain.of_thing(about, subject, name), subject
    for subject in sorted(people)[:: max(1, len(people) // 100)]:
        wanted = plain.without(plain.of_person(about, subject), "reports", "t")
        assert cards[USER, subject] == wanted, subject


def test_assertions_publish_reads_every_card_that_spark_wrote(archived: Archived) -> None:
    """Each row that Spark wrote is a card's numbers; no row is refused."""
    wanted = {(kind, one): f for kind, one, _, f, _ in rows_of(archived.tables, "assertions")}
    read = [row for rows in CountTable(archived.tables).batches(NOW) for row in rows]
    refused = [row for row in read if row.why_not]
    assert refused == []
    assert len(read) == len(wanted) > 0
    assert {(row.kind, row.subject): row.values for row in read} == wanted


def test_no_private_event_is_in_a_table(archived: Archived) -> None:
    tables, events = archived.tables, archived.events
    hidden = {e.id for e, _ in events if is_private(e)}
    hidden |= {address_of(e) for e, _ in events if is_private(e) and e.kind >= 30_000}
    assert not hidden & {row[1] for row in rows_of(tables, "assertions")}
    assert "secret" not in {row[0] for row in rows_of(tables, "hashtags")}


def test_sketches_of_days_merge_to_those_of_weeks(spark: SparkSession, archived: Archived) -> None:
    tables = archived.tables
    spark.read.parquet(str(tables / "daily_actives")).createOrReplaceTempView("days")
    merged = spark.sql(
        "SELECT trunc(day, 'week'), hll_sketch_estimate(hll_union_agg(sketch)) FROM days GROUP BY 1"
    ).collect()
    weeks = {week: people for week, _, people in rows_of(tables, "weekly_actives")}
    assert merged
    for week, estimate in merged:
        assert abs(estimate - weeks[week]) <= 0.1 * weeks[week], week


def test_the_page_has_every_table_and_its_queries_run(
    spark: SparkSession, archived: Archived
) -> None:
    tables = archived.tables
    text = (analysts.ROOT / PAGE).read_text("utf-8")
    queries = [one.text for one in blocks("sql") if one.page == PAGE]
    for name in ANALYSTS:
        fields = spark.read.parquet(str(tables / name)).schema
        types = [one.dataType.simpleString().replace(",", ", ") for one in fields]
        columns = ", ".join(map(" ".join, zip(fields.names, types, strict=True)))
        assert f"## `{name}`" in text
        assert f"`{columns}`" in text.replace("\n", " "), name
        assert any(f"tables/{name}/" in query for query in queries), name
    with duckdb.connect() as conn:
        for query in queries:
            sql = query.replace("tables/tables/", f"{tables}/")
            assert conn.execute(sql).fetchall(), query
