"""`nostr-client` against relays: stdout is data, stderr is talk, and the exit code says it all."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from nostr_client.codecs.event import Event, EventTemplate, parse_event
from nostr_client.codecs.nip19 import Note, PublicKey
from tests import forks
from tests.faults import COUNT_REFUSALS, Pages, RefusesCount, Silent, Unreadable, WantsAuth
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.running import started
from tests.worlds import NOTE, START, TARGET, Sketches, follow, reaction, signer

if TYPE_CHECKING:
    from pathlib import Path

NPUB = PublicKey(TARGET).encode()


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1
        return json.loads(self.out)


async def cli(*args: str, stdin: str = "", **env: str) -> Done:
    """Run the program as a user does."""
    process = await asyncio.create_subprocess_exec(
        *forks.command("nostr_client", **env),
        *args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | env,
    )
    async with asyncio.timeout(40):
        out, err = await process.communicate(stdin.encode())
    assert b"Traceback" not in err, err.decode()
    return Done(process.returncode or 0, out.decode(), err.decode())


def followers(n: int, behaviour: Behaviour | None = None) -> FaultyRelay:
    return FaultyRelay(behaviour, events=[follow(i) for i in range(n)])


async def dead_url() -> str:
    relay = followers(0)
    await relay.start()
    await relay.stop()
    return relay.url


async def test_count_as_json_has_exactly_the_fields_of_the_schema() -> None:
    async with followers(40, Sketches()) as a, followers(50) as b:
        done = await cli("count", "followers", NPUB, "--relay", a.url, "-r", b.url, "--json")
    assert done.code == 0
    assert done.err == ""
    assert list(done.json) == [
        "query", "value", "unit", "low", "high", "exact", "lower_bound", "as_said", "authors",
        "events", "relays",
    ]  # fmt: skip
    first, second = done.json["relays"]
    assert list(first) == [
        "relay", "status", "method", "count", "approximate", "limited", "registers", "events_read",
        "bytes_read", "last_read", "asked_at", "answered_at", "latency_ms", "warnings", "note",
    ]  # fmt: skip
    assert (first["relay"], first["method"], first["count"]) == (a.url, "hll", 40)
    assert len(first["registers"]) == 512
    assert (second["relay"], second["method"], second["events_read"]) == (b.url, "events", 61)
    assert done.json["unit"] == "distinct_authors"
    assert done.json["value"] == 50
    assert done.json["query"]["filters"] == [{"kinds": [3], "#p": [TARGET]}]


async def test_count_for_people_is_a_table_and_a_line() -> None:
    async with followers(40) as a, followers(5, Silent()) as b:
        args = ["--relay", a.url, "--relay", b.url, "--timeout", "2"]
        done = await cli("count", "followers", NPUB, *args)
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "at least 40 distinct authors (1 of 2 relays answered)" in done.out
    assert a.url in done.out.replace("\n", "")
    assert "timeout" in done.out


async def test_overlap_says_how_many_people_each_two_relays_share() -> None:
    async with followers(40, Sketches()) as a, followers(50) as b, followers(20) as c:
        relays = [arg for one in (a, b, c) for arg in ("-r", one.url)]
        done = await cli("count", "followers", NPUB, *relays, "--overlap", "--json")
        shown = await cli("count", "followers", NPUB, *relays, "--overlap")
        gone = await dead_url()
        alone = await cli("count", "followers", NPUB, "-r", c.url, "-r", gone, "--overlap")
    pairs = {tuple(one["relays"]): one for one in done.json["overlaps"]}
    assert len(pairs) == 3
    assert (pairs[b.url, c.url]["people"], pairs[b.url, c.url]["exact"]) == (20, True)
    assert pairs[a.url, b.url]["low"] <= 0.8 <= pairs[a.url, b.url]["high"]
    assert done.json["uncompared"] == []
    assert "20 (40 %)" in shown.out
    assert "no two relays gave registers or events to compare" in alone.err
    assert f"not compared: {gone}: no answer: unreachable" in alone.err
    assert f"not compared: {c.url}: no other relay shows its people" in alone.err


async def test_relays_may_come_from_the_environment() -> None:
    async with followers(4) as a, followers(6) as b:
        both = f"{a.url} {b.url}"
        done = await cli("count", "followers", NPUB, "--json", NOSTR_TALLY_RELAYS=both)
    assert done.json["value"] == 6
    assert done.json["exact"]


async def test_any_filter_can_be_counted() -> None:
    events = [reaction(i, n) for i in range(7) for n in range(2)]
    asked = json.dumps({"#e": [NOTE], "kinds": [7], "limit": 3})
    async with FaultyRelay(events=events) as relay:
        done = await cli("count", "--filter", asked, "--relay", relay.url, "--json")
        none = await cli("count", "--filter", asked, "--relay", relay.url, "--json", "--no-read")
    for told in (done.json, none.json):
        assert told["unit"] == "events"
        assert told["value"] == 14
        assert told["authors"] is None


async def test_reactions_of_a_note() -> None:
    async with FaultyRelay(Sketches(), events=[reaction(i) for i in range(9)]) as relay:
        done = await cli("count", "reactions", Note(NOTE).encode(), "-r", relay.url, "--json")
    assert done.json["value"] == 9


@pytest.mark.parametrize(
    ("behaviour", "status", "code"),
    [
        (Silent(), "timeout", 124),
        (WantsAuth(), "auth_required", 3),
        (None, "unreachable", 3),
    ],
    ids=["silent", "auth", "dead"],
)
async def test_exit_codes_without_an_answer(
    behaviour: Behaviour | None, status: str, code: int
) -> None:
    relay = followers(3, behaviour)
    await relay.start()
    if behaviour is None:
        await relay.stop()
    args = ["count", "followers", NPUB, "-r", relay.url, "--timeout", "2"]
    try:
        told = await cli(*args, "--json")
        shown = await cli(*args)
    finally:
        await relay.stop()
    assert told.code == shown.code == code
    assert told.json["value"] is None
    assert told.json["relays"][0]["status"] == status
    assert told.err.count("\n") == 1
    assert "not known" in shown.out


async def test_one_answer_is_enough_for_exit_code_0() -> None:
    async with followers(3, Silent()) as a, followers(3) as b:
        args = ["-r", a.url, "-r", b.url, "-r", await dead_url(), "--timeout", "2"]
        done = await cli("count", "followers", NPUB, *args, "--json")
    assert done.code == 0
    assert [c["status"] for c in done.json["relays"]] == ["timeout", "ok", "unreachable"]


async def test_budget_options() -> None:
    refusing = RefusesCount(COUNT_REFUSALS["notice, rnostr"])
    async with followers(300, refusing) as relay:
        args = ["-r", relay.url, "--max-events", "50", "--json"]
        done = await cli("count", "followers", NPUB, *args)
    assert done.json["lower_bound"]
    assert done.json["high"] is None
    assert done.json["relays"][0]["events_read"] == 50


async def test_bad_input_never_reaches_a_relay() -> None:
    async with followers(1) as relay:
        done = await cli("count", "followers", "npub1nonsense", "--relay", relay.url)
        assert relay.connections == 0
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("nostr-client: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1", "0"])
@pytest.mark.parametrize(
    "command",
    [
        ("count", "followers", NPUB, "--timeout"),
        ("sync", "run", "--filter", "{}", "--stop-after"),
    ],
)
async def test_a_timeout_that_is_no_number_of_seconds(command: tuple[str, ...], value: str) -> None:
    done = await cli(*command, value, "--relay", "ws://127.0.0.1:9")
    assert done.code == 2
    assert command[-1] in done.err


async def test_an_error_of_connecting_says_nothing_of_tls() -> None:
    done = await cli("count", "followers", NPUB, "--relay", "ws://127.0.0.1:9")
    assert done.code == 3
    assert "127.0.0.1" in done.out + done.err
    assert "ssl:" not in done.out + done.err


async def test_req_prints_verified_events_once_as_lines() -> None:
    async with followers(8) as a, followers(12) as b:
        done = await cli("req", "--kind", "3", "--tag", f"p={TARGET}", "-r", a.url, "-r", b.url)
    events = [parse_event(line) for line in done.out.splitlines()]
    assert {event.id for event in events} == {follow(i).id for i in range(12)}
    assert len(events) == 12
    assert done.code == 0
    assert done.err == ""


async def test_req_says_what_a_relay_did_not_give() -> None:
    """On stderr: the events that came are good, so the exit code is 0."""
    events = [reaction(i) for i in range(5)]
    for behaviour, said in (
        (Pages(3, hints=True), "it has more events than it sent"),
        (Unreadable("nested", events[1].id), "1 frame could not be read"),
    ):
        async with FaultyRelay(behaviour, events=events) as relay:
            done = await cli("req", "--kind", "7", "--relay", relay.url)
            limited = await cli("req", "--kind", "7", "--limit", "2", "--relay", relay.url)
        assert done.code == 0
        assert said in done.err
        assert len(done.out.splitlines()) in (3, 4)
        assert "more events" not in limited.err


async def test_req_paginates_every_relay_to_its_end() -> None:
    events = [follow(i) for i in range(60)]
    one = FaultyRelay(Pages(cap=13), events=events[:40])
    other = FaultyRelay(Pages(cap=7), events=events[20:])
    async with one, other:
        ask = ("req", "--kind", "3", "-r", one.url, "-r", other.url)
        cut, whole = await cli(*ask), await cli(*ask, "--paginate")
        limited = await cli(*ask, "--paginate", "--limit", "5")
        assert len(cut.out.splitlines()) < 60
        found = [json.loads(line)["id"] for line in whole.out.splitlines()]
        assert (whole.code, len(found)) == (0, 60), whole.err
        assert set(found) == {event.id for event in events}
        assert (limited.code, "no limit" in limited.err) == (2, True)


async def test_a_page_that_cannot_be_read_to_its_end_is_said() -> None:
    async with followers(3) as relay:
        dead = await dead_url()
        done = await cli("req", "--kind", "3", "--paginate", "-r", relay.url, "-r", dead)
        assert (done.code, len(done.out.splitlines())) == (0, 3)
        assert f"{dead}: unreachable" in done.err


async def test_several_targets_are_a_line_each_over_the_same_connections(tmp_path: Path) -> None:
    other = signer(7).pubkey
    listed = tmp_path / "targets"
    listed.write_text(f"# people\n{other}\n\n")
    async with followers(4) as relay:
        ask = ("count", "followers", NPUB, "--from", str(listed), "-r", relay.url)
        text, data = await cli(*ask), await cli(*ask, "--json")
        assert (text.code, data.code) == (0, 0), text.err
        assert text.out.splitlines()[0].startswith(f"{NPUB}  followers: 4 ")
        assert [json.loads(line)["value"] for line in data.out.splitlines()] == [4, 0]
        assert relay.connections == 2  # one for each run
    wrong = await cli("count", "followers", NPUB, "nothing", "-r", "ws://127.0.0.1:9")
    assert wrong.code == 2


async def test_req_does_not_ask_a_relay_that_says_it_does_not_search() -> None:
    search = ["--filter", '{"kinds":[3],"search":"x"}']
    async with (
        FaultyRelay(events=[follow(1)], info={"supported_nips": [1]}) as deaf,
        FaultyRelay(events=[follow(2)], info={"supported_nips": [50]}) as able,
    ):
        both = await cli("req", *search, "-r", deaf.url, "-r", able.url)
        alone = await cli("req", *search, "-r", deaf.url)
        assert "REQ" not in deaf.verbs()
    assert [parse_event(line).id for line in both.out.splitlines()] == [follow(2).id]
    assert (both.code, alone.code) == (0, 3)
    for done in (both, alone):
        assert f"{deaf.url}: unsupported (no search" in done.err


async def test_req_says_which_relay_failed() -> None:
    dead = await dead_url()
    async with followers(3) as a:
        author = PublicKey(signer(1).pubkey).encode()
        done = await cli("req", "--author", author, "-r", a.url, "-r", dead, "--timeout", "3")
    assert [parse_event(line).id for line in done.out.splitlines()] == [follow(1).id]
    assert done.code == 0
    assert dead in done.err
    assert done.err.count("\n") == 1
    alone = await cli("req", "--kind", "1", "-r", dead, "--timeout", "3")
    assert alone.code == 3


async def test_what_reactions_say_is_printed_as_it_is() -> None:
    """What looks like markup or the name of an emoji to the library of tables is neither."""
    said = ["[/b]", "[red]x[/red]", ":x:", "[link=https://e.example]x"]
    events = [
        signer(n)
        .sign_now(EventTemplate(kind=7, content=one, tags=(("e", NOTE),), created_at=START))
        .event
        for n, one in enumerate(said)
    ]
    async with FaultyRelay(events=events) as relay:
        done = await cli("count", "reactions", NOTE, "-r", relay.url, "--by-content")
    assert done.code == 0
    (line,) = (line for line in done.out.splitlines() if line.startswith("of the events read: "))
    assert line == "of the events read: " + ", ".join(f"{one} 1" for one in sorted(said))


async def test_each_way_to_find_no_relay_has_its_sentence_and_code() -> None:
    dead = await dead_url()
    private = EventTemplate(kind=10002, tags=(("r", "ws://10.0.0.1"),), created_at=1)
    index = FaultyRelay(events=[signer(7).sign_now(private).event])
    async with index:
        told = {
            "the event was not found": ("reactions", NOTE, index.url),
            "no relay list (NIP-65) of": ("followers", TARGET, index.url),
            "only relays that are not asked": ("followers", signer(7).pubkey, index.url),
            "no indexer answered": ("followers", TARGET, dead),
        }
        for words, (what, target, indexer) in told.items():
            done = await cli("count", what, target, "--indexer", indexer, "--timeout", "5")
            assert (done.code, done.out) == (3, "")
            assert words in done.err
            assert done.err.count("\n") == 1


async def test_publish_an_event_from_stdin_a_file_and_a_key(tmp_path: Any) -> None:
    event = follow(1)
    path = tmp_path / "event.json"
    path.write_text(event.to_json(), "utf-8")
    key = tmp_path / "key"
    key.write_text(signer(5).nsec(), "ascii")
    key.chmod(0o600)
    async with followers(0) as relay:
        piped = await cli("publish", "-r", relay.url, "--json", stdin=event.to_json())
        filed = await cli("publish", str(path), "-r", relay.url)
        args = ["--content", "hello", "--tag", "t=x", "--key-file", str(key), "-r", relay.url]
        made = await cli("publish", *args, "--json")
        sent = [parse_event(message[1]) for message in relay.received if message[0] == "EVENT"]
    assert (piped.code, filed.code, made.code) == (0, 0, 0)
    told = {"relay": relay.url, "status": "ok", "message": ""}
    assert piped.json["relays"] == [told]
    assert piped.json["event"]["id"] == event.id
    assert event.id in filed.out
    assert [e.id for e in sent[:2]] == [event.id] * 2
    assert (sent[2].pubkey, sent[2].content) == (signer(5).pubkey, "hello")
    assert sent[2].tags == (("t", "x"),)


async def test_publish_events_one_a_line() -> None:
    lines = "\n".join([follow(1).to_json(), "", follow(2).to_json(), follow(1).to_json()])
    async with followers(0) as relay:
        done = await cli("publish", "-", "-r", relay.url, stdin=lines)
        sent = [message[1]["id"] for message in relay.received if message[0] == "EVENT"]
        spoilt = f"{follow(3).to_json()}\n{forged(follow(4))}"
        refused = await cli("publish", "-", "-r", relay.url, stdin=spoilt)
        assert len([m for m in relay.received if m[0] == "EVENT"]) == len(sent)
    assert (done.code, sent) == (0, [follow(1).id, follow(2).id])
    assert refused.code == 2
    assert "line 2: " in refused.err


async def test_a_relay_that_wants_to_know_who_publishes_is_answered() -> None:
    event, key = follow(1), signer(5)
    async with FaultyRelay(WantsAuth()) as relay:
        args = ("publish", "-", "-r", relay.url, "--timeout", "10")
        unknown = await cli(*args, stdin=event.to_json())
        known = await cli(*args, stdin=event.to_json(), NOSTR_TALLY_KEY=key.nsec())
        answers = [message[1]["pubkey"] for message in relay.received if message[0] == "AUTH"]
    assert (unknown.code, known.code, answers) == (1, 0, [key.pubkey])


async def test_published_tags_hold_what_identifiers_name(tmp_path: Any) -> None:
    key = tmp_path / "key"
    key.write_text(signer(5).nsec(), "ascii")
    key.chmod(0o600)
    npub, note = PublicKey(TARGET).encode(), Note(NOTE).encode()
    tags = [f"p={npub}", "-", f'["e","{note}","wss://r.example","reply"]']
    args = [
        "publish",
        "--content",
        "x",
        "--key-file",
        str(key),
        *(f"--tag={one}" for one in tags),
    ]
    async with followers(0) as relay:
        done = await cli(*args, "-r", relay.url)
        (sent,) = [parse_event(message[1]) for message in relay.received if message[0] == "EVENT"]
        broken = await cli(*args, "--tag", "p=npub1broken", "-r", relay.url)
        assert relay.verbs()["EVENT"] == 1
    assert done.code == 0
    assert sent.tags == (("p", TARGET), ("-",), ("e", NOTE, "wss://r.example", "reply"))
    assert broken.code == 2
    assert "tag p: 'npub1broken' is not a public key" in broken.err


class Rejects(Behaviour):
    """Refuses every event."""

    async def on_event(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("OK", message[1]["id"], False, "blocked: \x1b[31mno\x1b[0m")


async def test_publish_exit_codes() -> None:
    event = follow(1).to_json()
    async with followers(0, Rejects()) as no, followers(0) as yes, followers(0, Silent()) as mute:
        refused = await cli("publish", "-r", no.url, stdin=event)
        mixed = await cli("publish", "-r", no.url, "-r", yes.url, "--json", stdin=event)
        silent = await cli("publish", "-r", mute.url, "--timeout", "1", stdin=event)
    dead = await cli("publish", "-r", await dead_url(), "--timeout", "3", stdin=event)
    assert (refused.code, mixed.code, silent.code, dead.code) == (1, 0, 124, 3)
    assert (refused.err, mixed.err) == ("", "")
    assert silent.err == dead.err == "nostr-client: publish: no relay answered\n"
    assert "\x1b" not in refused.out
    assert [r["status"] for r in mixed.json["relays"]] == ["refused", "ok"]


def forged(event: Event) -> str:
    fields = json.loads(event.to_json())
    return json.dumps(fields | {"content": "changed"})


async def test_an_event_that_does_not_hold_is_not_sent() -> None:
    async with followers(0) as relay:
        done = await cli("publish", "-r", relay.url, stdin=forged(follow(1)))
        assert relay.connections == 0
    assert done.code == 2
    assert done.err.count("\n") == 1


async def test_relay_info() -> None:
    limits = {"max_limit": 500, "auth_required": False}
    document = {"name": "One", "supported_nips": [1, 45], "limitation": limits}
    async with FaultyRelay(info=document) as relay:
        told = await cli("relay", "show", relay.url, "--json")
        shown = await cli("relay", "show", relay.url)
    assert told.json["name"] == "One"
    assert told.json["limitation"]["max_limit"] == 500
    rows = dict(line.split(maxsplit=1) for line in shown.out.splitlines())
    assert rows["supported_nips"].rstrip() == "1, 45"
    assert rows["auth_required"].rstrip() == "false"
    assert "(" not in shown.out
    async with FaultyRelay(info=b"no json") as relay:
        broken = await cli("relay", "show", relay.url)
    assert broken.code == 1
    gone = await cli("relay", "show", await dead_url(), "--timeout", "3")
    assert gone.code == 3
    assert gone.err.count("\n") == 1


async def test_req_into_a_pipe_that_closes_early_ends_quietly() -> None:
    command = f"{sys.executable} -m nostr_client req --kind 3 -r {{}} | head -1"
    async with followers(800) as relay:
        process = await asyncio.create_subprocess_shell(
            command.format(relay.url),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(40):
            out, err = await process.communicate()
    assert out.count(b"\n") == 1
    assert err == b""


async def test_interrupting_a_live_req_is_exit_code_130() -> None:
    async with (
        followers(1) as relay,
        started("req", "--kind", "3", "--follow", "-r", relay.url) as process,
    ):
        assert process.stdout is not None
        assert parse_event(await process.stdout.readline()).id == follow(0).id
        await relay.broadcast(follow(1))
        assert parse_event(await process.stdout.readline()).id == follow(1).id
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert process.returncode == 130
    assert err.strip() == b"nostr-client: interrupted"
