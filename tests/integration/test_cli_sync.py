"""`nostr-client sync run` against relays with NIP-77: output, exit codes, and killed runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from nostr_client.store.sqlite import SqliteStore
from tests.faulty_relay import FaultyRelay
from tests.negrelay import SpeaksNeg
from tests.running import SOON, nostr_client
from tests.syncing import held_ids, ids, note, notes, plain

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.event import Event

TOTALS = ["downloaded", "uploaded", "need", "have", "bytes_sent", "bytes_received"]


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    place = tmp_path / "store.db"
    async with await SqliteStore.open(place) as store:
        await store.save(notes(range(0, 300, 2)))
    return place


async def test_json_is_one_object_with_the_promised_keys(path: Path) -> None:
    async with FaultyRelay(SpeaksNeg(), events=plain(notes(range(0, 300, 3)))) as server:
        run = await nostr_client(
            "sync", "run", "--store", str(path), "--relay", server.url, "--filter", '{"kinds":[1]}',
            "--direction", "both", "--json",
        )  # fmt: skip
        assert run.code == 0, run.err
        told = json.loads(run.out)
        assert run.out.count("\n") == 1
        assert list(told) == [*TOTALS, "relays"]
        (one,) = told["relays"]
        first = ["relay", "status", "reason", *TOTALS, "rounds", "windows"]
        assert list(one) == [*first, "hidden", "refused", "skipped", "held_back"]
        assert (one["relay"], one["status"], told["need"], told["have"]) == (
            server.url,
            "complete",
            50,
            100,
        )
        async with await SqliteStore.open(path) as store:
            assert await held_ids(store) == ids(server.events)


async def test_dry_run_prints_ids_on_stdout_and_the_table_on_stderr(path: Path) -> None:
    theirs = [*notes(range(0, 300, 2))[1:], note(1)]
    async with FaultyRelay(SpeaksNeg(), events=plain(theirs)) as server:
        run = await nostr_client(
            "sync", "run", "--store", str(path), "-r", server.url, "--filter", "{}", "--dry-run",
            "--print-missing",
        )  # fmt: skip
        assert run.code == 0, run.err
        assert run.out.splitlines() == [
            f"need {note(1).event.id} {server.url}",
            f"have {note(0).event.id} {server.url}",
        ]
        assert "complete" in run.err
        assert server.verbs()["EVENT"] == 0
        assert all("limit" in message[2] for message in server.received if message[0] == "REQ")
        asked = await nostr_client(
            "sync", "run", "--store", str(path), "-r", server.url, "--filter", "{}", "--dry-run",
            "--print-missing", "--json",
        )  # fmt: skip
        (missing,) = json.loads(asked.out)["missing"]
        assert missing == {
            "relay": server.url,
            "need": [note(1).event.id],
            "have": [note(0).event.id],
        }


async def test_a_table_by_default_and_the_exit_code_tells_what_is_left(path: Path) -> None:
    async with FaultyRelay(SpeaksNeg()) as server:
        run = await nostr_client(
            "sync", "run", "--store", str(path), "-r", server.url, "-r", "ws://127.0.0.1:9",
            "--filter", '{"kinds":[1]}', **SOON,
        )  # fmt: skip
        assert run.code == 1
        assert "complete" in run.out
        assert "failed" in run.out
        alone = await nostr_client(
            "sync",
            "run",
            "--store",
            str(path),
            "-r",
            "ws://127.0.0.1:9",
            "--filter",
            '{"kinds":[1]}',
            **SOON,
        )
        assert alone.code == 3


async def test_by_default_nothing_leaves_and_the_memory_is_shown_and_cleared(path: Path) -> None:
    def refuses(event: Event) -> str:
        return "invalid: too dull" if event.id == note(0).event.id else ""

    behaviour = SpeaksNeg(refuses=refuses)
    async with FaultyRelay(behaviour, events=plain(notes(range(1, 9)))) as server:
        base = ("--store", str(path), "-r", server.url)
        run = await nostr_client("sync", "run", *base, "--filter", "{}", "--json")
        assert (run.code, json.loads(run.out)["uploaded"]) == (0, 0)
        assert server.verbs()["EVENT"] == 0
        up = ("sync", "run", *base, "--filter", "{}", "--direction", "up", "--json")
        (would,) = json.loads((await nostr_client(*up, "--dry-run")).out)["relays"]
        run = await nostr_client(*up)
        (one,) = json.loads(run.out)["relays"]
        assert (one["uploaded"], one["held_back"]) == (0, 146)
        assert (would["uploaded"], would["held_back"]) == (0, 146)
        for said in (one, would):
            assert "146 held back: by others, or no key was given" in said["reason"]
        up = ("sync", "run", *base, "--filter", "{}", "--direction", "up", "--include-others")
        run = await nostr_client(*up, "--json")
        (one,) = json.loads(run.out)["relays"]
        assert (run.code, one["uploaded"], one["refused"]) == (1, 145, 1)
        assert "invalid: too dull" in (await nostr_client(*up, "--dry-run")).out
        shown = await nostr_client("sync", "memory", *base, "--json")
        (event,) = json.loads(shown.out)["events"]
        assert (event["relay"], event["side"], event["events"]) == (server.url, "up", 1)
        assert event["reason"] == "invalid: too dull"
        assert "too dull" in (await nostr_client("sync", "memory", "--store", str(path))).out
        assert (await nostr_client("sync", "memory", *base, "--clear")).code == 0
        cleared = await nostr_client("sync", "memory", *base, "--json")
        assert json.loads(cleared.out) == {"events": [], "filters": []}
        behaviour.refuses = None
        assert (await nostr_client(*up)).code == 0
        assert note(0).event.id in ids(server.events)


@pytest.mark.parametrize(
    "args",
    [[], ["--filter", "{}", "--filter-event", "0" * 64], ["--filter", '{"x":1}'],
     ["--filter", '{"search":"x"}'], ["--filter", '{"kinds":[1],"limit":5}'],
     ["--filter-event", "nope"]],
)  # fmt: skip
async def test_wrong_usage(path: Path, args: list[str]) -> None:
    run = await nostr_client("sync", "run", "--store", str(path), "-r", "ws://127.0.0.1:9", *args)
    assert run.code == 2
    assert run.err.startswith("nostr-client: ")
