"""An alert of a rate: what two estimates differ by chance crosses no line."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from agent.alerts import outbox
from agent.alerts.dispatcher import AlertDispatcher
from agent.alerts.outbox import OUTBOX
from agent.api import schema
from agent.log import Log
from agent.state import AGENT
from nostr_client import count, hll
from nostr_client.count.claims import CLAIMS, ClaimBook
from nostr_client.count.merge import Claim, ClaimStatus, Method
from nostr_client.count.remembering import asked_of
from nostr_client.options import ConnectionOptions
from nostr_client.store.file.database import Database
from nostr_client.store.schema import STORE
from nostr_client.watch import WATCHES, repository
from nostr_client.watch.clock import SystemClock
from nostr_client.watch.definition import AlertSpec, Watch
from nostr_client.watch.points import point_at
from tests.worlds import TARGET, signer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

T0 = 1_700_000_000
RELAY = "wss://r.example"
QUERY = count.followers(TARGET)


class Fixture:
    """A watch with alerts, whose numbers a test sets."""

    def __init__(self, database: Database, spec: Watch) -> None:
        self._database = database
        self._spec = spec
        self._book = ClaimBook(database)
        self.now = float(T0)
        clock = SystemClock(lambda: self.now)
        self._alerts = AlertDispatcher(clock, Log(clock.wall), database, ConnectionOptions())

    async def counted(self, at: int, people: int | None, figure: schema.Figure) -> list[str]:
        """Take a number, and the people in the registers; return the texts of all alerts."""
        self.now = float(T0 + at)
        if people is not None:
            assert QUERY.offset is not None
            keys = [signer(n).pubkey for n in range(people)]
            registers = hll.from_pubkeys(keys, QUERY.offset)
            claim = Claim(
                relay=RELAY,
                status=ClaimStatus.OK,
                method=Method.HLL,
                registers=registers,
                asked_at=self.now,
            )
            await self._book.remember(asked_of(QUERY), [(RELAY, claim)])
        point = point_at(T0 + at, figure, "distinct_authors")
        await self._database.write(lambda c: repository.asked(c, "w", T0 + at, point))
        state = schema.WatchState(
            spec=self._spec,
            origin="api",
            figure=figure,
            unit="distinct_authors",
            updated_at=self.now,
        )
        await self._alerts.check(self._spec, state, 0, {RELAY})
        waiting = await self._database.read(outbox.waiting)
        return [json.loads(one.body)["text"] for one in waiting]


@asynccontextmanager
async def watched(*lines: str) -> AsyncIterator[Fixture]:
    alerts = tuple(
        AlertSpec(when=one, webhook="https://a.example/x", format="slack") for one in lines
    )
    spec = Watch(name="w", query="followers", target=TARGET, alerts=alerts)
    migrations = [STORE, CLAIMS, WATCHES, AGENT, OUTBOX]
    async with await Database.open(":memory:", migrations=migrations) as database:
        await database.write(lambda c: repository.add(c, spec))
        yield Fixture(database, spec)


def about(value: int) -> schema.Figure:
    return schema.Figure(value=value, low=value - 9, high=value + 9)


@pytest.mark.parametrize("line", ["-3 in 1h", "+2 % in 1d"])
async def test_estimates_that_differ_by_chance_cross_no_line(line: str) -> None:
    async with watched(line) as one:
        for at, value in ((0, 100), (600, 104), (1200, 97), (1800, 103), (2400, 95)):
            assert await one.counted(at, 100, about(value)) == []


async def test_people_whom_registers_show_cross_it() -> None:
    async with watched("+50 in 1h", "-50 in 1h") as one:
        assert await one.counted(0, 100, about(100)) == []
        (text,) = await one.counted(600, 240, about(240))
        assert text.startswith("w: about 240 (231 to 249) distinct authors")
        assert ", about +1" in text
        assert " in 10m" in text
        _, fell = await one.counted(4200, 100, about(100))
        assert ", about -1" in fell


async def test_a_level_says_that_no_change_is_seen() -> None:
    async with watched("> 101") as one:
        assert await one.counted(0, 100, about(100)) == []
        (text,) = await one.counted(600, 100, about(103))
        assert ", no change seen in 10m; " in text


async def test_exact_numbers_cross_it_as_they_are() -> None:
    async with watched("-3 in 1h") as one:
        assert await one.counted(0, None, schema.Figure.exactly(100)) == []
        (text,) = await one.counted(600, None, schema.Figure.exactly(97))
        assert "-3 in 10m (from 100)" in text
