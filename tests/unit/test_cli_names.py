"""A name at a domain (NIP-05) stands for a key in every option of a command that asks relays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from nostr_client.cli.entry import NO_RELAY, USAGE, run_command
from tests.commands import COMMANDS, PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAME = "bob@127.0.0.1:1"
"""The domain is asked: nothing listens there, and the error says so at once."""

PLAIN = "bob@127.0.0.1"
"""A name whose port no KEY:DEPTH can be mistaken for."""

RELAY = ("-r", "ws://127.0.0.1:1")
STORE = ("--store", "FOLDER/s.db")

ONLINE = {
    "nostr-client count": RELAY,
    "nostr-client req": RELAY,
    "nostr-client sync run": (*RELAY, *STORE),
    "nostr-client mirror": ("ws://127.0.0.1:1", "ws://127.0.0.1:2"),
    "nostr-client watch add": ("w", *RELAY, *STORE),
    "nostr-client watch set": ("w", *RELAY, *STORE),
}
OFFLINE = {
    "nostr-client sync add": ("s", *RELAY),
    "nostr-client store query": STORE,
    "nostr-client store count": STORE,
    "nostr-client store export": STORE,
    "nostr-agent archive export": ("FOLDER/x.jsonl", *STORE),
}
WAYS = (("-a", NAME), ("-p", NAME), ("-t", f"p={NAME}"))

KEYS = {
    ("nostr-client count", "--within"): ("-k", "1", *RELAY, *STORE),
    ("nostr-client count", "--provider"): ("followers", "ab" * 32, *RELAY),
    ("nostr-client count", "--monitor"): ("-k", "1", *RELAY, "--indexer", RELAY[1]),
    ("nostr-client relay rank", "--monitor"): (
        "followers", "ab" * 32, *STORE, "--indexer", RELAY[1]),
    ("nostr-client watch run", "--monitor"): (*STORE, *RELAY),
    ("nostr-client watch add", "--within"): ("w", "-k", "1", *RELAY, *STORE),
    ("nostr-client watch add", "--provider"): ("w", "followers", "ab" * 32, *RELAY, *STORE),
    ("nostr-client watch set", "--within"): ("w", "-k", "1", *RELAY, *STORE),
    ("nostr-client watch set", "--provider"): ("w", "followers", "ab" * 32, *RELAY, *STORE),
    ("nostr-client assertions publish", "--followed-by"): (*RELAY, *STORE),
    ("nostr-client assertions publish", "--rank-of"): ("--all", *RELAY, *STORE),
    ("nostr-client publish", "--tag"): ("--content", "x", *RELAY),
}  # fmt: skip
"""Options that take a key, of commands that ask relays, but for those of filters."""


def run(name: str, args: Sequence[str], folder: Path) -> int:
    program, *words = name.split()
    given = [one.replace("FOLDER", str(folder)) for one in args]
    return run_command(PROGRAMS[program], program, [*words, *given])


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(way))
@pytest.mark.parametrize("name", ONLINE)
def test_a_command_that_asks_relays_asks_the_domain(
    name: str, way: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(name, (*ONLINE[name], *way), tmp_path) == NO_RELAY
    assert "https://127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(way))
@pytest.mark.parametrize("name", OFFLINE)
def test_another_command_says_which_ones_do(
    name: str, way: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(name, (*OFFLINE[name], *way), tmp_path) == USAGE
    assert "commands that ask relays look up" in capsys.readouterr().err


@pytest.mark.parametrize("one", KEYS, ids=" ".join)
def test_an_option_that_takes_a_key_takes_a_name(
    one: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NOSTR_TALLY_KEY", "11" * 32)
    name, option = one
    if name == "nostr-client relay rank":
        (tmp_path / "s.db").touch()
    value = f"p={PLAIN}" if option == "--tag" else PLAIN
    assert run(name, (*KEYS[one], option, value), tmp_path) == NO_RELAY
    assert "https://127.0.0.1/" in capsys.readouterr().err


def test_every_option_with_a_key_is_tried() -> None:
    taking = {
        (name, max(one.opts, key=len))
        for name, command in COMMANDS.items()
        for one in command.params
        if isinstance(one, click.Option) and (one.metavar or "").partition("[")[0] == "KEY"
    }
    of_filters = {(name, option) for name, option in taking if option in ("--author", "-p")}
    assert {name for name, _ in of_filters} == ONLINE.keys() | OFFLINE.keys()
    offline = {
        ("nostr-client encode nevent", "--hint-author"),
        ("nostr-client assertions declare", "--provider"),
    }
    assert taking - of_filters == KEYS.keys() - {("nostr-client publish", "--tag")} | offline
