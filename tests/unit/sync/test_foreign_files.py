"""A file of which no line can be read is refused as a whole, with a command that converts it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import shlex
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from agent.reindex import inputs
from nostr_client.cli.app import run
from nostr_client.errors import InvalidInput
from nostr_client.store.event_lines import foreign_form
from tests.conformance.store_events import make
from tests.conftest import require_tool
from tests.unit.sync.test_event_files import pipe_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LINES = "".join(f"{make(n, at=n).event.to_json()}\n" for n in range(3))


def in_tar(data: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("folder/events.jsonl")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def in_zip(data: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("events.jsonl", data)
    return packed.getvalue()


def in_zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, "zstd", asbytes=True)
    return packed


def utf_16(encoding: str) -> Callable[[bytes], bytes]:
    return lambda data: data.decode().encode(encoding)


FORMS: dict[str, tuple[str, tuple[Callable[[bytes], bytes], ...]]] = {
    "e.jsonl.xz": ("packed with xz", (lzma.compress,)),
    "e.jsonl.bz2": ("packed with bzip2", (bz2.compress,)),
    "e.zip": ("a zip archive", (in_zip,)),
    "e.tar": ("a tar archive", (in_tar,)),
    "e.tar.gz": ("a tar archive", (in_tar, gzip.compress)),
    "e.tar.zst": ("a tar archive", (in_tar, in_zstd)),
    "marked.jsonl": ("text in UTF-16", (utf_16("utf-16"),)),
    "of windows.jsonl": ("text in UTF-16", (utf_16("utf-16-le"),)),
    "e.utf16be": ("text in UTF-16", (utf_16("utf-16-be"),)),
    "e.utf16.gz": ("text in UTF-16", (utf_16("utf-16"), gzip.compress)),
}


def made(folder: Path, name: str) -> Path:
    data = LINES.encode()
    for change in FORMS[name][1]:
        data = change(data)
    (folder / name).write_bytes(data)
    return folder / name


@pytest.mark.parametrize("name", FORMS)
def test_the_error_names_the_form_and_a_command_that_imports_the_file(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, store = made(tmp_path, name), tmp_path / "s.db"
    assert run(["store", "import", str(file), "--store", str(store)]) == 2
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert f"{name} is {FORMS[name][0]}, which import does not read: use `" in told.err
    (command,) = re.findall("`(.+)`", told.err)
    for part in command.split("|")[:-1]:
        require_tool(shlex.split(part)[0])
    ours = shlex.join([sys.executable, "-m", "nostr_client"])
    assert " | nostr-client store import -" in command
    done = subprocess.run(
        f"{command.replace('nostr-client', ours, 1)} --store {shlex.quote(str(store))}",
        shell=True, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "3 of 3 stored\n"), done.stderr


@pytest.mark.parametrize("name", ["e.jsonl.xz", "e.tar.gz"])
def test_stdin_has_no_name_to_write_into_the_command(name: str, tmp_path: Path) -> None:
    words = ["store", "import", "-", "--store", str(tmp_path / "s.db")]
    with made(tmp_path, name).open("rb") as stdin:
        done = subprocess.run(
            [sys.executable, "-m", "nostr_client", *words],
            stdin=stdin, capture_output=True, text=True, timeout=50, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert " FILE | " in done.stderr


def test_what_came_before_is_kept_or_nothing_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The begin of a file shows before the import; that of a packed one as it is unpacked."""
    good, store = tmp_path / "good.jsonl", tmp_path / "s.db"
    good.write_text(LINES, "utf-8")
    for name, stored in (("e.jsonl.xz", ""), ("e.tar.gz", "3 of 3 stored\n")):
        file = made(tmp_path, name)
        assert run(["store", "import", str(good), str(file), "--store", str(store)]) == 2
        assert capsys.readouterr().out == stored


@pytest.mark.parametrize("name", ["e.jsonl.xz", "e.tar", "marked.jsonl"])
def test_an_archive_of_the_agent_is_refused_alike(name: str, tmp_path: Path) -> None:
    file = made(tmp_path, name)
    with pytest.raises(InvalidInput, match=f"is {FORMS[name][0]}"):
        inputs.archive("jsonl", [str(file)])
    inputs.archive("parquet", [str(file)])


@pytest.mark.posix("os.mkfifo")
def test_a_pipe_of_an_archive_is_not_read_before_its_time(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert inputs.archive("jsonl", [str(tmp_path / "pipe")]).paths


@pytest.mark.posix("os.mkfifo")
@pytest.mark.parametrize("pack", [gzip.compress, in_zstd])
def test_a_named_pipe_has_any_packing_that_stdin_has(
    pack: Callable[[bytes], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pipe_of(pipe, pack(LINES.encode())):
        assert run(["store", "import", str(pipe), "--store", str(tmp_path / "s.db")]) == 0
    assert capsys.readouterr().out == "3 of 3 stored\n"


@pytest.mark.parametrize(
    ("begins", "what"),
    [
        (b"\x04\x22\x4d\x18....", "packed with lz4"),
        (b"\x1f\x9d\x90", "packed with compress"),
        (b"\x1f\x8b", None),
        (b"", None),
        (b'{"id":"' + b"a" * 250 + b'ustar"}', None),
        (b"[\n" + b" " * 255 + b"ustar", None),
    ],
)
def test_forms_by_their_first_bytes(begins: bytes, what: str | None) -> None:
    found = foreign_form(begins)
    assert (found and found.what) == what
