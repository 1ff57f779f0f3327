"""The command in a hint fits the installation: a checkout, a wheel, pipx, a tool of uv."""

from __future__ import annotations

import shlex
import sys
from importlib.metadata import Distribution
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nostr_client.errors import installing
from nostr_client.errors.installing import install_command

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]

CHECKOUT = f'{{"url": "{ROOT.as_uri()}", "dir_info": {{"editable": true}}}}'
FOLDER = '{"url": "file:///a%20b", "dir_info": {}}'
WHEEL = '{"url": "file:///w/nostr_tally-1-py3-none-any.whl", "archive_info": {}}'


class Installed(Distribution):
    """A distribution that has `direct_url.json` alone, or nothing: from an index."""

    def __init__(self, direct_url: str | None) -> None:
        self._direct_url = direct_url

    def read_text(self, filename: str) -> str | None:
        return self._direct_url

    def locate_file(self, path: object) -> Path:
        return Path(str(path))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str | None], Path]:
    """Makes this process one that was installed from a source, into an empty prefix."""

    def install(direct_url: str | None) -> Path:
        monkeypatch.setattr(installing, "distribution", lambda name: Installed(direct_url))
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        return tmp_path

    return install


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (CHECKOUT, ["-e", f"{ROOT}[tui]"]),
        (FOLDER, ["/a b[tui]"]),
        (WHEEL, ["nostr-tally[tui] @ file:///w/nostr_tally-1-py3-none-any.whl"]),
        (None, ["nostr-tally[tui]"]),
        ("no JSON", ["nostr-tally[tui]"]),
        ("[]", ["nostr-tally[tui]"]),
    ],
)
@pytest.mark.parametrize("has_pip", [True, False])
def test_an_environment(
    source: str | None,
    words: list[str],
    has_pip: bool,
    installed: Callable[[str | None], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(source)
    monkeypatch.setattr(installing, "find_spec", lambda name: object() if has_pip else None)
    pip = [sys.executable, "-m", "pip", "install"]
    uv = ["uv", "pip", "install", "-p", sys.executable]
    assert shlex.split(install_command("tui")) == [*(pip if has_pip else uv), *words]


@pytest.mark.parametrize(
    ("receipt", "extras"),
    [
        ('[tool]\nrequirements = [{name = "nostr-tally", extras = ["agent"]}]', "agent,tui"),
        ('[tool]\nrequirements = [{name = "other", extras = ["x"]}]', "tui"),
        ("no = [TOML", "tui"),
        ("tool = 5", "tui"),
    ],
)
def test_a_tool_of_uv_keeps_its_extras(
    receipt: str, extras: str, installed: Callable[[str | None], Path]
) -> None:
    (installed(FOLDER) / "uv-receipt.toml").write_text(receipt, "utf-8")
    command = shlex.split(install_command("tui"))
    assert command == ["uv", "tool", "install", "--force", f"/a b[{extras}]"]


@pytest.mark.parametrize(
    ("metadata", "extras"),
    [
        ('{"main_package": {"package_or_url": "/a b[agent, proxy]"}}', "agent,proxy,tui"),
        ('{"main_package": {"package_or_url": "/a b"}}', "tui"),
        ("{", "tui"),
        ("[]", "tui"),
    ],
)
def test_pipx_keeps_its_extras(
    metadata: str, extras: str, installed: Callable[[str | None], Path]
) -> None:
    (installed(FOLDER) / "pipx_metadata.json").write_text(metadata, "utf-8")
    command = shlex.split(install_command("tui"))
    assert command == ["pipx", "install", "--force", f"/a b[{extras}]"]


def test_an_extra_that_this_python_has_no_wheels_for_says_so(
    installed: Callable[[str | None], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(None)
    monkeypatch.setattr(installing, "NEWEST_PYTHON", {"spark": (3, 10)})
    assert install_command("spark").startswith("a Python up to 3.10")
    assert "install" in install_command("tui")
