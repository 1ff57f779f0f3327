"""An archive that grows has the tables of one that was there at once; old files stay unread."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.parquet as pq
import pytest

from agent.reindex import inputs
from agent.reindex.spark import readers
from agent.reindex.spark.queries import ANALYSTS
from nostr_client.codecs import kinds
from nostr_client.store.tombstones import row_of, tombstones
from tests.agent.reindex import looking
from tests.agent.reindex.nasty import NOW, URLS, nasty, write_archive
from tests.agent.reindex.rebuilding import SETTINGS, by_spark, further, job_of
from tests.agent.reindex.rulings import drawn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from agent.reindex.protocol import Job
    from nostr_client.codecs.event import Event
    from tests.agent.reindex.rebuilding import Heard

PARTS = 3


def events() -> list[Event]:
    found = [*nasty(), *drawn(25, 400, 12), *further()]
    return list({event.id: event for event in found}.values())


def parts(seed: int, events: Sequence[Event]) -> list[list[Event]]:
    """The events in random parts; some are in two of them."""
    drawn = random.Random(seed)
    found: list[list[Event]] = [[] for _ in range(PARTS)]
    for event in events:
        for place in drawn.sample(range(PARTS), 2 if drawn.random() < 0.1 else 1):
            found[place].append(event)
    return found


def tables(job: Job, heard: Heard) -> dict[str, Any]:
    """All that a run made, in a form in which runs can be equal: the bytes of a sketch depend on
    the order in which people came."""
    found: dict[str, Any] = dict(looking.of_file(Path(heard.built.path)))
    for name in (*ANALYSTS, "status", "fingerprint", "kinds"):
        table = pq.read_table(f"{job.out}/tables/{name}")
        rows = table.drop_columns([one for one in ("sketch",) if one in table.column_names])
        found[name] = sorted(repr(sorted(row.items())) for row in rows.to_pylist())
    return found


@pytest.mark.parametrize("seed", range(5))
def test_parts_have_what_concerns_events_before_and_after_them(seed: int) -> None:
    """Else the splits would show nothing: deletions and newer versions come in both orders, and
    what has expired in every part."""
    made = events()  # once: requests of zaps are signed at random
    place = {e.id: at for at, part in reversed([*enumerate(parts(seed, made))]) for e in part}
    rows = list(map(row_of, made))
    blocked = tombstones(lambda: rows, URLS, NOW)
    status = {row.id.hex(): blocked.status(row).value for row in rows}
    deletions = [
        (place[event.id], place[one])
        for event in made
        if event.kind == kinds.DELETION
        for one in event.tag_values("e")
        if status.get(one) == "deleted"
    ]
    address = {row.id.hex(): (row.pubkey, row.kind, row.d) for row in rows if row.d is not None}
    newest = {at: place[one] for one, at in address.items() if status[one] == "stored"}
    versions = [
        (newest[at], place[one])
        for one, at in address.items()
        if status[one] == "superseded" and at in newest
    ]
    for pairs in (deletions, versions):
        assert any(one < other for one, other in pairs)
        assert any(one > other for one, other in pairs)
    assert {place[one] for one, said in status.items() if said == "expired"} == set(range(PARTS))


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 5))]
)
def test_increments_equal_one_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    split = parts(seed, events())
    archive = tmp_path / "archive"
    archive.mkdir()
    asked: list[list[str]] = []
    read = readers.archives

    def reading(spark: SparkSession, source: inputs.Input, *rest: Any, **more: Any) -> Any:
        asked.append([file.name for file in inputs.files(source)])
        return read(spark, source, *rest, **more)

    monkeypatch.setattr(readers, "archives", reading)
    for at, part in enumerate(split):
        write_archive(archive / f"{at}.jsonl", part)
        job = job_of(inputs.archive("jsonl", [str(archive)]), tmp_path)
        grown = by_spark(spark, job)
    assert asked == [[f"{at}.jsonl"] for at in range(PARTS)]
    whole = msgspec.structs.replace(job, work=str(tmp_path / "new"), out=str(tmp_path / "whole"))
    once = by_spark(spark, whole)
    assert len(asked.pop()) == PARTS
    assert tables(job, grown) == tables(whole, once)
    assert grown.built.statuses == once.built.statuses
    assert grown.rows("events") == once.rows("events") == 2 * sum(map(len, split))


@pytest.mark.xdist_group("spark")
def test_a_file_that_is_gone_takes_its_events_with_it(spark: SparkSession, tmp_path: Path) -> None:
    """And a run with other settings does not take what this one read."""
    some = events()[:40]
    for at, part in enumerate((some[:30], some[30:])):
        (tmp_path / "archive").mkdir(exist_ok=True)
        write_archive(tmp_path / "archive" / f"{at}.jsonl", part)
    found = []
    for settings in (SETTINGS, SETTINGS, msgspec.structs.replace(SETTINGS, strict=True)):
        job = job_of(inputs.archive("jsonl", [str(tmp_path / "archive")]), tmp_path)
        found.append(by_spark(spark, msgspec.structs.replace(job, settings=settings)))
        (tmp_path / "archive" / "0.jsonl").unlink(missing_ok=True)
    assert [one.rows("events") for one in found] == [80, 20, 20]
    assert [one.states()["events"] for one in found] == ["done"] * 3
