"""`nostr-client counter` on the local store and on a nats-server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.cli.app import run
from tests.nats_peer import running_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Cli:
    """Runs `nostr-client counter` in this process, on one backend."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *backend: str) -> None:
        self.capsys = capsys
        self.backend = backend

    def __call__(self, *args: str, code: int = 0) -> str:
        found = run(["counter", *args, *self.backend])
        out, err = self.capsys.readouterr()
        assert found == code, err
        return out if code == 0 else err

    def json(self, *args: str) -> Any:
        return json.loads(self(*args, "--json"))


@pytest.fixture(params=["store", pytest.param("nats", marks=pytest.mark.interop)])
def cli(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Cli]:
    if request.param == "store":
        yield Cli(capsys, "--store", str(tmp_path / "new" / "store.db"))
        return
    with running_server() as server:
        yield Cli(capsys, "--nats", server.url)


def test_counting(cli: Cli) -> None:
    cli("stream", "create", "PLAYS", "--subject", "plays.>", "--keep", "100", "--batches")
    assert cli("add", "plays.es.a", "5") == "5\n"
    assert cli("add", "plays.es.a", "-7") == "-2\n"
    assert cli.json("add", "plays.eu.a", "9" * 5_000)["value"] == "9" * 5_000
    assert cli("load", "plays.es.*") == "-2\tplays.es.a\n"
    assert set(cli.json("load")) == {"plays.es.a", "plays.eu.a"}
    (entry,) = cli.json("get", "plays.es.a")
    assert (entry["value"], entry["incr"], entry["seq"], entry["local"]) == ("-2", "-7", 2, "-2")
    assert cli.json("get", "plays.es.a", "--at", "1")[0]["value"] == "5"
    assert [e["value"] for e in cli.json("history", "plays.es.a")] == ["5", "-2"]
    assert cli.json("recount", "plays.es.a")["holds"]
    assert cli("watch", "plays.es.a", "--count", "1") == "-2\tplays.es.a\n"
    assert cli("reset", "plays.es.a") == "0\n"
    assert cli("delete", "plays.eu.>") == "1\n"
    assert cli("load") == "0\tplays.es.a\n"
    assert "plays.es.a" in cli("get")


def test_an_id_counts_once(cli: Cli) -> None:
    cli("stream", "create", "C", "--subject", "c.*")
    assert cli("add", "c.a", "1", "--id", "x") == "1\n"
    assert "already counted as sequence 1" in cli("add", "c.a", "1", "--id", "x", code=1)
    assert cli("load", "c.a") == "1\tc.a\n"


def test_streams_and_sources(cli: Cli) -> None:
    cli("stream", "create", "ES", "--subject", "es.*")
    cli("stream", "create", "TOTAL", "--subject", "total.*", "--description", "all")
    transform = "es.*=total.{{wildcard(1)}}"
    added = cli.json("source", "add", "TOTAL", "ES", "--transform", transform)
    assert added["config"]["description"] == "all"
    assert [s["name"] for s in added["config"]["sources"]] == ["ES"]
    edited = cli.json("stream", "edit", "TOTAL", "--keep", "7", "--window", "60")
    assert edited["config"]["max_msgs_per_subject"] == 7
    assert edited["config"]["duplicate_window"] == 60_000_000_000
    assert len(edited["config"]["sources"]) == 1
    cli("add", "es.a", "3")
    if cli.backend[0] == "--store":
        assert cli.json("load", "total.*") == {"total.a": "3"}
    assert "ES es.*" in cli("stream", "info", "TOTAL")
    assert [s["config"]["name"] for s in cli.json("stream", "list")] == ["ES", "TOTAL"]
    assert cli.json("source", "rm", "TOTAL", "ES")["config"].get("sources", []) == []
    assert "is no source of" in cli("source", "rm", "TOTAL", "ES", code=2)
    cli("stream", "rm", "TOTAL")
    assert "no stream" in cli("stream", "info", "TOTAL", code=1)


def test_wrong_usage(cli: Cli) -> None:
    cli("stream", "create", "A", "--subject", "a.*")
    cli("stream", "create", "B", "--subject", "b.*")
    assert "not a whole number" in cli("add", "a.x", "1.5", code=2)
    assert "name a stream by --stream of A, B" in cli("load", code=2)
    assert "there is none" in cli("load", "z.x", code=2)
    assert "not a subject" in cli("load", "a..x", code=2)
    assert "no message found" in cli("reset", "a.x", code=1)
    assert "overlap" in cli("stream", "create", "C", "--subject", "a.b", code=1)
    assert cli("load", "--stream", "B") == ""
    assert "not SRC=DEST" in cli("source", "add", "A", "B", "--transform", "x", code=2)


def test_a_recount_that_does_not_hold_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import sqlite3

    path = tmp_path / "store.db"
    cli = Cli(capsys, "--store", str(path))
    cli("stream", "create", "C", "--subject", "c.*")
    for _ in range(3):
        cli("add", "c.a", "1")
    with sqlite3.connect(path) as conn:
        conn.execute("DELETE FROM counter_message WHERE seq = 2")
    conn.close()
    assert run(["counter", "recount", "c.a", "--store", str(path)]) == 1
    assert "holds: False" in capsys.readouterr().out


def test_what_cannot_be_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    local = Cli(capsys, "--store", str(tmp_path / "none.db"))
    assert "no store at" in local("load", code=2)
    assert "not both" in Cli(capsys, "--store", "x", "--nats", "nats://x")("load", code=2)
    assert "go with --nats" in Cli(capsys, "--domain", "hub")("load", code=2)


@pytest.mark.interop
def test_a_server_that_is_not_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nostr_client.counters.jetstream.connection.CONNECT_S", 0.3)
    with running_server() as server:
        url = server.url
    assert "no nats-server" in Cli(capsys, "--nats", url)("load", code=3)
