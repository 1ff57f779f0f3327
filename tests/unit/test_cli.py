"""The command tree: lazy, quiet, and with exit codes that mean something."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest

from nostr_client.cli import app, entry
from nostr_client.cli.entry import CommandEntry, LazyGroup
from nostr_client.errors import (
    DeadlineExceeded,
    InvalidKey,
    NetworkError,
    NostrTallyError,
    StoreError,
)


def run_cli(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nostr_client", *args]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=30, check=False
    )


def test_help_lists_every_command_and_imports_none() -> None:
    code = (
        "import json, sys; from nostr_client.cli.app import run; code = run(['--help']); "
        "print(); print(json.dumps([code, sorted(sys.modules)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    exit_code, modules = json.loads(done.stdout.splitlines()[-1])
    assert exit_code == 0
    for name in app.COMMANDS:
        assert f"\n  {name} " in done.stdout
    assert not {"aiohttp", "coincurve", "numpy", "sqlite3", "rich"} & set(modules)


def test_every_entry_of_the_table_is_a_command_with_help() -> None:
    for name in app.COMMANDS:
        command = app.cli.get_command(click.Context(app.cli), name)
        assert command is not None
        assert command.help


def test_a_lazy_group_still_holds_ordinary_commands() -> None:
    group = LazyGroup("g", entries={"completion": app.COMMANDS["completion"]})
    group.add_command(click.Command("plain", help="An ordinary one."))
    ctx = click.Context(group)
    assert group.list_commands(ctx) == ["completion", "plain"]
    assert "An ordinary one." in group.get_help(ctx)


def test_an_entry_that_names_no_command_is_a_bug_of_ours() -> None:
    group = LazyGroup("g", entries={"x": CommandEntry("nostr_client.cli.entry:OK", "x")})
    with pytest.raises(TypeError, match="is not a click command"):
        group.get_command(click.Context(group), "x")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidKey("bad"), 2),
        (NetworkError("gone", relay="ws://a/"), 3),
        (DeadlineExceeded("late"), 124),
        (StoreError("locked"), 1),
        (NostrTallyError("other"), 1),
        (OSError(13, "Permission denied", "/x"), 1),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (click.UsageError("what\nis this"), 2),
    ],
)
def test_errors_become_one_line_and_an_exit_code(
    error: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def boom(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(app.cli, "main", boom)
    assert app.run([]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("nostr-client: ")
    assert err.count("\n") == 1


def test_bugs_are_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def boom(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(app.cli, "main", boom)
    with pytest.raises(ZeroDivisionError):
        app.run([])


@pytest.mark.parametrize("args", [["no-such-command"], ["--no-such-option"], ["completion", "x"]])
def test_wrong_usage_is_one_line_and_exit_code_2(args: list[str]) -> None:
    done = run_cli(*args)
    assert done.returncode == entry.USAGE
    assert done.stdout == ""
    assert done.stderr.startswith("nostr-client: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_code_is_printed(shell: str) -> None:
    done = run_cli("completion", shell)
    assert done.returncode == 0
    assert "_NOSTR_CLIENT_COMPLETE" in done.stdout


def test_version_is_data() -> None:
    done = run_cli("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("nostr-client, version ")


def test_a_reader_that_leaves_early_gets_no_traceback() -> None:
    command = f"{sys.executable} -m nostr_client completion bash | true"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=30, check=False
    )
    assert "Traceback" not in done.stderr
