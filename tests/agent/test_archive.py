"""Archives go out of a store and come back the same, in each form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from agent import archive
from agent.cli import cli, run
from nostr_client.errors import InvalidInput
from nostr_client.store.sqlite import SqliteStore
from tests.agent.reindex.nasty import NOW, fill, nasty, opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nostr_client.event import Event

NAMES = {
    "jsonl": "events.jsonl",
    "gzip": "events.jsonl.gz",
    "zstd": "events.jsonl.zst",
    "parquet": "events",
}


async def contents(store: SqliteStore) -> list[Event]:
    return [event async for event in store.export()]


def parts(folder: Path) -> list[str]:
    """What a writer left half."""
    return [path.name for path in folder.iterdir() if ".part" in path.name]


@pytest.mark.parametrize("form", NAMES)
async def test_what_is_exported_comes_back(tmp_path: Path, form: str) -> None:
    target = tmp_path / NAMES[form]
    async with await opened(tmp_path / "one.db") as store:
        await fill(store, nasty())
        before = await contents(store)
        chosen = archive.form_of(target, None)
        assert chosen == form
        assert await archive.export(store.export(), target, chosen) == len(before)
    async with await SqliteStore.open(tmp_path / "two.db", clock=lambda: NOW) as other:
        (source,) = archive.sources([target])
        report, rejects = await archive.import_(other, source)
        assert report.stored == len(before)
        assert not rejects
        assert await contents(other) == before
    assert not parts(tmp_path)


async def test_parquet_is_in_folders_that_others_read_as_columns(tmp_path: Path) -> None:
    async with await opened(tmp_path / "one.db") as store:
        await fill(store, nasty())
        await archive.export(store.export(), tmp_path / "events", "parquet")
        kinds = {event.kind for event in await contents(store)}
    found = ds.dataset(tmp_path / "events", partitioning=None)
    assert set(found.to_table(columns=["kind"])["kind"].to_pylist()) == kinds
    folders = {path.parent.parent.name for path in (tmp_path / "events").rglob("*.parquet")}
    assert folders == {f"kind={kind}" for kind in kinds}


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("events.lz4", None),
        ("events.jsonl.bz2", None),
        ("events.txt", None),
        ("-", None),
        ("events.jsonl", "zstd"),
        ("events.jsonl.gz", "jsonl"),
        ("events.jsonl.gz", "parquet"),
        ("events.lz4", "gzip"),
        ("events", "zstd"),
    ],
)
def test_a_name_that_would_not_be_read_back_is_refused(
    name: str, form: archive.Form | None
) -> None:
    with pytest.raises(InvalidInput, match=f"^{name} is|^{name}: no|store export"):
        archive.form_of(Path(name), form)


def test_a_name_of_any_form_may_have_more_dots() -> None:
    assert archive.form_of(Path("a.b.ndjson"), None) == "jsonl"
    assert archive.form_of(Path("2024.parquet"), None) == "parquet"
    assert archive.form_of(Path("2024.06"), "parquet") == "parquet"
    assert archive.form_of(Path("dump.txt"), "jsonl") == "jsonl"


async def test_an_export_that_ends_early_leaves_nothing(tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[Event]:
        for event in nasty()[:3]:
            yield event
        raise OSError("the disk is gone")

    for name in NAMES.values():
        with pytest.raises(OSError, match="disk"):
            await archive.export(broken(), tmp_path / name, archive.form_of(tmp_path / name, None))
        assert not parts(tmp_path)


async def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    async with await opened(tmp_path / "one.db") as store:
        with pytest.raises(InvalidInput, match="is there"):
            await archive.export(store.export(), tmp_path / "a.jsonl", "jsonl")


def test_the_commands_take_filters_and_tell_what_was_no_event(tmp_path: Path) -> None:
    lines = [event.to_json() for event in nasty()[:20]]
    (tmp_path / "in.jsonl").write_text("\n".join([*lines, "{", *lines]), "utf-8")
    run, store = CliRunner().invoke, str(tmp_path / "s.db")
    done = run(cli, ["archive", "import", str(tmp_path / "in.jsonl"), "--store", store, "--json"])
    told = json.loads(done.stdout)
    assert told["events"] == 40
    assert sum(told["rejected"].values()) == 1
    out = str(tmp_path / "out.jsonl")
    done = run(cli, ["archive", "export", out, "--store", store, "--kind", "7", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["events"] == len(Path(out).read_bytes().splitlines())


@pytest.mark.parametrize("given", [("--filter", '{"limit":3}'), ("--kind", "1", "--limit", "3")])
def test_an_export_has_no_limit(
    tmp_path: Path, given: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["archive", "export", str(tmp_path / "e.jsonl"), *given]) == 2
    assert "no limit" in capsys.readouterr().err
