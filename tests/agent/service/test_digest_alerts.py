"""The digest as an alert: at its time, once, over restarts too, and nothing unseen is a change."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from agent.alerts import outbox
from agent.alerts.bodies import DISCORD, Alert, TextLimit, body_of, text_of
from agent.alerts.conditions import parse_digest_time
from agent.alerts.dispatcher import AlertDispatcher
from agent.alerts.outbox import OUTBOX
from agent.config import parse
from agent.log import Log
from agent.service.tasks.digests import FIRST_S, DigestSender
from agent.specs import DigestAlert
from agent.state import AGENT
from nostr_client import count, hll
from nostr_client.count.claims import CLAIMS, ClaimBook
from nostr_client.count.merge import Claim, ClaimStatus, Method
from nostr_client.count.remembering import asked_of
from nostr_client.errors import InvalidInput
from nostr_client.options import ConnectionOptions
from nostr_client.store.file.database import Database
from nostr_client.store.schema import STORE
from nostr_client.watch import WATCHES, digest_rows
from nostr_client.watch.clock import SystemClock
from nostr_client.watch.digest import Digest, LowCoverage, Newcomers, RelayShare, WatchDigest
from nostr_client.watch.scheduler import Moment
from tests.agent.service.kit import an_agent, config_text, eventually
from tests.agent.service.test_alerts_delivered import Receiver
from tests.worlds import TARGET, signer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DAY, HOUR = 86_400, 3_600
MIDNIGHT = 20_000 * DAY
QUERY = count.followers(TARGET)


@pytest.mark.parametrize(
    ("text", "last", "due"),
    [
        ("08:00", MIDNIGHT, MIDNIGHT + 8 * HOUR),
        ("08:00", MIDNIGHT + 8 * HOUR, MIDNIGHT + DAY + 8 * HOUR),
        ("00:00", MIDNIGHT, MIDNIGHT + DAY),
        ("23:59", MIDNIGHT - 61, MIDNIGHT - 60),
        (" every  12h ", MIDNIGHT + 5, MIDNIGHT + 5 + 12 * HOUR),
    ],
)
def test_when_a_digest_is_due(text: str, last: float, due: float) -> None:
    assert parse_digest_time(text).after(last) == due


@pytest.mark.parametrize(
    "text",
    ["", "8:00", "24:00", "08:60", "12h", "every", "every 30m", "every soon", "08:00 every 1h"],
)
def test_other_times_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        parse_digest_time(text)
    more = f'[digest]\nalerts = [{{ when = "{text}", command = ["true"] }}]'
    with pytest.raises(InvalidInput, match=r"digest\.alerts\[0\]\.when"):
        parse(config_text(tmp_path, [], more))


class Wall(SystemClock):
    """A wall clock that a test sets."""

    def __init__(self) -> None:
        self.now = float(MIDNIGHT)
        super().__init__(lambda: self.now)


class Sending:
    """A sender over a store, and the beginnings of the digests that it made."""

    def __init__(self, database: Database, clock: Wall) -> None:
        self.made: list[int] = []
        self.clock = clock
        log = Log(clock.wall)
        dispatcher = AlertDispatcher(clock, log, database, ConnectionOptions())
        self.sender = DigestSender(clock, log, database, dispatcher, self.make)
        self._database = database

    async def make(self, since: int) -> Digest:
        self.made.append(since)
        return Digest(since=since, until=int(self.clock.now), watches=())

    async def at(self, now: float) -> int:
        """Look at the clock at this time; return how many deliveries there are by then."""
        self.clock.now = now
        wait = await self.sender.round()
        assert 0 <= wait <= 60
        return len(await self._database.read(outbox.waiting))


def alert(when: str, url: str = "https://a.example/x") -> DigestAlert:
    return DigestAlert(when=when, webhook=url, format="ntfy")


async def test_a_digest_is_sent_once_a_day_over_restarts_and_steps_of_the_clock() -> None:
    clock = Wall()
    async with await Database.open(":memory:", migrations=[AGENT, OUTBOX]) as database:
        first = Sending(database, clock)
        first.sender.configure([alert("08:00"), alert("08:00", "https://b.example/y")])
        assert await first.at(MIDNIGHT + 7 * HOUR) == 0
        assert await first.at(MIDNIGHT + 8 * HOUR + 5) == 2
        assert await first.at(MIDNIGHT + 23 * HOUR) == 2
        again = Sending(database, clock)
        again.sender.configure([alert("08:00")])
        assert await again.at(MIDNIGHT + 23 * HOUR) == 2
        assert await again.at(MIDNIGHT + 3 * DAY) == 3  # the agent was off: one, and not three
        assert await again.at(MIDNIGHT + 2 * DAY) == 3  # the clock was set back
        assert await again.at(MIDNIGHT + 3 * DAY + 8 * HOUR) == 4
        assert first.made == [MIDNIGHT + 7 * HOUR]
        assert again.made == [MIDNIGHT + 8 * HOUR + 5, MIDNIGHT + 3 * DAY]


async def test_a_time_that_comes_back_begins_again() -> None:
    clock = Wall()
    async with await Database.open(":memory:", migrations=[AGENT, OUTBOX]) as database:
        one = Sending(database, clock)
        one.sender.configure([alert("every 1h")])
        assert await one.at(MIDNIGHT) == 0
        one.sender.configure([])
        assert await one.at(MIDNIGHT + HOUR) == 0
        one.sender.configure([alert("every 1h")])
        assert await one.at(MIDNIGHT + 9 * HOUR) == 0
        assert await one.at(MIDNIGHT + 10 * HOUR) == 1
        assert one.made == [MIDNIGHT + 9 * HOUR]


class EndOfTime(Exception):
    """A hurried clock has come to its end."""


class Hurried(Wall):
    """A clock that passes as soon as somebody waits for it, until its end; `does` has what happens
    at which time."""

    def __init__(self, start: float, end: float, does: dict[float, Callable[[], object]]) -> None:
        super().__init__()
        self.now, self._end, self._does = start, end, does

    def moment(self) -> Moment:
        return Moment(self.now, self.now)

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        due = min(self._does, default=self._end)
        self.now = min(self.now + seconds, max(self.now, due))
        if self.now >= due and self._does:
            self._does.pop(due)()
        if self.now >= self._end:
            raise EndOfTime
        return event.is_set()

    async def sleep(self, seconds: float) -> None:
        await self.wait(asyncio.Event(), seconds)


@pytest.mark.parametrize("added", [0.0, 10.0], ids=["before the start", "after it"])
async def test_a_time_right_after_the_start_is_not_skipped(added: float) -> None:
    start, eight = MIDNIGHT + 8 * HOUR - 30.0, MIDNIGHT + 8 * HOUR
    does: dict[float, Callable[[], object]] = {}
    clock = Hurried(start, eight + 2 * HOUR, does)
    async with await Database.open(":memory:", migrations=[AGENT, OUTBOX]) as database:
        one = Sending(database, clock)
        does[start + added] = lambda: one.sender.configure([alert("08:00")])
        if not added:
            does.pop(start)()
        with pytest.raises(EndOfTime):
            await one.sender.run()
        assert one.made == [int(start + added)]
        (delivery,) = await database.read(outbox.waiting)
        assert FIRST_S <= delivery.at - start < FIRST_S + 61


class SendingOfStore(Sending):
    """A sender whose digests are of a store."""

    def __init__(self, book: ClaimBook, clock: Wall) -> None:
        super().__init__(book.database, clock)
        self.found: list[WatchDigest] = []

    async def make(self, since: int) -> Digest:
        found = await super().make(since)
        one = await self._database.read(
            lambda conn: digest_rows.read(conn, "w", QUERY, since, found.until)
        )
        self.found.append(one)
        return msgspec.structs.replace(found, watches=(one,))


async def test_hourly_digests_of_one_day_name_a_newcomer_once() -> None:
    assert QUERY.offset is not None
    begin, asked = MIDNIGHT + 9 * HOUR, asked_of(QUERY)
    clock, schemas = Wall(), [STORE, CLAIMS, WATCHES, AGENT, OUTBOX]
    async with await Database.open(":memory:", migrations=schemas) as database:
        book = ClaimBook(database)
        one = SendingOfStore(book, clock)
        one.sender.configure([alert("every 1h")])
        for minute in range(0, 241, 10):
            people = 40 if minute < 150 else 60
            keys = [signer(n).pubkey for n in range(people)]
            said = Claim(
                relay="wss://r.example",
                status=ClaimStatus.OK,
                method=Method.HLL,
                registers=hll.from_pubkeys(keys, QUERY.offset),
                asked_at=begin + 60.0 * minute - 5,
                answered_at=begin + 60.0 * minute - 4,
            )
            await book.remember(asked, [("wss://r.example", said)])
            await one.at(begin + 60.0 * minute)
        assert one.made == [begin + n * HOUR for n in range(4)]
        assert [found.change for found in one.found] == ["same", "same", "changed", "same"]
        texts = [text_of(Alert("a", digest(found), "every 1h", 0)) for found in one.found]
        assert [" new (" in text for text in texts] == [False, False, True, False]


def digest(*watches: WatchDigest, low: tuple[LowCoverage, ...] = ()) -> Digest:
    return Digest(since=0, until=DAY, watches=watches, coverages=low)


def watch(name: str, registers: int | None) -> WatchDigest:
    new = None
    if registers is not None:
        new = Newcomers(value=3 * registers, low=0, high=9, registers=registers, since=0)
    return WatchDigest(name=name, query="followers", since=0, new=new)


def test_a_text_says_no_change_seen_and_what_is_not_known() -> None:
    begin = "from 1970-01-01 00:00 to 1970-01-02 00:00: "
    assert text_of(Alert("a", digest(watch("a", 0)), "08:00", DAY)) == f"{begin}no change seen"
    low = LowCoverage(name="home", line=0.95, relays=(RelayShare(relay="wss://r", share=0.5),))
    found = digest(watch("a", 0), watch("b", 2), watch("c", None), low=(low,))
    assert text_of(Alert("a", found, "08:00", DAY)).splitlines() == [
        f"{begin}1 of 3 watches changed, not known of 1 watch",
        "b: not known yet; about 6 new (0 to 9), as 2 registers rose",
        "home: wss://r has 50.0 %, below 95.0 %",
    ]
    value = json.loads(body_of(Alert("a", found, "08:00", DAY)).data)
    assert [one["name"] for one in value["digest"]["watches"]] == ["b"]
    assert (value["changed"], value["same"], value["unknown"]) == (1, 1, 1)
    assert b"<br>" in body_of(Alert("a", found, "08:00", DAY), "matrix").data


def of_discord(alert: Alert) -> str:
    return str(json.loads(body_of(alert, "discord").data)["content"])


def of_ntfy(alert: Alert) -> str:
    return body_of(alert, "ntfy").data.decode()


@pytest.mark.parametrize(
    ("shown", "most", "size"),
    [(of_ntfy, 4_096, lambda text: len(text.encode())), (of_discord, 2_000, len)],
)
@pytest.mark.parametrize("sign", ["é", "_", "x"])
def test_a_text_fits_into_a_message_and_says_what_it_leaves_out(
    shown: Callable[[Alert], str], most: int, size: Callable[[str], int], sign: str
) -> None:
    """A mark of Markdown takes two characters; the line that says it is whole."""
    found = digest(*(watch(f"w{n}" + sign * 60, 2) for n in range(100)))
    text = shown(Alert("a", found, "08:00", DAY))
    assert size(text) <= most
    lines = text.replace("\\", "").splitlines()
    named = sum("registers rose" in line for line in lines)
    assert named > 3
    rest = f"and {100 - named} more lines: nostr-client digest --since 0 --format json"
    assert lines[-1] == rest
    assert [line for line in lines[1:-1] if not line.endswith("registers rose")] == []


def test_a_text_of_just_the_largest_size_is_whole() -> None:
    lines = ["a" * 100] * 3
    size = len("\n".join(lines))
    assert TextLimit(size, len).fitting(lines, "c").splitlines() == lines
    assert TextLimit(size - 1, len).fitting(lines, "c").splitlines() == [
        *lines[:2],
        "and 1 more line: c",
    ]
    assert TextLimit(60, len).fitting(lines, "c") == "and 3 more lines: c"


def test_one_line_that_is_too_long_ends_with_an_ellipsis() -> None:
    assert TextLimit(5, len).cut("abcde") == "abcde"
    assert TextLimit(5, len).cut("abcdef") == "abcd…"
    assert DISCORD.cut("_" * 1_500) == "_" * 999 + "…"
    assert DISCORD.size(DISCORD.cut("𝄞" * 1_500)) <= 2_000


async def test_an_agent_sends_the_digest_that_was_due_while_it_was_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.service.tasks.digests.FIRST_S", 0.0)
    async with Receiver() as hook:
        more = f'[digest]\nalerts = [{{ when = "08:00", webhook = "{hook.url}/d" }}]'

        async def came() -> bool:
            return bool(hook.taken)

        clock = Wall()
        for now, received in ((9 * HOUR, 0), (DAY + 9 * HOUR, 1), (DAY + 10 * HOUR, 1)):
            clock.now = MIDNIGHT + float(now)
            async with an_agent(tmp_path, [], more, clock=clock) as agent:
                await agent.client.add("app", "app.a", "5")
                if received:
                    await eventually(came)
                await agent.service.agent.digest_sender.round()
                await agent.service.agent.alerts.settle(30.0)
            assert len(hook.taken) == received
        value = json.loads(hook.taken[0].body)
        assert (value["when"], value["digest"]["since"]) == ("08:00", MIDNIGHT + 9 * HOUR)
