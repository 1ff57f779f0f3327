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
    cli("stream", "add", "PLAYS", "--subject", "plays.>", "--keep-changes", "100", "--batches")
    assert cli("add", "plays.es.a", "5") == "5\n"
    assert cli("add", "plays.es.a", "-7") == "-2\n"
    assert cli.json("add", "plays.eu.a", "9" * 5_000)["value"] == "9" * 5_000
    assert cli("get", "--values", "plays.es.*") == "-2\tplays.es.a\n"
    assert {e["subject"] for e in cli.json("get")} == {"plays.es.a", "plays.eu.a"}
    (entry,) = cli.json("get", "plays.es.a")
    assert (entry["value"], entry["incr"], entry["seq"], entry["local"]) == ("-2", "-7", 2, "-2")
    assert cli.json("get", "plays.es.a", "--at", "1")[0]["value"] == "5"
    assert [e["value"] for e in cli.json("history", "plays.es.a")] == ["5", "-2"]
    assert cli.json("recount", "plays.es.a")["holds"]
    assert cli("watch", "plays.es.a", "--lines", "1") == "-2\tplays.es.a\n"
    assert cli("reset", "plays.es.a") == "0\n"
    assert cli("remove", "plays.eu.>") == "1\n"
    assert cli("get", "--values") == "0\tplays.es.a\n"
    assert "plays.es.a" in cli("get")
    assert cli("get", "--values", "plays.es.a", "plays.none.*") == "0\tplays.es.a\n"
    for more in ((), ("--values",)):
        told = cli("get", *more, "plays.es.a", "plays.none", code=1)
        assert "plays.none: no message found" in told
    assert run(["counter", "get", "plays.none", *cli.backend]) == 1
    assert cli.capsys.readouterr().out == ""


def test_an_id_counts_once(cli: Cli) -> None:
    cli("stream", "add", "C", "--subject", "c.*")
    assert cli("add", "c.a", "1", "--msg-id", "x") == "1\n"
    assert "already counted as sequence 1" in cli("add", "c.a", "1", "--msg-id", "x", code=1)
    assert cli("get", "--values", "c.a") == "1\tc.a\n"


def test_streams_and_sources(cli: Cli) -> None:
    cli("stream", "add", "ES", "--subject", "es.*")
    cli("stream", "add", "TOTAL", "--subject", "total.*", "--description", "all")
    transform = "es.*=total.{{wildcard(1)}}"
    added = cli.json("source", "add", "TOTAL", "ES", "--transform", transform)
    assert added["config"]["description"] == "all"
    assert [s["name"] for s in added["config"]["sources"]] == ["ES"]
    edited = cli.json("stream", "set", "TOTAL", "--keep-changes", "7", "--id-window", "60")
    assert edited["config"]["max_msgs_per_subject"] == 7
    assert edited["config"]["duplicate_window"] == 60_000_000_000
    assert len(edited["config"]["sources"]) == 1
    cli("add", "es.a", "3")
    if cli.backend[0] == "--store":
        assert [(e["subject"], e["value"]) for e in cli.json("get", "total.*")] == [
            ("total.a", "3")
        ]
    assert "ES es.*" in cli("stream", "show", "TOTAL")
    assert [s["config"]["name"] for s in cli.json("stream", "list")] == ["ES", "TOTAL"]
    assert cli.json("source", "remove", "TOTAL", "ES")["config"].get("sources", []) == []
    assert "is not a source of" in cli("source", "remove", "TOTAL", "ES", code=2)
    cli("stream", "remove", "TOTAL")
    assert "no stream" in cli("stream", "show", "TOTAL", code=1)


def test_wrong_usage(cli: Cli) -> None:
    cli("stream", "add", "A", "--subject", "a.*")
    cli("stream", "add", "B", "--subject", "b.*")
    assert "not a whole number" in cli("add", "a.x", "1.5", code=2)
    assert "name a stream by --stream of A, B" in cli("get", "--values", code=2)
    assert "no stream of counters for z.x" in cli("get", "--values", "z.x", code=2)
    too_long = "9" * 70_000
    assert cli("add", "a.x", too_long, code=1).startswith("nostr-client: a.x: ")
    cli("stream", "add", "PLAIN", "--subject", "p.*", "--plain")
    assert "PLAIN: message counters is disabled" in cli(
        "get", "--values", "--stream", "PLAIN", code=1
    )
    assert "not a subject" in cli("get", "--values", "a..x", code=2)
    assert "no message found" in cli("reset", "a.x", code=1)
    assert "C" in cli("stream", "add", "C", "--subject", "a.b", code=1)
    assert "A: " in cli("source", "add", "A", "A", code=1)
    assert cli("get", "--values", "--stream", "B") == ""
    assert "not SRC=DEST" in cli("source", "add", "A", "B", "--transform", "x", code=2)


LONE = "\udcff"
"""What a byte of the command line that is no UTF-8 becomes."""

MISTAKES = [
    ("add", f"a.{LONE}", "1"),
    ("add", "a.x", LONE),
    ("add", "a.x", "1", "--msg-id", LONE),
    ("add", "a.x", "1", "--msg-id", ""),
    ("add", "a.x", "1", "--msg-id", "x "),
    ("add", "a.*", "1"),
    ("add", "a.x", "1", "--stream", LONE),
    ("add", "a.x", "1", "--stream", "A.B"),
    ("get", "a.x", "--at", str(2**70)),
    ("get", f"a.{LONE}"),
    ("history", "a.x", "--after", str(10**30)),
    ("history", "a.*"),
    ("recount", "a.>"),
    ("reset", "a.*"),
    ("watch", "a.x", "--after", str(10**30), "--lines", "1"),
    ("remove", LONE),
    ("stream", "add", LONE),
    ("stream", "add", "a b"),
    ("stream", "add", "N", "--subject", LONE),
    ("stream", "add", "N", "--description", LONE),
    ("stream", "add", "N", "--subject", "a..b"),
    ("stream", "set", "A", "--subject", "a..b"),
    ("stream", "set", "A", "--rewrite", "a..b=c"),
    ("source", "add", "A", "B", "--only", "a..b"),
    ("source", "add", "A", "B", "--transform", "a..b=c"),
    ("stream", "show", LONE),
    ("stream", "remove", "a.b"),
    ("stream", "set", "A", "--keep-changes", "9" * 23),
    ("stream", "set", "A", "--max-msgs", "9" * 23),
    ("stream", "set", "A", "--keep-changes=-5"),
    ("stream", "set", "A", "--max-msgs=-2"),
    ("stream", "set", "A", "--max-age", "1e300"),
    ("stream", "set", "A", "--max-age", "nan"),
    ("stream", "set", "A", "--max-age=-1"),
    ("stream", "set", "A", "--id-window", "inf"),
    ("stream", "set", "A", "--id-window", "1e-12"),
    ("stream", "set", "A", "--republish", f"a.*={LONE}.*"),
    ("source", "add", "A", LONE),
    ("source", "add", "A", "B", "--only", LONE),
]


def test_every_mistake_is_one_line_and_exit_code_2(cli: Cli) -> None:
    cli("stream", "add", "A", "--subject", "a.*")
    cli("add", "a.x", "1")
    for mistake in MISTAKES:
        assert cli(*mistake, code=2).count("\n") == 1, mistake
    assert cli("get", "--values") == "1\ta.x\n"
    assert [s["config"]["name"] for s in cli.json("stream", "list")] == ["A"]


def test_what_is_not_there_is_named(cli: Cli) -> None:
    cli("stream", "add", "A", "--subject", "a.*")
    for command in ("history", "recount", "reset"):
        assert "a.none: no message found" in cli(command, "a.none", code=1)
    assert "no stream for GONE" in cli("get", "--values", "--stream", "GONE", code=1)
    assert "no stream for GONE" in cli("stream", "remove", "GONE", code=1)


def test_an_increment_goes_to_the_one_stream_that_listens(cli: Cli) -> None:
    cli("stream", "add", "A", "--subject", "a.*")
    cli("stream", "add", "ALL")
    cli("source", "add", "ALL", "A")
    assert cli("add", "a.x", "2") == "2\n"
    assert "--stream of A, ALL" in cli("get", "--values", "a.x", code=2)
    assert cli("reset", "a.x") == "0\n"


def test_tables_show_every_digit(cli: Cli) -> None:
    cli("stream", "add", "A", "--subject", "a.*")
    digits = "123456789" * 60
    cli("add", "a.x", digits)
    for command in (("history", "a.x"), ("get",)):
        shown = cli(*command)
        assert "…" not in shown
        head, *rows = shown.splitlines()
        value = slice(head.index("value"), head.index("change"))
        assert "".join(row[value].strip() for row in rows) == digits


def test_credentials_that_are_none(cli: Cli, tmp_path: Path) -> None:
    if cli.backend[0] == "--store":
        assert "go with --nats" in cli("get", "--values", "--creds", "x", code=2)
        return
    assert "cannot be read" in cli(
        "get", "--values", "--creds", str(tmp_path / "none.creds"), code=2
    )
    empty = tmp_path / "empty.creds"
    empty.write_text("nothing")
    assert "no credentials" in cli("get", "--values", "--creds", str(empty), code=2)


@pytest.mark.parametrize("url", ["", "http://x", "nats://", "nats://x:99999", "a b", "\udcff"])
def test_what_is_no_url(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert "URL of a nats-server" in Cli(capsys, "--nats", url)("get", "--values", code=2)


def test_a_recount_that_does_not_hold_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import sqlite3

    path = tmp_path / "store.db"
    cli = Cli(capsys, "--store", str(path))
    cli("stream", "add", "C", "--subject", "c.*")
    for _ in range(3):
        cli("add", "c.a", "1")
    with sqlite3.connect(path) as conn:
        conn.execute("DELETE FROM counter_message WHERE seq = 2")
    conn.close()
    assert run(["counter", "recount", "c.a", "--store", str(path)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert "holds: false" in told
    assert "break: at 3 3, and not 2" in told


def test_what_cannot_be_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    local = Cli(capsys, "--store", str(tmp_path / "none.db"))
    for args in (
        ("get",),
        ("add", "a.b", "1"),
        ("reset", "a.b"),
        ("remove", "a.b"),
        ("stream", "set", "A", "--keep-changes", "1"),
        ("stream", "remove", "A"),
        ("source", "add", "A", "B"),
        ("source", "remove", "A", "B"),
    ):
        assert "no store at" in local(*args, code=1)
    overlapping = ("--subject", "a.*", "--subject", "a.b")
    assert "overlap" in local("stream", "add", "A", *overlapping, code=1)
    assert not (tmp_path / "none.db").exists()
    assert "not both" in Cli(capsys, "--store", "x", "--nats", "nats://x")(
        "get", "--values", code=2
    )
    assert "go with --nats" in Cli(capsys, "--domain", "hub")("get", "--values", code=2)


@pytest.mark.interop
def test_a_server_that_is_not_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nostr_client.counters.jetstream.dial.CONNECT_S", 0.3)
    with running_server() as server:
        url = server.url
    assert "no nats-server" in Cli(capsys, "--nats", url)("get", "--values", code=3)
