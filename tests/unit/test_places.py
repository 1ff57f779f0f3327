"""Where files live: the platform's folders, and what overrides them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nostr_client import paths
from nostr_client.errors import InvalidInput
from tests.rights import secret_file


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NOSTR_TALLY_STORE", "STATE_DIRECTORY", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("DATA", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


@pytest.mark.skipif(sys.platform != "linux", reason="XDG folders are Linux's")
def test_xdg_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert paths.store_path() == tmp_path / "data/nostr-tally/store.db"
    assert paths.config_path() == tmp_path / "config/nostr-tally/agent.toml"
    assert paths.token_path() == tmp_path / "state/nostr-tally/token"
    assert paths.addresses_path() == tmp_path / "state/nostr-tally/agent.json"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    assert paths.addresses_path() == tmp_path / "run/nostr-tally/agent.json"


@pytest.mark.skipif(sys.platform != "linux", reason="XDG folders are Linux's")
@pytest.mark.parametrize("is_file", [False, True])
def test_a_wrong_runtime_folder_is_passed_over_in_silence(tmp_path: Path, is_file: bool) -> None:
    """In a new process: platformdirs warns once in each."""
    wrong = tmp_path / "run"
    if is_file:
        wrong.touch()
    else:
        wrong.mkdir(0o755)
        wrong.chmod(0o755)
    shown = subprocess.run(
        [sys.executable, "-c", "from nostr_client import paths; print(paths.addresses_path())"],
        env=os.environ | {"XDG_RUNTIME_DIR": str(wrong)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert shown.stderr == ""
    assert shown.stdout.strip() == str(tmp_path / "state/nostr-tally/agent.json")


def test_the_users_own_store_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("NOSTR_TALLY_STORE", "~/mine.db")
    assert paths.store_path() == Path.home() / "mine.db"


def test_systemd_keeps_all_in_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", f"{tmp_path}/a:{tmp_path}/b")
    found = {paths.store_path(), paths.token_path(), paths.addresses_path()}
    assert {path.parent for path in found} == {tmp_path / "a"}


def test_nothing_is_created(tmp_path: Path) -> None:
    paths.store_path()
    paths.token_path()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o660])
def test_a_secret_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = secret_file(tmp_path / "secret", " s3cret\n")
    assert paths.read_secret(path) == "s3cret"
    path.chmod(mode)
    for read in (paths.read_secret, paths.check_secret_file):
        with pytest.raises(InvalidInput, match="can be read by others"):
            read(path)


def test_a_secret_may_come_through_a_pipe(tmp_path: Path) -> None:
    """As a shell's `<(…)` gives it: a pipe has no file that somebody else could open."""
    end, other = os.pipe()
    os.write(other, b"s3cret\n")
    os.close(other)
    try:
        assert paths.read_secret(Path(f"/dev/fd/{end}")) == "s3cret"
    finally:
        os.close(end)


def test_a_secret_that_is_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is empty"):
        paths.read_secret(secret_file(tmp_path / "secret", "\n"))
