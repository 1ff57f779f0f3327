"""A program whose extra is not installed says which one it is."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from nostr_client.cli.entry import run_command

WITHOUT = """
import sys
from importlib import import_module

lacking, module, *sys.argv[1:] = sys.argv[1:]

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == lacking:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
import_module(module).main()
"""


@pytest.mark.parametrize(
    ("lacking", "module", "extra", "words"),
    [
        ("prometheus_client", "agent.cli", "agent", ["run", "--once"]),
        ("textual", "tui.cli", "tui", ["--serve"]),
    ],
)
def test_the_extra_is_named(
    tmp_path_factory: pytest.TempPathFactory,
    lacking: str,
    module: str,
    extra: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp(name)))
    command = [sys.executable, "-c", WITHOUT, lacking, module, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1].endswith(f"pip install 'nostr-tally[{extra}]'")
    assert "Traceback" not in done.stderr


def test_what_no_extra_brings_is_a_bug_of_ours() -> None:
    @click.command()
    def broken() -> None:
        raise ModuleNotFoundError("no", name="elsewhere")

    with pytest.raises(ModuleNotFoundError):
        run_command(broken, "broken", [])
