"""Datasette, unmodified, opens an exported copy: tables, search, questions, descriptions."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from nostr_client.cli.app import run
from tests.conftest import shared_path
from tests.peers.install import environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("datasette")
    shared = str(shared_path("data/events.jsonl"))
    assert run(["store", "import", shared, "--store", str(folder / "s.db")]) == 0
    words = ["store", "export", str(folder / "events.sqlite"), "--store", str(folder / "s.db")]
    assert run(words) == 0
    return folder / "events.sqlite"


def got(copy: Path, path: str) -> str:
    """What a Datasette answers, with the metadata that the export wrote."""
    command = [
        environment("datasette"), "-m", "datasette", "serve", "--immutable", copy,
        "-m", copy.with_name("events.metadata.json"), "--get", path,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tables_are_described(copy: Path) -> None:
    tables = {one["name"]: one for one in json.loads(got(copy, "/events.json"))["tables"]}
    assert tables["events"]["count"] > 1000
    assert tables["events"]["fts_table"] == "events_fts"
    assert {"tags", "authors", "followers", "reactions", "reposts", "replies", "zaps"} <= set(
        tables
    )
    page = got(copy, "/events/followers")
    assert "A key in a follow list" in page
    assert "followed key, 64 hex characters" in page


def test_text_is_searched(copy: Path) -> None:
    found = json.loads(got(copy, "/events/events.json?_search=nostr&_shape=objects"))["rows"]
    assert found
    assert all("nostr" in row["content"].lower() for row in found)


@pytest.mark.parametrize("query", ["most_followed", "most_reacted", "zapped", "kinds_by_month"])
def test_the_questions_are_answered(copy: Path, query: str) -> None:
    assert json.loads(got(copy, f"/events/{query}.json?_shape=objects"))["rows"]


@pytest.mark.parametrize("words", ["nostr", "C%2B%2B", "it's", "nostr:", "%22x", ""])
def test_any_words_can_be_searched(copy: Path, words: str) -> None:
    found = json.loads(got(copy, f"/events/search.json?words={words}&_shape=objects"))
    assert found["ok"]
    assert bool(found["rows"]) or words != "nostr"
