"""`nostr-client` on a store's file, and through the agent that holds it: the same either way."""

from __future__ import annotations

import asyncio
import csv
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.cli.app import run
from nostr_client.codecs.nip19 import PublicKey
from tests.agent.service.kit import an_agent
from tests.commands import COMMANDS
from tests.faulty_relay import FaultyRelay
from tests.frozen.elsewhere import elsewhere
from tests.worlds import TARGET, follow

if TYPE_CHECKING:
    from pathlib import Path

NPUB = PublicKey(TARGET).encode()

LINES = (
    "watch add w followers {npub} -r {one} --json",
    "watch add w followers {npub} -r {one} --json",
    "watch add x --kind 3 -r {one} -r {other} --excluded {other} --trust off --interval 1h --json",
    "watch add y --json",
    "watch run --once --json",
    "watch run w --once --json",
    "watch run nobody --once --json",
    "watch list --json",
    "watch show w --json",
    "watch show x --json",
    "watch show w --overlap --json",
    "watch show x --overlap --json",
    "watch show nobody --json",
    "watch history w --json",
    "watch history w --format csv",
    "watch history nobody --json",
    "watch people w --since 0 --json",
    "watch people w --since 0 --format csv",
    "watch people nobody --json",
    "watch set w followers {npub} -r {other} --no-live --json",
    "watch set nobody followers {npub} --json",
    "watch run w --once --json",
    "watch show w --json",
    "watch remove w --json",
    "watch remove w --json",
    "watch list --json",
    "counter add app.a 5 --json",
    "counter add app.a -7 --json",
    "counter add app.b 3 --msg-id one --json",
    "counter add app.b 3 --msg-id one --json",
    "counter add app.b x --json",
    "counter add nothing.b 1 --json",
    "counter add app.b 1 --stream none --json",
    "counter get --json",
    "counter get app.a --json",
    "counter get app.a app.none --json",
    "counter get app.> --at 1 --json",
    "counter get --values",
    "counter history app.a --json",
    "counter history app.a --after 1 --json",
    "counter history app.none --json",
    "counter recount app.a --json",
    "counter reset app.a --json",
    "counter reset app.none --json",
    "counter remove app.b --json",
    "counter get --json",
    "counter stream show app --json",
    "store show --json",
    "store count --kind 3 --json",
    "store query --kind 3",
)

ON_THE_FILE = {
    "counter watch", "counter stream", "counter source", "store", "sync memory", "relay rank",
}  # fmt: skip
"""What is read beside the agent, or is for its configuration to change."""

OF_AN_AGENT = {
    "counter link", "relay list", "sync add", "sync list", "sync show", "sync remove",
    "sync cancel", "sync run",
}  # fmt: skip
"""What only a running agent has; it is refused without one."""

UNLIKE = {
    "asked_at", "answered_at", "latency_ms", "ts", "at", "samples", "bytes", "path", "index",
    "config", "last_read", "warnings", "reasons", "bytes_read",
}  # fmt: skip
"""What two runs do not have in common: times, sizes, and what comes of the time between."""


UNLIKE_OF_A_POINT = {"as_said", "least", "most"}
"""What of a point depends on its minute: whether the round looked for deletions again, and the
extremes of all numbers of that minute."""


def comparable(value: Any) -> Any:
    if isinstance(value, dict):
        unlike = UNLIKE | (UNLIKE_OF_A_POINT if "samples" in value else set())
        return {k: comparable(v) for k, v in value.items() if k not in unlike}
    if not isinstance(value, list):
        return value
    return [one for one, _ in itertools.groupby(map(comparable, value))]  # a minute may end


def said(text: str) -> list[Any]:
    """The lines of stdout: JSON without what no two runs have in common, and other text."""
    if text.startswith("at,"):
        rows = map(comparable, csv.DictReader(text.splitlines()))
        return [one for one, _ in itertools.groupby(rows)]
    if not text.startswith(("{", "[")):
        return text.splitlines()
    return [comparable(json.loads(line)) for line in text.splitlines()]


class Side:
    """One store, and what each command on it printed and how it ended."""

    def __init__(self, store: Path, relays: dict[str, str], *more: str) -> None:
        self.store = store
        self.more = more
        self._relays = relays

    def __call__(self, line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[Any], str]:
        words = line.format(npub=NPUB, **self._relays).split()
        more = self.more or ("--store", str(self.store))
        code = run([*words, *more])
        told = capsys.readouterr()
        return code, said(told.out), told.err


@pytest.mark.parametrize("how", ["by its store", "by its API"])
def test_every_verb_is_the_same_on_a_file_and_through_an_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    (tmp_path / "agent").mkdir()
    events = [follow(n) for n in range(5)]
    with (
        elsewhere(FaultyRelay(events=events)) as one,
        elsewhere(FaultyRelay(events=events[:2])) as other,
        elsewhere(an_agent(tmp_path / "agent", more=STREAMS)) as running,
    ):
        urls = {"one": one.url, "other": other.url}
        file = Side(tmp_path / "file.db", urls)
        assert file("counter stream add app --subject app.>", capsys)[0] == 0
        api = ("--api", running.service.api.url, "--token-file", str(tmp_path / "agent" / "token"))
        agent = Side(tmp_path / "agent" / "store.db", urls, *(api if how == "by its API" else ()))
        talked = 0
        for line in LINES:
            if how == "by its API" and line.startswith(("store ", "counter stream")):
                continue
            on_file, through = file(line, capsys), agent(line, capsys)
            assert through[0] == on_file[0], (line, on_file, through)
            assert through[1] == on_file[1], line
            assert "through the agent" not in on_file[2]
            if line.startswith(("watch add", "watch set")):  # an agent asks at once, by itself
                file("watch run --once", capsys)
            talked += f"through the agent at {running.service.api.url}" in through[2]
        assert talked > 15


STREAMS = '[[counters.streams]]\nname = "app"\nsubjects = ["app.>"]\n'


def test_every_command_of_a_place_is_compared_or_has_a_reason() -> None:
    """A new verb that takes a store has to stand here, or say why it need not."""
    placed = {
        name.partition(" ")[2]
        for name, command in COMMANDS.items()
        if any("--store" in one.opts for one in command.params)
        and name.startswith(("nostr-client watch", "nostr-client counter", "nostr-client sync",
                             "nostr-client relay", "nostr-client store"))
    }  # fmt: skip
    compared = {name for name in placed if any(f"{line} ".startswith(f"{name} ") for line in LINES)}
    rest = placed - compared
    assert {one for one in rest if not one.startswith(tuple(ON_THE_FILE | OF_AN_AGENT))} == set()


@pytest.mark.parametrize(
    "line",
    ["counter link list", "counter link run x", "relay list", "sync list", "sync run x",
     "sync add x --kind 1", "sync show x", "sync remove x", "sync cancel x",
     "counter link confirm x"],
)  # fmt: skip
def test_what_only_an_agent_has_says_that_none_runs(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line.split()) == 3
    assert "no agent is running" in capsys.readouterr().err
    assert run([*line.split(), "--store", str(tmp_path / "s.db")]) == 3
    assert "no agent holds" in capsys.readouterr().err


def test_what_an_agent_keeps_and_knows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (
        elsewhere(FaultyRelay(events=[follow(n) for n in range(5)])) as relay,
        elsewhere(an_agent(tmp_path, [relay.url])),
    ):

        def told(line: str, code: int = 0) -> Any:
            assert run([*line.split(), "--json"]) == code, line
            out = capsys.readouterr().out
            return json.loads(out) if out else None

        added = told(f"sync add s -k 3 -r {relay.url} --interval 1d --last 100w")
        assert added["spec"]["filters"] == [{"kinds": [3]}]
        assert (added["spec"]["interval"], added["spec"]["since"]) == ("1d", "700d")
        told("sync add s -k 3", 2)
        ran = told("sync run s")
        assert (ran["outcome"], ran["running"]) == ("complete", False)
        assert [one["spec"]["name"] for one in told("sync list")] == ["s"]
        assert told("sync show s")["outcome"] == "complete"
        told("sync show nobody", 2)
        told("sync cancel s", 1)
        assert [one["url"] for one in told("relay list")] == [relay.url]
        assert told("counter link list") == []
        told("counter link run nobody", 2)
        told("sync remove s")
        for line in ("sync list", "relay list", "counter link list"):
            assert run(line.split()) == 0
        assert relay.url in capsys.readouterr().out


def test_what_an_agent_is_not_asked_for_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ("--store", str(tmp_path / "store.db"))
    with elsewhere(an_agent(tmp_path)):
        for line, hint in (
            ("counter stream add x --subject x.*", "its configuration says which streams"),
            ("sync run -r ws://127.0.0.1:9 -k 1", "nostr-client sync add NAME"),
            ("watch run", "--once has it ask them now"),
        ):
            assert run([*line.split(), *store]) == 1, line
            told = capsys.readouterr().err
            assert hint in told
            assert told.count("nostr-client: ") == 1


async def test_another_program_that_writes_is_no_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from nostr_client.store.sqlite import SqliteStore

    (tmp_path / "agent").mkdir()
    async with await SqliteStore.open(tmp_path / "s.db"):
        words = ["watch", "remove", "w", "--store", str(tmp_path / "s.db")]
        assert await asyncio.to_thread(run, words) == 1
    assert "is being written by process" in capsys.readouterr().err
