"""Where files live: the platform's folders, and what overrides them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nostr_client import places


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NOSTR_TALLY_STORE", "STATE_DIRECTORY", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("DATA", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


@pytest.mark.skipif(sys.platform != "linux", reason="XDG folders are Linux's")
def test_xdg_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert places.store_path() == tmp_path / "data/nostr-tally/store.db"
    assert places.config_path() == tmp_path / "config/nostr-tally/agent.toml"
    assert places.token_path() == tmp_path / "state/nostr-tally/token"
    assert places.addresses_path() == tmp_path / "state/nostr-tally/agent.json"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    assert places.addresses_path() == tmp_path / "run/nostr-tally/agent.json"


def test_the_users_own_store_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("NOSTR_TALLY_STORE", "~/mine.db")
    assert places.store_path() == Path.home() / "mine.db"


def test_systemd_keeps_all_in_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", f"{tmp_path}/a:{tmp_path}/b")
    found = {places.store_path(), places.token_path(), places.addresses_path()}
    assert {path.parent for path in found} == {tmp_path / "a"}


def test_nothing_is_created(tmp_path: Path) -> None:
    places.store_path()
    places.token_path()
    assert list(tmp_path.iterdir()) == []
