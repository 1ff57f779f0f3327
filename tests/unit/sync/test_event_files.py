"""Exports in every form and back give equal stores; damage, packing, names, and sizes of files."""

from __future__ import annotations

import asyncio
import gzip
import os
import subprocess
import sys
import threading
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nostr_client.cli.app import run
from nostr_client.codecs.event import parse_event
from nostr_client.codecs.private_kinds import is_private
from nostr_client.errors import InvalidEvent, InvalidInput
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.files import event_files
from nostr_client.sync.files.arrow_files import python_values
from nostr_client.sync.files.event_files import form_of, opened, writer
from nostr_client.sync.files.jsonl import import_jsonl
from tests.conformance.store_events import make
from tests.conftest import shared_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nostr_client.codecs.event import Event

NAMES = ("e.jsonl", "e.jsonl.gz", "e.jsonl.zst", "e.parquet", "e.sqlite")

STRANGE = [
    make(1, at=2**53, content="far\x00away \u2028", tags=(("t", "a\x00b"), ("",), ("e", "x", ""))),
    make(2, at=0, content="", tags=()),
    make(3, 30023, tags=(("d", "é"),), content='{"a": "\\\\u0000"}'),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files") / "s.db"


@pytest.fixture(scope="module")
async def held(store: Path) -> list[Event]:
    async with await SqliteStore.open(store) as one:
        with shared_path("data/events.jsonl").open("rb") as file:
            await import_jsonl(one, file)
        await one.save([*STRANGE, make(0, 4, content="private")])
    return await events_of(store)


async def events_of(path: Path) -> list[Event]:
    async with (
        await SqliteStore.open(path, read_only=True) as one,
        aclosing(one.export([])) as all_,
    ):
        return [event async for event in all_]


def client(*words: str | Path) -> None:
    assert run([str(word) for word in words]) == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_round_trip_gives_an_equal_store(
    name: str, store: Path, held: list[Event], tmp_path: Path
) -> None:
    target, everything, other = (tmp_path / one for one in (name, f"all-{name}", "other.db"))
    client("store", "export", everything, "--store", store, "--include-private")
    assert everything.stat().st_mode & 0o077 == 0, "its owner's alone"
    client("store", "import", everything, "--store", other)
    assert asyncio.run(events_of(other)) == held
    client("store", "export", target, "--store", store)
    with opened([target]) as lines:
        found = [parse_event(line) for line in iter(lines.readline, b"")]
    assert found == [one for one in held if not is_private(one)]


@pytest.mark.parametrize("name", NAMES)
def test_filters_choose_and_named_kinds_leave(
    name: str, store: Path, held: list[Event], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, other = tmp_path / name, tmp_path / "other.db"
    client("store", "export", target, "--store", store, "--kind", "4", "--kind", "3")
    client("store", "import", target, "--store", other)
    assert asyncio.run(events_of(other)) == [one for one in held if one.kind in (3, 4)]
    assert "left out" not in capsys.readouterr().err
    client(
        "store",
        "export",
        tmp_path / f"x-{name}",
        "--store",
        store,
        "--author",
        make(0).event.pubkey,
    )
    assert "1 private events were left out" in capsys.readouterr().err


def test_a_target_that_is_there_is_kept(store: Path, held: list[Event], tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_text("mine", "utf-8")
        assert run(["store", "export", str(tmp_path / name), "--store", str(store)]) == 2
        assert (tmp_path / name).read_text("utf-8") == "mine"
    assert {path.name for path in tmp_path.iterdir()} == set(NAMES)


def test_files_of_others_beside_a_target_are_kept(
    store: Path, held: list[Event], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = ("--id", held[0].id, "--include-private", "--store", store)
    mine = [tmp_path / f"{name}.part" for name in NAMES[:-2]] + [tmp_path / "b.metadata.json"]
    for file in (*mine, tmp_path / "e.sqlite.part"):
        file.write_text("mine", "utf-8")
    (tmp_path / "e.parquet.part").mkdir()
    (tmp_path / "e.parquet.part/kept").touch()
    for name in NAMES:
        client("store", "export", tmp_path / name, *one)
    assert run(["store", "export", str(tmp_path / "b.sqlite"), *map(str, one)]) == 2
    assert "b.metadata.json exists" in capsys.readouterr().err
    assert not (tmp_path / "b.sqlite").exists()
    assert {file.read_text("utf-8") for file in mine} == {"mine"}
    assert (tmp_path / "e.parquet.part/kept").exists()


def test_copies_of_one_stem_share_an_equal_description(
    store: Path, held: list[Event], tmp_path: Path
) -> None:
    words = ("--kind", "3", "--store", str(store))
    client("store", "export", tmp_path / "a.sqlite", *words)
    client("store", "export", tmp_path / "a.db", *words)
    private = ["store", "export", str(tmp_path / "a.sqlite3"), "--include-private", *words]
    assert run(private) == 2, "its description has other tables"
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"a.sqlite", "a.db", "a.metadata.json"}


@pytest.mark.parametrize("name", ["e.jsonl.gz", "e.jsonl.zst", "e.sqlite", "parquet"])
def test_stdin_has_any_format_that_is_one_file(name: str, tmp_path: Path) -> None:
    made = make(1, at=1).event
    if name == "e.sqlite":
        with writer(tmp_path / "e.jsonl", "jsonl") as write:
            write(made)
        client("store", "import", tmp_path / "e.jsonl", "--store", tmp_path / "s.db")
        client("store", "export", tmp_path / name, "--store", tmp_path / "s.db")
    else:
        with writer(tmp_path / name, "parquet" if name == "parquet" else form_of(name, None)) as w:
            w(made)
    file = tmp_path / name if name != "parquet" else tmp_path / name / "events-00000.parquet"
    words = ["store", "import", "-", "--store", str(tmp_path / "o.db")]
    with file.open("rb") as stdin:
        done = subprocess.run(
            [sys.executable, "-m", "nostr_client", *words],
            stdin=stdin, capture_output=True, text=True, timeout=50, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "1 of 1 stored\n"), done.stderr


def test_a_dash_is_stdout(
    store: Path, held: list[Event], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["store", "export", "-", "--id", held[0].id, "--include-private", "--store", str(store)]
    done = subprocess.run(
        [sys.executable, "-m", "nostr_client", *words], capture_output=True, timeout=50, check=True
    )
    assert parse_event(done.stdout) == held[0]
    assert list(tmp_path.iterdir()) == []
    assert run([*words, "--format", "sqlite"]) == 2


def test_parquet_has_few_files_of_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_files, "FILE_BYTES", 4_000)
    monkeypatch.setattr(event_files, "ROWS", 10)
    made = [make(n % 3, at=n, content=f"{n}" * 20).event for n in range(95)]
    with writer(tmp_path / "e", "parquet") as write:
        for event in made:
            write(event)
    files = sorted((tmp_path / "e").iterdir())
    assert [file.name for file in files] == [f"events-{n:05}.parquet" for n in range(len(files))]
    assert 1 < len(files) < 10
    with opened([tmp_path / "e"]) as lines:
        found = list(iter(lines.readline, b""))
    assert len(found) == len(made)


def test_parquet_has_columns_that_others_read(
    store: Path, held: list[Event], tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    client("store", "export", tmp_path / "e.parquet", "--store", store)
    table = pq.read_table(tmp_path / "e.parquet")
    assert table.schema.names == [
        "id", "pubkey", "kind", "created_at", "created_ts", "content", "tags", "sig",
    ]  # fmt: skip
    assert str(table.schema.field("created_at").type) == "timestamp[ms, tz=UTC]"
    rows = {row["id"]: row for row in table.to_pylist()}
    far, early = (rows[one.event.id] for one in STRANGE[:2])
    assert (far["created_at"], far["created_ts"]) == (None, 2**53)
    assert early["created_at"].isoformat() == "1970-01-01T00:00:00+00:00"
    assert far["tags"] == [list(tag) for tag in STRANGE[0].event.tags]


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_damaged_file_is_an_error_and_what_came_before_is_saved(
    name: str, store: Path, held: list[Event], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client("store", "export", tmp_path / name, "--store", store)
    whole = tmp_path / name
    file = next(whole.iterdir()) if whole.is_dir() else whole
    raw = file.read_bytes()
    file.write_bytes(raw[: len(raw) // 2])
    capsys.readouterr()
    code = run(["store", "import", str(whole), "--store", str(tmp_path / "o.db")])
    assert code in (1, 2)
    assert "damaged" in capsys.readouterr().err


def test_several_files_of_several_forms_are_one_import(tmp_path: Path) -> None:
    made = [make(n, at=n).event for n in range(4)]
    for name, event in zip(NAMES, made, strict=False):
        if name.endswith("sqlite"):
            continue
        with writer(tmp_path / name, form_of(name, None)) as write:
            write(event)
    with opened([tmp_path / name for name in NAMES[:4]]) as lines:
        assert len(list(iter(lines.readline, b""))) == 4


async def test_progress_ends_at_the_size_of_the_files(
    store: Path, held: list[Event], tmp_path: Path
) -> None:
    """Of each form, and of all together; a packed or counted file has a position on the way."""
    paths = [tmp_path / name for name in NAMES]
    for path in paths:
        words = ["store", "export", str(path), "--store", str(store)]
        assert await asyncio.to_thread(run, words) == 0
    for given in (*([path] for path in paths), paths):
        seen: list[int] = []
        with opened(given) as lines:
            async with await SqliteStore.open(":memory:") as other:
                await import_jsonl(other, lines, lambda *_: seen.append(lines.position()))  # noqa: B023
            assert lines.size == sum(map(bytes_on_disk, given))
        assert seen == sorted(seen)
        assert seen[-1] == lines.size
        assert len(set(seen)) > 4, given
        assert any(0.2 < one / lines.size < 0.8 for one in seen), given


def bytes_on_disk(path: Path) -> int:
    files = path.rglob("*.parquet") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


@pytest.mark.posix("os.mkfifo")
def test_a_pipe_has_no_size(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pipe_of(pipe, b"one\n"), opened([pipe]) as lines:
        assert lines.size is None
        assert lines.readline() == b"one\n"
        assert lines.position() == 0


@contextmanager
def pipe_of(pipe: Path, data: bytes) -> Iterator[None]:
    """Write to a named pipe while the block runs; opening one waits for the other end."""
    writing = threading.Thread(target=pipe.write_bytes, args=(data,))
    writing.start()
    yield
    writing.join()


def test_the_name_says_the_form() -> None:
    forms = {name: form_of(name, None) for name in (*NAMES, "folder")}
    assert list(forms.values()) == ["jsonl", "gzip", "zstd", "parquet", "sqlite", "jsonl"]
    assert form_of("e.jsonl.zst", "jsonl") == "zstd"
    assert form_of("e.anything", "sqlite") == "sqlite"
    with pytest.raises(InvalidInput, match="unknown ending"):
        form_of("e.csv", None)


def test_a_folder_without_parquet_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no Parquet"), opened([tmp_path]):
        pass


def test_a_small_file_that_unpacks_to_much_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"\n" * 2**26, 9))
    with opened([tmp_path / "bomb.gz"]) as lines, pytest.raises(InvalidInput, match="unpacks to"):
        for _ in iter(lambda: lines.readline(2**20), b""):
            pass


def test_columns_of_parquet_read_as_pyarrow_reads_them() -> None:
    texts = [["a", ""], [], ["\x00", None, "é"], ["b"] * 40]
    nested = [[row, ["x"]] for row in texts]
    columns = [
        pa.array(nested, pa.list_(pa.list_(pa.string()))),
        pa.array([*texts, None], pa.list_(pa.string())),
        pa.array([[["a"], None]], pa.list_(pa.list_(pa.string()))),
        pa.array([b"\x00\xff", None], pa.binary()),
        pa.array(["a", None, "b"]),
        pa.array([1, None], pa.int64()),
        pa.array([["a"]], pa.large_list(pa.large_string())),
        pa.array([], pa.list_(pa.list_(pa.string()))),
    ]
    for column in [*columns, *(one.slice(1, 2) for one in columns)]:
        assert python_values(column) == column.to_pylist(), column.type


def test_rows_of_a_foreign_parquet_are_refused_one_by_one(tmp_path: Path) -> None:
    target = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"other": [1, 2, 3]}), target)
    with opened([target]) as lines:
        found = [*iter(lines.readline, b"")]
    assert len(found) == 3
    for line in found:
        with pytest.raises(InvalidEvent):
            parse_event(line)
