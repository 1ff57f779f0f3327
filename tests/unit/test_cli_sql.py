"""`nostr-client store sql`: tables, CSV and JSON on stdout, refusals on stderr."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from nostr_client.cli.app import run
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import make

if TYPE_CHECKING:
    from pathlib import Path

QUOTED = 'a "quoted", é\nline \x1b[31m'


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    async with await SqliteStore.open(tmp_path / "s.db") as opened:
        await opened.save([make(0, content=QUOTED), make(1, 7), make(0, 4, content="private")])
    return tmp_path / "s.db"


def asked(
    capsys: pytest.CaptureFixture[str], store: Path, *words: str, code: int = 0
) -> tuple[str, str]:
    assert run(["store", "sql", *words, "--store", str(store)]) == code
    return capsys.readouterr()


SELECT = "SELECT kind, content, NULL AS lacking FROM events ORDER BY kind"


def test_json(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = asked(capsys, store, SELECT, "--json")
    assert json.loads(out) == [
        {"kind": 1, "content": QUOTED, "lacking": None},
        {"kind": 7, "content": "", "lacking": None},
    ]


def test_csv(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = asked(capsys, store, SELECT, "--csv")
    rows = list(csv.reader(io.StringIO(out, newline="")))
    assert rows == [["kind", "content", "lacking"], ["1", QUOTED, ""], ["7", "", ""]]


def test_a_table_shows_no_control_characters(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = asked(capsys, store, SELECT)
    assert "\x1b" not in out
    assert r"\x1b[31m" in out
    assert len(out.splitlines()) == 3


def test_a_blob_is_hex(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(asked(capsys, store, "SELECT x'00ff' AS b", "--json")[0]) == [{"b": "00ff"}]


def test_private_kinds_are_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = "SELECT count(*) AS n FROM events"
    for words, number in ((), 2), (("--private-kind", "4"), 3), (("--include-private",), 3):
        assert json.loads(asked(capsys, store, count, "--json", *words)[0]) == [{"n": number}]


def test_more_rows_than_asked_for_are_told(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = asked(capsys, store, "SELECT id FROM events", "--rows", "1", "--csv")
    assert len(out.splitlines()) == 2
    assert "first 1 row;" in err


def test_a_refusal_is_one_line_and_wrong_usage(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = asked(capsys, store, "DELETE FROM tags", code=2)
    assert out == ""
    assert len(err.splitlines()) == 1
    out, err = asked(capsys, store.with_name("none.db"), "SELECT 1", code=1)
    assert "no store at" in err


def test_a_dash_reads_stdin(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nostr_client.cli.app import cli

    done = CliRunner().invoke(
        cli, ["store", "sql", "-", "--json", "--store", str(store)], input="SELECT 1 AS a"
    )
    assert json.loads(done.output) == [{"a": 1}]


@pytest.mark.parametrize("text", ["=1+2", "+1", "-1", "@a", "\ta", "\ra"])
def test_foreign_text_is_no_formula_in_csv(
    store: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    written = ", ".join(
        f"char({','.join(map(str, map(ord, one)))})" for one in (text, "+", "a\r=b")
    )
    out, _ = asked(capsys, store, f"SELECT {written}, -1", "--csv")
    rows = list(csv.reader(io.StringIO(out, newline="")))
    assert rows[1] == [f"'{text}", "+", "a\r=b", "-1"]
