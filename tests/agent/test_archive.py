"""Archives go out of a store and come back the same, in each form."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from agent.cli import cli, run
from agent.maintenance import archive
from agent.reindex.event_rows import Rejects, archive_values, events_of
from nostr_client.codecs.keys import verify
from nostr_client.errors import InvalidInput
from nostr_client.store.sqlite import SqliteStore
from tests.agent.reindex.nasty import NOW, fill, nasty, opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nostr_client.codecs.event import Event

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
async def test_an_archive_is_its_owners(tmp_path: Path, form: archive.Form) -> None:
    target, before = tmp_path / NAMES[form], os.umask(0o022)
    try:
        async with await opened(tmp_path / "one.db") as store:
            await fill(store, nasty())
            await archive.export(store.export(), target, form)
    finally:
        os.umask(before)
    assert target.stat().st_mode & 0o077 == 0


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
        with pytest.raises(InvalidInput, match="exists"):
            await archive.export(store.export(), tmp_path / "a.jsonl", "jsonl")


def test_the_commands_take_filters_and_tell_what_was_no_event(tmp_path: Path) -> None:
    lines = [event.to_json() for event in nasty()[:20]]
    (tmp_path / "in.jsonl").write_text("\n".join([*lines, "{", *lines]), "utf-8")
    run, store = CliRunner().invoke, str(tmp_path / "s.db")
    done = run(cli, ["archive", "import", str(tmp_path / "in.jsonl"), "--store", store, "--json"])
    told = json.loads(done.stdout)
    assert done.exit_code == 1
    assert told["events"] == 40
    assert sum(told["rejected"].values()) == 1
    out = str(tmp_path / "out.jsonl")
    done = run(cli, ["archive", "export", out, "--store", store, "--kind", "7", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["events"] == len(Path(out).read_bytes().splitlines())


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("garbage\n{}\n", 1, "0 of 2 stored"),
        (f"{nasty()[0].to_json()[:-10]}\n", 1, "0 of 1 stored"),
        (nasty()[0].to_json().replace('"sig":"', '"sig":"00')[:-5] + '"}', 1, "0 of 1 stored"),
        ("", 0, "0 of 0 stored"),
        ("\n\n", 0, "0 of 0 stored"),
        (f"x\n{nasty()[0].to_json()}\n", 1, "1 of 2 stored"),
        (f"{nasty()[0].to_json()}\n" * 2, 0, "1 of 2 stored"),
    ],
)
def test_an_import_that_reads_a_file_in_part_fails(
    tmp_path: Path, text: str, code: int, said: str
) -> None:
    (tmp_path / "in.jsonl").write_text(text, "utf-8")
    given = ["archive", "import", str(tmp_path / "in.jsonl"), "--store", str(tmp_path / "s.db")]
    done = CliRunner().invoke(cli, given)
    assert (done.exit_code, done.stdout.strip()) == (code, said)
    if code == 0 and "1 of" in said:  # what the store has already is an event too
        assert CliRunner().invoke(cli, given).exit_code == 0


async def one_store(path: Path, event: Event, target: Path | None = None) -> None:
    """A store of one event, and an archive of it by kind."""
    async with await opened(path) as store:
        await store.save([verify(event)])
        if target is not None:
            await archive.export(store.export(), target, "parquet")


def test_of_a_folder_what_is_named_as_an_archive_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mixed"
    (folder / "deep").mkdir(parents=True)
    events = nasty()[:3]
    asyncio.run(one_store(folder / "store.db", events[0]))
    (folder / "notes.txt").write_text("no event\n")
    command = ["archive", "import", str(folder), "--store", str(tmp_path / "s.db")]
    assert run(command) == 2
    assert "has no archive in it" in capsys.readouterr().err
    assert not (tmp_path / "s.db").exists()
    (folder / "deep" / "a.jsonl").write_text(events[0].to_json(), "utf-8")
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(events[1].to_json().encode()))
    asyncio.run(one_store(tmp_path / "more.db", events[2], folder / "by-kind"))
    assert run([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["lines"], told["rejected"]) == (3, {})


def test_an_export_has_no_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--filter", '{"limit":3}')
    assert run(["archive", "export", str(tmp_path / "e.jsonl"), *given]) == 2
    assert "no limit" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["gzip", "zstd"])
async def test_a_small_archive_that_unpacks_to_much_is_refused_after_its_events(
    tmp_path: Path, form: str
) -> None:
    whole, bomb = tmp_path / NAMES[form], tmp_path / f"bomb-{NAMES[form]}"
    async with await opened(tmp_path / "one.db") as store:
        await fill(store, nasty())
        before = await contents(store)
        await archive.export(store.export(), whole, archive.form_of(whole, None))
    blank = b"\n" * 63_000_000
    packed = (
        gzip.compress(blank) if form == "gzip" else pa.Codec("zstd").compress(blank).to_pybytes()
    )
    bomb.write_bytes(whole.read_bytes() + packed)
    async with await SqliteStore.open(tmp_path / "two.db", clock=lambda: NOW) as other:
        (source,) = archive.sources([bomb])
        with pytest.raises(InvalidInput, match="100 times its size"):
            await archive.import_(other, source)
        assert await contents(other) == before


SMALL, LARGE = nasty()[0], 1_000_000
BOMBS = {
    "rows": (archive_values([SMALL]) * 400_000, {}),
    "one value": ([(*archive_values([SMALL])[0][:5], "x" * 100 * LARGE, b"")], {}),
    "one dictionary": (
        [(*archive_values([SMALL])[0][:5], "x" * 8 * LARGE, b"")] * 60,
        {"dictionary_pagesize_limit": 100 * LARGE},
    ),
    "another column": (
        [(b"x" * 8 * LARGE, *archive_values([SMALL])[0][1:])] * 60,
        {"dictionary_pagesize_limit": 100 * LARGE},
    ),
}


POOLS: list[pa.MemoryPool] = []
"""Pools of these tests, for as long as the process lives: a batch that the garbage collector frees
later is freed by the pool that it came from, and pyarrow does not keep that one alive."""


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_parquet_file_that_unpacks_to_much_is_refused(tmp_path: Path, bomb: str) -> None:
    """Reading stops before the rest is unpacked; Arrow's memory shows it."""
    rows, options = BOMBS[bomb]
    file = tmp_path / "in.parquet"
    columns = map(list, zip(*rows, strict=True))
    table = pa.table(list(columns), schema=archive.archive_schema())
    pq.write_table(table, file, compression="zstd", **options)
    assert file.stat().st_size < LARGE
    pool, rejects = pa.proxy_memory_pool(pa.default_memory_pool()), Rejects()
    POOLS.append(pool)
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(InvalidInput, match="unpacks to more than 100 times its size"):
            list(events_of(archive.sources([file])[0], False, rejects))
    finally:
        pa.set_memory_pool(before)
    assert sum(rejects.reasons.values()) < len(rows)
    assert pool.max_memory() < 50 * LARGE


@pytest.mark.parametrize("kept", [0.99, 0.5, 0.0])
def test_a_damaged_parquet_file_is_refused(tmp_path: Path, kept: float) -> None:
    file = tmp_path / "in.parquet"
    columns = map(list, zip(*archive_values(nasty()), strict=True))
    pq.write_table(pa.table(list(columns), schema=archive.archive_schema()), file)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(InvalidInput, match=r"in\.parquet is damaged"):
        list(events_of(archive.sources([file])[0], False, Rejects()))


def test_no_bit_of_a_parquet_file_ends_the_process(tmp_path: Path) -> None:
    """pyarrow ends it where it looks at damaged statistics of a column."""
    whole = tmp_path / "whole.parquet"
    columns = map(list, zip(*archive_values(nasty()), strict=True))
    pq.write_table(pa.table(list(columns), schema=archive.archive_schema()), whole)
    code = """
import random, sys
from pathlib import Path
from agent.maintenance import archive
from agent.reindex.event_rows import Rejects, events_of
from nostr_client.errors import InvalidInput
from nostr_client.sync.files.event_files import opened
whole, rand, refused = Path(sys.argv[1]).read_bytes(), random.Random(7), 0
for n in range(400):
    data = bytearray(whole)
    for _ in range(3):
        data[rand.randrange(0 if n % 2 else len(data) - 900, len(data))] ^= 1 << rand.randrange(8)
    file = Path(sys.argv[2])
    file.write_bytes(data)
    for read in (
        lambda: list(events_of(archive.sources([file])[0], False, Rejects())),
        lambda: [*iter(opened([file]).__enter__().readline, b"")],
    ):
        try:
            read()
        except InvalidInput:
            refused += 1
print(refused)
"""
    run = subprocess.run(
        [sys.executable, "-c", code, str(whole), str(tmp_path / "bent.parquet")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    assert int(run.stdout) > 400
