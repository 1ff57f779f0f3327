"""Spark's tables equal those of the reference engine, row for row, from each of the readers."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agent.reindex import inputs, single
from agent.reindex.event_rows import ARCHIVE_COLUMNS, DAMAGED, archive_values
from agent.reindex.inputs import Settings
from agent.reindex.protocol import STAGES, Checked, Job, Stage, from_line
from agent.reindex.reporter import Reporter
from agent.reindex.spark import readers
from agent.reindex.spark.job import rebuild
from agent.reindex.spark.queries import ANALYSTS, query
from agent.reindex.spark.session import SparkFailed
from agent.reindex.spark.staging import KEPT_S, Staging
from agent.reindex.spark.tables import StagedTables
from nostr_client.errors import InvalidInput
from nostr_client.store.index import update as index_update
from nostr_client.store.index.keeper import Index
from nostr_client.store.index.schema import DAY
from tests.agent.reindex import dirty, looking
from tests.agent.reindex.nasty import (
    HOT,
    NOW,
    fill,
    make,
    nasty,
    opened,
    write_archive,
)
from tests.agent.reindex.rebuilding import SETTINGS, Heard, by_spark, job_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.agent.reindex.rebuilding import Archived

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(autouse=True)
def _few_are_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_update, "HOT", HOT)


def by_reference(job: Job) -> Heard:
    heard = Heard()
    single.run_job(job, heard.reporter)
    return heard


def equal(one: Path, other: Path) -> None:
    """EXCEPT both ways gives no row, in every table."""
    people = {}
    for path in (one, other):
        people[path] = looking.people_of(path) if has_people(path) else None
    ours, theirs = looking.of_file(one, people[one]), looking.of_file(other, people[other])
    for table in looking.QUERIES:
        assert set(ours[table]) - set(theirs[table]) == set(), table
        assert set(theirs[table]) - set(ours[table]) == set(), table
        assert len(ours[table]) == len(theirs[table]), table


def has_people(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as conn:
        sql = "SELECT 1 FROM sqlite_schema WHERE name = 'author'"
        return conn.execute(sql).fetchone() is not None


def sums_of(job: Job, heard: Heard) -> list[tuple[Any, ...]]:
    """What a run staged of each day: how many events, and the sum of their ids."""
    return sorted(StagedTables(f"{job.work}/{heard.built.fingerprint}").rows("fingerprint", {}))


def sums_in(store: Path) -> list[tuple[Any, ...]]:
    """The same, by adding up what a store has."""
    ids: dict[int, list[int]] = {}
    with closing(sqlite3.connect(store)) as conn:
        for created_at, one in conn.execute("SELECT created_at, id FROM event"):
            ids.setdefault(created_at // DAY, []).append(int.from_bytes(one, "little"))
    return sorted(
        (day, len(of), (sum(of) % 2**256).to_bytes(32, "little")) for day, of in ids.items()
    )


async def test_a_store_an_archive_and_the_live_index_are_equal(
    spark: SparkSession, archived: Archived, tmp_path: Path
) -> None:
    path = tmp_path / "store.db"
    events = [event for event, _ in archived.events]
    async with await opened(path) as store:
        index = await Index.open(store)
        await fill(store, events)
        await index.refresh(10_000)
    source = inputs.Input(kind="store", paths=(str(path),))
    job = job_of(source, tmp_path, check=True)
    heard = by_spark(spark, job)
    (checked,) = [one for one in heard.messages if isinstance(one, Checked)]
    assert checked.found == 0, checked.differences
    assert list(heard.states()) == [*STAGES, "publish", "check"]
    assert sums_of(job, heard) == sums_in(path)

    job, heard = archived.job, archived.heard
    ours = tmp_path / "spark.db"
    shutil.copy(heard.built.path, ours)
    job = msgspec.structs.replace(job, out=str(tmp_path / "plain"))
    told = by_reference(job).built
    equal(ours, Path(told.path))
    assert heard.built.statuses == told.statuses
    apart = dict.fromkeys([*ANALYSTS, "fingerprint"], 0)
    assert heard.built.rows | apart == told.rows | apart
    assert sums_of(job, heard) == sums_in(path)
    people = looking.people_of(path)
    assert looking.of_file(ours) == looking.of_file(tmp_path / "store.index-0.db", people)

    again = by_spark(spark, archived.job)
    assert {state for name, state in again.states().items() if name in STAGES} == {"skipped"}
    equal(Path(again.built.path), Path(told.path))


class Stop(BaseException):
    """Raised where a signal would be."""


def test_a_run_that_was_stopped_in_any_stage_goes_on_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive = inputs.archive("jsonl", [str(write_archive(tmp_path / "a.jsonl", nasty()))])
    job = job_of(archive, tmp_path)
    name = inputs.fingerprint(job.source, job.settings, None)
    for at, stage in enumerate(STAGES):
        heard = Heard()
        half = tmp_path / "work" / name / stage / "table=tags"
        half.mkdir(parents=True)
        (half / "part-0.parquet").write_bytes(b"half of a file")
        with pytest.raises(Stop):
            rebuild(spark, job, stopping_at(stage, heard))
        states = heard.states()
        assert [states[before] for before in STAGES[: max(at - 1, 0)]] == ["skipped"] * max(
            at - 1, 0
        )
        assert (
            not list((tmp_path / "out").rglob("*index*")) if (tmp_path / "out").exists() else True
        )
    later = msgspec.structs.replace(SETTINGS, now=NOW + 60)
    heard = by_spark(spark, msgspec.structs.replace(job, settings=later))
    assert [heard.states()[stage] for stage in STAGES] == ["skipped"] * 6 + ["done"]
    assert spark.read.parquet(f"{job.out}/tables/about").collect() == [(NOW, HOT)]
    ours = tmp_path / "spark.db"
    shutil.move(heard.built.path, ours)
    equal(ours, Path(by_reference(job).built.path))


def stopping_at(stage: str, heard: Heard) -> Reporter:
    """A reporter that stops the run when a stage has begun."""

    def write(line: bytes) -> None:
        message = from_line(line)
        heard.messages.append(message)
        if isinstance(message, Stage) and (message.name, message.state) == (stage, "started"):
            raise Stop

    return Reporter(write)


def test_another_input_does_not_find_what_was_staged(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "a.jsonl", nasty())
    for name in (str(path), path.as_uri(), f"file:{path}"):
        archive = inputs.archive("jsonl", [name])
        before = inputs.fingerprint(archive, SETTINGS, None)
        assert inputs.fingerprint(archive, SETTINGS, None) == before
        assert inputs.fingerprint(archive, Settings(now=NOW, hot=9), None) != before
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
        assert inputs.fingerprint(archive, SETTINGS, None) != before


def test_files_elsewhere_are_known_by_what_their_file_system_tells() -> None:
    bucket = inputs.Input(kind="jsonl", paths=("s3a://bucket/dump",))
    one = inputs.Listed("s3a://bucket/dump/a.jsonl", 100, 1_700_000_000_000_000)

    def name(*listed: inputs.Listed) -> str:
        return inputs.fingerprint(bucket, SETTINGS, None, listed)

    assert name(one) == name(one)
    assert len({name(one), name(one._replace(length=101)), name(one._replace(modified=1))}) == 3
    untold = [(), (one._replace(modified=0),), (one, one._replace(length=-1))]
    for listed in untold:
        assert name(*listed).startswith(inputs.ONCE)
        assert name(*listed) != name(*listed), "what may have changed is not used again"


@pytest.mark.parametrize("url", ["file://{folder}/parts/a.jsonl", "file://{folder}/p*/*.jsonl"])
def test_an_archive_that_is_rewritten_in_place_is_read_again(
    spark: SparkSession, tmp_path: Path, url: str
) -> None:
    """By a URL of this machine, and by one that Hadoop has to list."""
    (tmp_path / "parts").mkdir()
    path = tmp_path / "parts" / "a.jsonl"
    one, other = (make(1, 1, at=NOW - n * DAY).to_json() for n in range(2))
    assert len(one) == len(other)
    path.touch()
    job = job_of(inputs.archive("jsonl", [url.format(folder=tmp_path)]), tmp_path)
    found = []
    for text, changed in ((one, 1), (one, 1), (other, 2)):
        path.write_text(text, "utf-8")
        os.utime(path, (changed, changed))
        heard = Heard()
        with pytest.raises(Stop):
            rebuild(spark, job, stopping_at("dead", heard))
        found.append(heard.states()["events"])
    assert found == ["done", "skipped", "done"]


def test_names_with_the_characters_of_a_pattern_are_names(
    spark: SparkSession, tmp_path: Path
) -> None:
    event = nasty()[0]
    path = tmp_path / "a[1] {b} 100%20*.jsonl"
    path.write_text(event.to_json(), "utf-8")
    (tmp_path / "a1 b 100%20.jsonl").write_text("no event", "utf-8")
    read = readers.archives(spark, inputs.archive("jsonl", [str(path)]), verify=False)
    assert readers.events(read).count() == 1
    assert readers.rejects(read).count() == 0


def test_a_run_that_goes_on_keeps_the_time_of_the_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What has expired meanwhile is alive in all tables or in none."""
    reporter = Reporter(lambda line: None)
    asked = (
        (Settings(now=NOW), NOW, "made"),
        (Settings(now=NOW + KEPT_S), NOW, "kept"),
        (Settings(now=NOW + 1, fixed=True), NOW + 1, "made"),
        (Settings(now=NOW + 1, fixed=True), NOW + 1, "kept"),
        (Settings(now=NOW + KEPT_S + 2), NOW + KEPT_S + 2, "made"),
    )
    for settings, now, what in asked:
        staging = Staging(spark, str(tmp_path), reporter)
        assert staging.as_of(settings, ["dead"]) == now
        made: list[str] = []

        def rows(stage: str, made: list[str] = made) -> DataFrame:
            made.append(stage)
            return spark.range(1)

        for stage in ("events", "dead"):
            staging.run(stage, {"rows": partial(rows, stage)})
        assert ("dead" in made) == (what == "made"), settings
        assert ("events" in made) == (settings == asked[0][0])


def test_what_is_discarded_on_a_url_leaves_no_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A URL whose files only Spark can reach, of any name; nor is a database left."""
    monkeypatch.setattr(inputs, "local", lambda path: None)
    folder = tmp_path / "it's work"
    staging = Staging(spark, f"file://{folder}", Reporter(lambda line: None))
    staging.run("events", {"rows": lambda: spark.range(1)})
    assert (folder / "events").is_dir()
    before = spark.sql("SHOW DATABASES").collect()
    staging.discard()
    assert not folder.exists()
    assert spark.sql("SHOW DATABASES").collect() == before


def test_dirty_archives_are_counted_and_every_good_event_is_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = nasty()
    bad = dirty.write(tmp_path / "archives", events)
    archive = inputs.archive("jsonl", [str(tmp_path / "archives")])
    job = job_of(archive, tmp_path)
    heard = by_spark(spark, job)
    ours = tmp_path / "spark.db"
    shutil.move(heard.built.path, ours)
    assert spark.read.parquet(str(tmp_path / "out" / "rejects")).count() == bad
    plain = by_reference(job)
    told = plain.built
    assert heard.rows("events") == plain.rows("events") == sum(told.statuses.values())
    assert sum(heard.built.rejects.values()) == bad
    assert heard.built.rejects == told.rejects
    assert heard.built.rejects["a line of more than 16 MiB"] == 1
    assert heard.built.rejects[DAMAGED] == len(dirty.DAMAGED_FILES)
    assert heard.built.statuses == told.statuses
    alive = sum(heard.built.statuses.values()) - heard.built.statuses["duplicate"]
    assert alive == len(events)
    equal(ours, Path(told.path))
    (kept,) = (tmp_path / "out" / "rejects").iterdir()
    assert len(kept.read_bytes().splitlines()) == bad


def test_a_damaged_file_ends_a_strict_run_and_is_named(spark: SparkSession, tmp_path: Path) -> None:
    dirty.write(tmp_path / "archives", nasty()[:1])
    archive = inputs.archive("jsonl", [str(tmp_path / "archives")])
    job = job_of(archive, tmp_path)
    strict = msgspec.structs.replace(SETTINGS, strict=True)
    for engine in (by_reference, partial(by_spark, spark)):
        with pytest.raises((InvalidInput, SparkFailed), match=r"damaged|reading file"):
            engine(msgspec.structs.replace(job, settings=strict))


def test_an_archive_without_an_event_has_empty_tables(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("no event\n\n", "utf-8")
    job = job_of(inputs.archive("jsonl", [str(path)]), tmp_path)
    built = by_spark(spark, job).built
    assert set(built.rows.values()) == {0}
    assert built.statuses == {"duplicate": 0}
    assert sum(built.rejects.values()) == 1


def test_what_is_alive_of_an_archive_is_a_bit_for_each_row(spark: SparkSession) -> None:
    """The numbers of rows are far apart: each task that reads has a range of its own."""
    drawn = random.Random(25)
    places = [(task << 33) + row for task in range(3) for row in range(3_000)]
    places += [(5 << 33) + row for row in (32_766, 32_767, 32_768, 32_769, 65_536, 98_305)]
    kept = sorted(drawn.sample(places, len(places) // 3))
    read = spark.createDataFrame([(seq,) for seq in places], "seq long")
    rows = spark.createDataFrame([(seq,) for seq in kept], "seq long")
    bits = query(spark, "bitmaps", rows=rows)
    found = query(spark, "marked", rows=read, bits=bits)
    assert sorted(row.seq for row in found.collect()) == kept
    assert query(spark, "marked", rows=read, bits=bits.limit(0)).count() == 0


def test_signatures_are_checked_where_asked(spark: SparkSession, tmp_path: Path) -> None:
    good, other = nasty()[:2]
    forged = msgspec.structs.replace(good, sig=other.sig)
    path = tmp_path / "a.jsonl"
    path.write_text(f"{forged.to_json()}\n{other.to_json()}\n", "utf-8")
    source = inputs.archive("jsonl", [str(path)])
    read = readers.archives(spark, source, verify=True)
    assert [row.reason for row in readers.rejects(read).collect()] == [
        "the signature does not hold"
    ]
    assert readers.events(readers.archives(spark, source, verify=False)).count() == 2


def relays_of(found: DataFrame) -> set[tuple[str, str | None]]:
    return {(row.id.hex(), row.relay) for row in readers.events(found).collect()}


def test_the_relay_of_an_event_is_that_of_its_folder_or_its_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, two, three = nasty()[:3]
    inner = tmp_path / "lines" / "relay=outer.example" / "relay=wss%3A%2F%2Fa+b.example"
    inner.mkdir(parents=True)
    (inner / "a.jsonl").write_text(f"no event\n\n{one.to_json()}\n", "utf-8")
    (inner.parent / "b.jsonl").write_text(two.to_json(), "utf-8")
    (tmp_path / "lines" / "relay=of a file.jsonl").write_text(three.to_json(), "utf-8")
    archive = inputs.archive("jsonl", [str(tmp_path / "lines")])
    assert relays_of(readers.archives(spark, archive, verify=False)) == {
        (one.id, "wss://a+b.example"),
        (two.id, "outer.example"),
        (three.id, None),
    }

    place = tmp_path / "rows" / "relay=outer.example"
    place.mkdir(parents=True)
    columns = dict(zip(ARCHIVE_COLUMNS, zip(*archive_values([one, two]), strict=True), strict=True))
    rows = pa.table({**columns, "relay": ["inner.example", None]})
    pq.write_table(rows, place / "a.parquet")
    archive = inputs.archive("parquet", [str(tmp_path / "rows")])
    assert relays_of(readers.archives(spark, archive, verify=False)) == {
        (one.id, "inner.example"),
        (two.id, "outer.example"),
    }
