"""One rule for the paths of every program: `~` is a home folder, the empty text is no path."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import click
import pytest

from agent.commands.reindex import agent_writes
from agent.maintenance.backup import back_up
from agent.reindex.inputs import open_store
from agent.reindex.jvm import cache_folder
from nostr_client.cli.parameters import UserPath
from nostr_client.counters.jetstream.dial import read_credentials
from nostr_client.errors import InvalidInput, StoreError
from nostr_client.paths import STORE_VARIABLE, store_path
from nostr_client.store.sqlite import SqliteStore
from tests.commands import COMMANDS

if TYPE_CHECKING:
    from pathlib import Path

PATHS = {
    "--store", "--out", "--output", "--plot", "--key-file", "--token-file", "--config", "--creds",
    "--jsonl", "--parquet", "--tls-cert", "--tls-key", "file", "files", "folder", "paths",
}  # fmt: skip


def test_every_path_follows_the_rule() -> None:
    found = {
        f"{words} {one.opts[0]}": one
        for words, command in COMMANDS.items()
        for one in command.params
    }
    named = {where for where, one in found.items() if PATHS & {*one.opts, one.name or ""}}
    assert len(named) > 30
    astray = [where for where in named if not isinstance(found[where].type, UserPath)]
    astray += [where for where, one in found.items() if type(one.type) in (click.Path, click.File)]
    assert sorted(set(astray)) == []


@pytest.mark.parametrize("path", ["~/x.db", "~nobody-is-called-so/x", "s3a://b/~x", "a~", "-"])
def test_a_home_folder_is_meant_at_the_beginning_alone(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = UserPath(path_type=str, allow_dash=True).convert(path, None, None)
    assert found == (str(tmp_path / "x.db") if path == "~/x.db" else path)
    monkeypatch.setenv(STORE_VARIABLE, path)
    assert store_path() == type(tmp_path)(found)


def test_settings_and_variables_follow_the_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder({"NOSTR_TALLY_JVM_CACHE": "~/jvm"}) == tmp_path / "jvm"
    (tmp_path / "x.creds").write_text("nothing")
    with pytest.raises(InvalidInput, match="holds no credentials"):
        read_credentials("~/x.creds")


def test_the_empty_text_is_wrong_usage() -> None:
    with pytest.raises(click.BadParameter, match="empty"):
        UserPath().convert("", None, None)


@pytest.mark.parametrize("what", ["device", "folder"])
def test_what_is_no_file_is_no_store(what: str, tmp_path: Path) -> None:
    path = type(tmp_path)(os.devnull) if what == "device" else tmp_path
    for opening in (SqliteStore.open(path), SqliteStore.open(path, read_only=True)):
        with pytest.raises(StoreError, match="it is no file"):
            asyncio.run(opening)
    with pytest.raises(StoreError, match="it is no file"):
        open_store(path)
    with pytest.raises(StoreError, match="it is no file"):
        agent_writes(path)
    with pytest.raises(StoreError, match="it is no file"):
        back_up(path, tmp_path / "copy", lambda done, of: None)
    assert list(tmp_path.iterdir()) == []
