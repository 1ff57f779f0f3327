"""What people mistype: one clear line on stderr, exit code 2, and no traceback."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import subprocess
import sys
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from nostr_client.cli import app, entry
from nostr_client.cli.entry import run_program
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.nip19 import PublicKey
from tests.conformance.store_events import make

if TYPE_CHECKING:
    from pathlib import Path

NPUB = PublicKey(sha256(b"target").hexdigest()).encode()
RELAY = ["--relay", "ws://127.0.0.1:9"]


@pytest.mark.parametrize(
    "args",
    [
        ["count", "followers", "npub1nonsense", *RELAY],
        ["count", "followers", NPUB[:-1] + "q", *RELAY],
        ["count", "reactions", NPUB, *RELAY],
        ["count", "followers", *RELAY],
        ["count", "dislikes", NPUB, *RELAY],
        ["count", *RELAY],
        ["count", "--filter", "{", *RELAY],
        ["count", "--filter", "[]", *RELAY],
        ["count", "--filter", '{"kinds":["x"]}', *RELAY],
        ["count", "--filter", '{"kinds":[]}', *RELAY],
        ["count", "--filter", '{"kinds":[1]}', "followers", NPUB, *RELAY],
        ["count", "followers", NPUB],
        ["count", "followers", NPUB, "--relay", "gopher://x"],
        ["count", "followers", NPUB, "--relay", "wss://"],
        ["count", "followers", NPUB, "--relay", "ws://a:99999"],
        ["count", "followers", NPUB, *RELAY, "--timeout", "0"],
        ["count", "followers", NPUB, *RELAY, "--timeout", "nan"],
        ["count", "followers", NPUB, *RELAY, "--timeout", "inf"],
        ["count", "followers", NPUB, *RELAY, "--trusted", "gopher://x"],
        ["req", "--kind", "1"],
        ["req", *RELAY],
        ["req", "--kind", "70000", *RELAY],
        ["req", "--author", "nobody", *RELAY],
        ["req", "--tag", "e", *RELAY],
        ["req", "--tag", "long=1", *RELAY],
        ["req", "--filter", "nope", *RELAY],
        ["publish", *RELAY],
        ["publish", "--content", "x", *RELAY],
        ["publish", "--content", "x"],
        ["relay", "show", "gopher://x"],
    ],
    ids=" ".join,
)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    args: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOSTR_TALLY_RELAYS", "")
    monkeypatch.delenv("NOSTR_TALLY_KEY", raising=False)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"no event")))
    assert app.run(args) == entry.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("nostr-client: ")
    assert err.count("\n") == 1


def test_a_file_that_cannot_be_read_or_made_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    none, there = str(tmp_path / "none"), tmp_path / "there"
    there.write_text("mine")
    missing = f"nostr-client: {none} cannot be read: No such file or directory\n"
    for args in (
        ["publish", none, *RELAY],
        ["publish", "--content", "x", "--key-file", none, *RELAY],
        ["key", "show", "--key-file", none],
        ["req", "--kind", "1", "--key-file", none, *RELAY],
    ):
        assert app.run(args) == entry.USAGE
        assert capsys.readouterr() == ("", missing)
    assert app.run(["key", "gen", "--output", str(there)]) == entry.USAGE
    assert capsys.readouterr() == ("", f"nostr-client: {there} exists; choose another name\n")
    assert there.read_text() == "mine"
    deep = str(tmp_path / "none" / "key")
    assert app.run(["key", "gen", "--output", deep]) == entry.FAILURE
    assert capsys.readouterr() == ("", f"nostr-client: {deep}: No such file or directory\n")


def test_a_store_to_send_from_is_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    none = tmp_path / "none.db"
    args = ["sync", "run", "--store", str(none), *RELAY, "--filter", "{}", "--direction", "up"]
    assert app.run(args) == entry.FAILURE
    assert capsys.readouterr() == ("", f"nostr-client: no store at {none}\n")
    assert not list(tmp_path.iterdir())


PROGRAMS = {
    "nostr-client": "nostr_client",
    "nostr-agent": "agent",
    "nostr-tui": "tui",
}


def run_in_a_shell(line: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """A line for bash, whose Python buffers its output as it does for users."""
    program, _, rest = line.partition(" ")
    users = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        f"{shlex.quote(sys.executable)} -m {PROGRAMS[program]} {rest}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        timeout=60,
        env=users | {"NOSTR_TALLY_KEY": "01" * 32} | env,
        check=False,
    )


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("nostr-client publish - -r ws://127.0.0.1:9 <&-", 2),
        ("nostr-client key show --key-file - <&-", 2),
        ("nostr-client key show --json >/dev/full", 1),
        ("nostr-client key show >&-", 0),
        ("nostr-client store export --store /nonexistent/store.db >&-", 1),
        ("nostr-client count followers nobody -r ws://127.0.0.1:9 2>/dev/full", 2),
        ("nostr-client count followers nobody -r ws://127.0.0.1:9 >&- 2>&- <&-", 2),
        ("nostr-client --help >/dev/full", 1),
        ("nostr-agent --version >/dev/full", 1),
        ("nostr-agent check --example >/dev/full", 2),
        ("nostr-tui --help >/dev/full", 1),
    ],
)
def test_closed_and_full_streams_are_no_traceback(line: str, code: int) -> None:
    done = run_in_a_shell(line)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    assert len(done.stderr.splitlines()) <= 1


def test_a_reader_that_left_is_told_by_the_exit_code_alone() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "nostr_client", "--help"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_head_ends_a_command_with_exit_code_1_and_no_message(tmp_path: Path) -> None:
    """As docs/reference/cli.md says; the output is more than a pipe holds."""
    lines = "".join(f"{make(at=n, content='x' * 10_000).event.to_json()}\n" for n in range(50))
    (tmp_path / "e.jsonl").write_text(lines, "utf-8")
    store = shlex.quote(str(tmp_path / "s.db"))
    assert (
        app.run(["store", "import", str(tmp_path / "e.jsonl"), "--store", str(tmp_path / "s.db")])
        == 0
    )
    done = run_in_a_shell(
        f"nostr-client store export --store {store} | head -c 1; exit ${{PIPESTATUS[0]}}"
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, b"{", b"")


def test_what_a_task_group_fails_by_is_one_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*errors: Exception) -> None:
        raise ExceptionGroup("tasks", [ExceptionGroup("inner", errors)])

    full = OSError(errno.ENOSPC, "no space")
    assert run_program("x", lambda: fail(full, BrokenPipeError())) == entry.FAILURE
    assert capsys.readouterr().err == "x: no space\n"
    with pytest.raises(ExceptionGroup):
        run_program("x", lambda: fail(full, ValueError()))


def test_a_terminal_of_few_letters_is_no_traceback() -> None:
    line = f"nostr-client count followers {NPUB} -r ws://пример.invalid"
    done = run_in_a_shell(line, PYTHONIOENCODING="ascii")
    assert done.returncode == 3
    assert rb"ws://\u043f\u0440" in done.stdout
    told = run_in_a_shell(f"{line} --json", PYTHONIOENCODING="ascii")
    assert json.loads(told.stdout)["relays"][0]["relay"] == "ws://пример.invalid"


SIGNS = "1–3 ≥ 2 ≤ 4 ▁▄█ a… 2 × x"


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("ascii", b"1-3 >= 2 <= 4 _-# a... 2 x x \\u044f"),
        ("latin-1", b"1-3 >= 2 <= 4 _-# a... 2 \xd7 x \\u044f"),
        ("utf-8", f"{SIGNS} я".encode()),
    ],
)
def test_signs_that_an_encoding_lacks_are_plain_ones(encoding: str, expected: bytes) -> None:
    say = f"rich.print({SIGNS + ' я'!r})"  # click itself takes UTF-8 for a stream of ASCII
    code = f"import rich, nostr_client.cli.entry as entry; entry.run_program('x', lambda: {say})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        timeout=60,
        env=os.environ | {"PYTHONIOENCODING": encoding},
        check=True,
    )
    assert done.stdout.splitlines() == [expected]


def test_events_are_data_in_every_encoding(tmp_path: Path) -> None:
    text = "– é \U0001f600 ▁"
    event = KeySigner(b"\1" * 32).sign_now(EventTemplate(kind=1, content=text, created_at=1)).event
    file = tmp_path / "in.jsonl"
    file.write_text(event.to_json(), "utf-8")
    store = f"--store {tmp_path / 's.db'}"
    run_in_a_shell(f"nostr-client store import {file} {store}")
    done = run_in_a_shell(f"nostr-client store query --kind 1 {store}", PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout)["content"] == event.content
