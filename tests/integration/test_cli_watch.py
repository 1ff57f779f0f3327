"""`nostr-client watch` and `count --store` from the outside."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from nostr_client.cli.parameters import Duration
from nostr_client.cli.relays import worst_code
from nostr_client.cli.watch import series
from nostr_client.codecs import nip19
from nostr_client.codecs.display import duration
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.count.figures import Figure, Within
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch import Point, Watch, WatchRepository
from nostr_client.watch.naming import _is_day_of
from tests import forks
from tests.faults import COUNT_REFUSALS, RefusesCount
from tests.faulty_relay import FaultyRelay
from tests.worlds import NOTE, START, TARGET, follow, reaction, signer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    Run = Callable[..., Coroutine[Any, Any, tuple[int, str, str]]]

NPUB = nip19.PublicKey(TARGET).encode()
PNG = b"\x89PNG\r\n\x1a\n"


def silent() -> RefusesCount:
    """A relay that knows no COUNT."""
    return RefusesCount(COUNT_REFUSALS["notice, rnostr"])


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `nostr-client` with a store of this test; gives exit code, stdout, stderr."""

    async def runs(*args: str) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            *(*forks.command("nostr_client"), *args),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"NOSTR_TALLY_STORE": str(tmp_path / "store.db"), "PATH": "", "COLUMNS": "200"},
        )
        out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    return runs


async def test_the_second_count_with_a_store_reads_what_is_new(run: Run, tmp_path: Path) -> None:
    async with FaultyRelay(silent(), events=[reaction(i) for i in range(1500)]) as relay:
        ask = ("count", "reactions", NOTE, "--relay", relay.url, "--json")
        ask = (*ask, "--store", str(tmp_path / "kept.db"))
        _, first, _ = await run(*ask)
        relay.events += [reaction(5000 + i) for i in range(5)]
        code, second, err = await run(*ask)
    assert (code, err) == (0, "")
    one, two = json.loads(first)["relays"][0], json.loads(second)["relays"][0]
    assert json.loads(first)["value"] == 1500
    assert json.loads(second)["value"] == 1505
    assert one["events_read"] >= 1500
    assert 5 <= two["events_read"] <= 5 + 360 + 3  # what is new, and the overlap of an hour
    assert two["last_read"] > 0


async def test_a_watch_from_its_first_to_its_last_day(run: Run, tmp_path: Path) -> None:
    async with FaultyRelay(silent(), events=[follow(i) for i in range(50)]) as relay:
        code, _, err = await run(
            *("watch", "add", "me", "followers", NPUB, "--relay", relay.url, "--interval", "1h")
        )
        assert (code, err) == (0, "watching me every 1h\n")
        code, _, err = await run("watch", "add", "me", "followers", NPUB, "-r", relay.url)
        assert code == 2
        assert "already" in err
        code, out, _ = await run("watch", "run", "--once")
        assert code == 0
        assert "followers: 50 (exact)" in out
        relay.events += [follow(i) for i in range(50, 60)]
        await asyncio.sleep(1.01 - time.time() % 1)  # a history has one point a second
        code, out, _ = await run("watch", "run", "me", "--once", "--json")
        assert json.loads(out)["figure"]["value"] == 60
    _, out, _ = await run("watch", "list", "--json")
    (listed,) = json.loads(out)
    assert (listed["name"], listed["interval"], listed["newest"]["value"]) == ("me", "1h", 60)
    _, out, _ = await run("watch", "list")
    assert re.search("^me +followers +at least 60", out, re.MULTILINE)
    _, out, _ = await run("watch", "show", "me", "--json")
    shown = json.loads(out)
    assert shown["counted"]["figure"]["value"] == 60
    assert shown["counted"]["relays"][0]["used"] == ["events"]
    code, out, _ = await run("watch", "show", "me")
    assert re.search("events +100 %", out)
    await check_history(run, tmp_path)
    await check_people(run)
    await check_digest(run)
    assert (await run("watch", "remove", "me"))[0] == 0
    code, _, err = await run("watch", "history", "me")
    assert (code, err) == (2, "nostr-client: no watch is named 'me'\n")


async def test_a_run_of_watches_names_people_without_keeping_their_events(
    run: Run, tmp_path: Path
) -> None:
    template = EventTemplate(kind=0, content='{"name":"Ann"}', created_at=START)
    profile = signer(1).sign_now(template).event
    async with FaultyRelay(silent(), events=[reaction(1, at=int(time.time())), profile]) as relay:
        await run("watch", "add", "likes", "reactions", NOTE, "--relay", relay.url)
        code, _, err = await run("watch", "run", "--once")
        assert (code, err) == (0, "")
        _, out, _ = await run("watch", "people", "likes", "--json")
        (person,) = json.loads(out)["people"]
        assert (person["pubkey"], person["name"]) == (profile.pubkey, "Ann")
        async with await SqliteStore.open(tmp_path / "store.db") as store:
            assert [one.id for one in await store.query([Filter()])] == [profile.id]
        is_asked_again = _is_day_of(profile.pubkey, int(time.time()) // 86_400)
        await run("watch", "run", "--once")
        asked = [one[2] for one in relay.received if one[0] == "REQ"]
    assert sum(one.get("kinds") == [0] for one in asked) == 1 + is_asked_again


async def check_people(run: Run) -> None:
    """Those of the first reading are no news; the ten that came since are named."""
    code, out, _ = await run("watch", "people", "me", "--since", "0", "--json")
    found = json.loads(out)
    assert (code, found["watch"], found["known"], found["more"]) == (0, "me", 60, 0)
    assert {one["pubkey"] for one in found["people"]} == {follow(i).pubkey for i in range(50, 60)}
    assert {one["act"] for one in found["people"]} == {"followed"}
    assert found["unnamed"] is None
    _, out, _ = await run("watch", "people", "me", "--since", "0", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["pubkey"] for row in rows] == [one["pubkey"] for one in found["people"]]
    _, out, _ = await run("watch", "people", "me", "--since", "0")
    assert out.count("followed") == 10
    _, out, err = await run("watch", "people", "me", "--since", "2100-01-01")
    assert (out, err) == ("", "nobody was seen to do anything since 2100-01-01 00:00\n")


async def check_digest(run: Run) -> None:
    """Nothing was known a day ago, so how far the number changed is not known either."""
    assert (await run("counter", "stream", "add", "app", "--subject", "app.>"))[0] == 0
    assert (await run("counter", "add", "app.a", "5"))[0] == 0
    code, out, err = await run("digest")
    assert (code, err) == (0, "")
    assert (
        "me (followers)\n  at least 60 distinct authors\n  how far it changed is not known" in out
    )
    assert "10 followed" in out
    assert "counters of app\n  app.a: 5, a new counter\n" in out
    later = str(int(time.time()) + 1)  # what happens in a second is of this second
    code, out, _ = await run("digest", "--since", later, "--json")
    assert json.loads(out)["counters"] == [
        {"stream": "app", "counters": 1, "changed": 0, "moves": []}
    ]
    assert json.loads(out)["syncs"] is None
    (one,) = json.loads(out)["watches"]
    assert (one["name"], one["now"]["value"], one["acts"]) == ("me", 60, {})
    assert (one["new"], one["asked_at"] <= one["since"]) == (None, True)
    _, out, _ = await run("digest", "--since", "now", "--format", "markdown")
    assert "## me \\(followers\\)\n\n- at least 60 distinct authors\n- not asked since 20" in out


async def check_history(run: Run, tmp_path: Path) -> None:
    _, out, _ = await run("watch", "history", "me", "--json")
    points = json.loads(out)["points"]
    assert [point["value"] for point in points] == [50, 60]
    _, out, _ = await run("watch", "history", "me", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["value"] for row in rows] == ["50", "60"]
    assert [row["exact"] for row in rows] == ["true", "false"]
    assert rows[0].keys() == points[0].keys()
    file = tmp_path / "series.parquet"
    code, _, _ = await run("watch", "history", "me", "--format", "parquet", "-o", str(file))
    assert code == 0
    assert pq.read_table(file).to_pylist() == points
    picture = tmp_path / "series.png"
    code, _, _ = await run("watch", "history", "me", "--plot", str(picture))
    assert code == 0
    assert picture.read_bytes().startswith(PNG)
    _, out, _ = await run("watch", "history", "me")
    assert out.splitlines()[0] == "▁█"
    code, _, err = await run("watch", "history", "me", "--format", "parquet")
    assert code == 2
    assert "--output" in err


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["watch", "add", "x", "followers", "nobody"], 2, "not bech32"),
        (["watch", "add", "x"], 2, "WHAT and TARGET"),
        (["watch", "add", "a/b", "followers", NPUB], 2, "name"),
        (
            ["watch", "add", "x", "followers", NPUB, "--interval", "soon"],
            2,
            "is not a number and a unit",
        ),
        (["watch", "add", "x", "followers", NPUB, "--interval", "1s"], 2, "10 seconds"),
        (["watch", "list"], 1, "no store"),
        (["watch", "show", "x"], 1, "no store"),
        (["watch", "run", "x", "--once"], 1, "no store"),
        (["watch", "run"], 1, "no store"),
        (["watch", "remove", "x"], 1, "no store"),
    ],
)
async def test_mistakes_get_one_clear_line(
    run: Run, tmp_path: Path, args: list[str], code: int, says: str
) -> None:
    got, out, err = await run(*args)
    assert (got, out) == (code, "")
    assert says in err
    assert err.count("\n") == 1
    assert not (tmp_path / "store.db").exists()


@pytest.mark.parametrize("own", [True, False])
async def test_what_other_relays_said_is_not_part_of_a_watch(
    run: Run, tmp_path: Path, own: bool
) -> None:
    mine = [follow(i) for i in range(3)]
    strange = [follow(i) for i in range(100, 120)]
    async with FaultyRelay(silent(), events=mine) as one:
        async with FaultyRelay(silent(), events=strange) as other:
            given = ("--relay", one.url)
            await run("watch", "add", "me", "followers", NPUB, *(given if own else ()))
            await run("watch", "run", "--once", *(() if own else given))
            ask = ("count", "followers", NPUB, "-r", other.url)
            code, _, _ = await run(*ask, "--store", str(tmp_path / "store.db"))
            assert code == 0
        _, out, err = await run("watch", "show", "me", "--json")
        assert (err, shown_of(out)) == ("", (3, [one.url]))


def shown_of(out: str) -> tuple[int, list[str]]:
    counted = json.loads(out)["counted"]
    return counted["figure"]["value"], [claim["relay"] for claim in counted["relays"]]


async def test_before_a_watch_is_asked_it_shows_nothing_of_others(run: Run, tmp_path: Path) -> None:
    async with FaultyRelay(silent(), events=[follow(1)]) as relay:
        ask = ("count", "followers", NPUB, "-r", relay.url)
        await run(*ask, "--store", str(tmp_path / "store.db"))
    await run("watch", "add", "me", "followers", NPUB)
    code, out, _ = await run("watch", "show", "me")
    assert code == 0
    assert "not known (0 of 0 relays answered)" in out


async def test_where_an_older_version_did_not_note_whom_it_asked_that_is_said(
    run: Run, tmp_path: Path
) -> None:
    async with FaultyRelay(silent(), events=[follow(1)]) as relay:
        await run("watch", "add", "me", "followers", NPUB)
        await run("watch", "run", "--once", "-r", relay.url)
    with closing(sqlite3.connect(tmp_path / "store.db")) as conn, conn:
        conn.execute("UPDATE watch SET relays = NULL")
    code, out, err = await run("watch", "show", "me")
    assert (code, err) == (
        0,
        "me: all relays that were ever asked about it, until it is asked again\n",
    )
    assert re.search("^followers: (about )?1 ", out, re.MULTILINE)  # exact within the second


async def test_a_relay_that_a_watch_leaves_out_is_shown_and_not_counted(
    run: Run, tmp_path: Path
) -> None:
    one, other = (FaultyRelay(silent(), events=[follow(n)]) for n in (1, 2))
    async with one, other:
        made = Watch(
            name="me",
            query="followers",
            target=NPUB,
            relays=(one.url, other.url),
            excluded=(other.url.replace("ws://", "WS://"),),
        )
        async with await WatchRepository.open(tmp_path / "store.db") as book:
            await book.add(made)
        _, out, _ = await run("watch", "run", "--once")
        assert "followers: 1 (exact)" in out
    _, out, _ = await run("watch", "show", "me", "--json")
    value, relays = shown_of(out)
    assert (value, sorted(relays)) == (1, sorted(made.relays))
    code, out, err = await run("watch", "show", "me", "--overlap")
    assert code == 0
    assert f"not compared: {other.url}: left out by the watch" in err
    assert f"not compared: {one.url}: no other relay shows its people" in err
    _, out, _ = await run("watch", "show", "me")
    assert re.search(f"^{re.escape(other.url)} .* left out ", out, re.MULTILINE)


@pytest.mark.parametrize("once", [(), ("--once",)])
async def test_watches_that_no_relay_can_be_asked_for_end_at_once(
    run: Run, once: tuple[str, ...]
) -> None:
    await run("watch", "add", "one", "followers", NPUB)
    await run("watch", "add", "two", "followers", NPUB)
    code, out, err = await asyncio.wait_for(run("watch", "run", *once), 20)
    lines = [f"{name}: no relay to ask: give --relay or --indexer" for name in ("one", "two")]
    assert (code, out) == (2, "")
    assert err.splitlines() == [*lines, "nostr-client: no relay to ask"]


async def test_files_that_are_there_are_kept_and_an_empty_history_is_empty(
    run: Run, tmp_path: Path
) -> None:
    await run("watch", "add", "me", "followers", NPUB)
    file = tmp_path / "there"
    file.write_text("mine")
    for option in ("--output", "--plot"):
        code, out, err = await run("watch", "history", "me", option, str(file))
        assert (code, out) == (2, "")
        assert err == f"nostr-client: {file} exists; choose another name or remove it\n"
    assert file.read_text() == "mine"
    assert await run("watch", "history", "me") == (0, "", "no numbers of me yet\n")
    _, out, err = await run("watch", "history", "me", "--format", "csv")
    assert (out.strip().split(","), err) == (list(series.COLUMNS), "")


async def test_a_watch_without_relays_is_named_and_stops_no_other(run: Run) -> None:
    async with FaultyRelay(silent(), events=[follow(i) for i in range(3)]) as relay:
        await run("watch", "add", "good", "followers", NPUB, "--relay", relay.url)
        await run("watch", "add", "lost", "followers", NPUB)
        code, out, err = await run("watch", "run", "--once")
    assert (code, err) == (3, "lost: no relay to ask: give --relay or --indexer\n")
    assert "good  followers: 3 (exact)" in out
    assert (await run("watch", "run", "lost", "--once"))[0] == 2


async def test_a_watch_whose_relays_are_not_found_says_which_step_failed(run: Run) -> None:
    """The four sentences of `count`, and its exit code."""
    private = EventTemplate(kind=10002, tags=(("r", "ws://10.0.0.1"),), created_at=1)
    listed = signer(7)
    async with FaultyRelay(events=[listed.sign_now(private).event]) as index:
        await run("watch", "add", "event", "reactions", "ab" * 32)
        await run("watch", "add", "nobody", "followers", NPUB)
        await run("watch", "add", "private", "followers", nip19.PublicKey(listed.pubkey).encode())
        code, _, err = await run("watch", "run", "--once", "--indexer", index.url)
        silent = await run("watch", "run", "--once", "nobody", "--indexer", "ws://127.0.0.1:9")
    told = dict(line.split(": no relay to ask: ", 1) for line in err.splitlines())
    assert code == 3
    assert told["event"].startswith("the event was not found on the indexers")
    assert told["nobody"].startswith("no relay list (NIP-65) of the target's author was found")
    assert told["private"].startswith("the author's list names only relays that are not asked")
    assert silent[0] == 3
    assert silent[2].startswith("nobody: no relay to ask: no indexer answered (ws://127.0.0.1:9")


async def test_each_watch_is_to_have_an_answer(run: Run) -> None:
    async with FaultyRelay(silent(), events=[follow(1)]) as relay:
        await run("watch", "add", "good", "followers", NPUB, "--relay", relay.url)
        await run("watch", "add", "away", "followers", NPUB, "--relay", "ws://127.0.0.1:9")
        assert (await run("watch", "run", "--once"))[0] == 3
        assert (await run("watch", "run", "good", "--once"))[0] == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(10, "10s"), (900, "15m"), (10.5, "10.5s"), (5400, "90m"), (99999 * 86400, "99999d")],
)
def test_a_duration_is_printed_as_it_is_given(seconds: float, text: str) -> None:
    assert duration(seconds) == text
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize(
    ("codes", "code"),
    [([], 0), ([0, 0], 0), ([0, 3], 3), ([124, 0], 124), ([124, 124], 124), ([124, 3, 0], 3)],
)
def test_the_worst_of_many_questions_decides(codes: list[int], code: int) -> None:
    assert worst_code(codes) == code


async def test_a_watch_within_a_web_prints_both_figures_or_why_there_is_one(
    run: Run, tmp_path: Path
) -> None:
    me = signer(90)
    npub = nip19.PublicKey(me.pubkey).encode()
    tags = tuple(("p", signer(n).pubkey) for n in (1, 2, 60))
    list_ = me.sign_now(EventTemplate(kind=3, content="", tags=tags, created_at=1_700_000_000))
    async with FaultyRelay(events=[follow(i) for i in range(5)]) as relay:
        asked = ("watch", "add", "w", "followers", NPUB, "-r", relay.url)
        wrong = await run(*asked, "--within", "me")
        added = await run(*asked, "--within", npub)
        unshown = await run("watch", "show", "w")
        before = await run("watch", "run", "--once")
        async with await SqliteStore.open(tmp_path / "store.db") as store:
            await store.save([list_])
        after = await run("watch", "run", "--once")
        data = await run("watch", "run", "--once", "--json")
        shown = await run("watch", "show", "w")
    assert f"within {npub}: not known yet" in unshown[1]
    assert f"within {npub}:1 (3 people): 2 (exact) distinct authors, 20" in shown[1]
    assert (wrong[0], "an npub instead" in wrong[2]) == (2, True)
    assert added[0] == before[0] == after[0] == 0, added
    assert "no follow list" in before[2]
    assert "within" not in before[1]
    assert f"within {npub}:1 (3 people): 2 (exact)" in after[1]
    assert json.loads(data[1])["within"]["figure"]["value"] == 2


def test_a_history_has_the_people_within_the_web_of_trust(tmp_path: Path) -> None:
    figure = Figure(value=40, low=38, high=42)
    near = Within(key=TARGET, depth=2, people=90, followed=9, lists=9, figure=figure, at=7)
    known = Point.sample(60, 5, 5, 5, exact=True, unit="distinct_authors", within=near)
    unknown = Point.sample(0, 5, 5, 5, exact=True, unit="distinct_authors")
    first, second = series.as_dicts([unknown, known])
    names = ["within", "within_low", "within_high", "within_exact", "within_web"]
    assert [first[name] for name in names] == [None] * 5
    assert [second[name] for name in names] == [40, 38, 42, False, f"{NPUB}:2"]
    assert series.as_csv([unknown, known]).splitlines()[1].endswith(",1,,,,,")
    assert series.as_csv([unknown, known]).splitlines()[2].endswith(f",40,38,42,false,{NPUB}:2")
    series.write_parquet([unknown, known], tmp_path / "w.parquet")
    assert pq.read_table(tmp_path / "w.parquet").to_pylist() == [first, second]
    plain, line = series.lines_of([unknown, known])
    assert "within" not in plain
    assert line.endswith(f"5 (exact); within {NPUB}:2: about 40 (38 to 42)")
