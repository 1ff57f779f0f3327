"""What the plain engine leaves of archives is what Spark leaves: tables of Parquet."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agent.reindex import inputs, parquet, reference, run
from agent.reindex.inputs import Settings
from agent.reindex.parquet import COLUMNS
from agent.reindex.protocol import LogText, from_line
from agent.reindex.reporter import Reporter
from agent.reindex.single import run_job
from agent.reindex.spark import groups, numeric
from nostr_client.errors import InvalidInput
from nostr_client.store.tombstones import row_of
from tests.agent.reindex.nasty import HOT, NOW, URLS, nasty, write_archive

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nostr_client.codecs.event import Event


EVENTS = nasty()
"""Once: a signature within an event is another one each time."""


def rebuilt(folder: Path) -> list[Any]:
    """What a rebuild of an archive into `out` said."""
    source = inputs.archive("jsonl", [str(write_archive(folder / "a.jsonl", EVENTS))])
    job, _ = run.make_job(
        source, engine="reference", out=folder / "out", urls=URLS, hot=HOT, now=NOW
    )
    said: list[Any] = []
    run_job(job, Reporter(lambda line: said.append(from_line(line))))
    return said


def table(folder: Path, name: str) -> pa.Table:
    assert (folder / "out/tables" / name / "_SUCCESS").is_file()
    (file,) = (folder / "out/tables" / name).glob("*.parquet")
    return pq.read_table(file)


class Rows:
    """Events, to be read as often as an engine likes."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events

    def __call__(self) -> Any:
        return map(row_of, self._events)


def test_every_table_is_there_row_for_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "CHUNK", 7)
    rebuilt(tmp_path)
    counted = reference.from_archive(Rows(EVENTS), Settings(now=NOW, urls=URLS, hot=HOT))
    for name, columns in COLUMNS.items():
        found = table(tmp_path, name)
        got = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
        if name == "fingerprint":
            got = [(day, events, numeric.number_of(tuple(limbs))) for day, events, *limbs in got]
        else:
            assert tuple(found.schema.names) == columns
        if name != "status":  # the archive has each event twice, some lines of it
            assert sorted(got) == sorted(counted.rows(name)), name
    assert table(tmp_path, "about").to_pylist() == [{"as_of": NOW, "hot": HOT}]


def test_the_columns_are_those_of_spark(tmp_path: Path) -> None:
    rebuilt(tmp_path)
    for name, schema in (
        ("hot", groups.HOT_ARROW),
        ("hot_author", groups.PAIRS_ARROW),
        ("fingerprint", numeric.SUMS_ARROW),
    ):
        assert table(tmp_path, name).schema.equals(schema), name


def test_tables_of_before_go_where_none_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuilt(tmp_path)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        said = rebuilt(tmp_path)
    (told,) = [one.text for one in said if isinstance(one, LogText)]
    assert "[parquet]" in told
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"index.db"}
    assert not list((tmp_path / "out").glob("tables*"))


def test_an_end_in_the_middle_leaves_the_tables_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuilt(tmp_path)
    before = table(tmp_path, "hot")

    def ended(row: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(parquet, "_limbs", ended)
    with pytest.raises(KeyboardInterrupt):
        rebuilt(tmp_path)
    assert table(tmp_path, "hot").equals(before)
    assert not list((tmp_path / "out").glob("tables.*"))


def test_where_the_tables_go_to_a_url_spark_takes_them(tmp_path: Path) -> None:
    source = inputs.archive("jsonl", [str(write_archive(tmp_path / "a.jsonl", EVENTS[:3]))])
    job, _ = run.make_job(source, out="s3a://bucket/tables")
    assert job.engine == "spark"
    with pytest.raises(InvalidInput, match="only Spark"):
        run.make_job(source, engine="reference", out="s3a://bucket/tables")
