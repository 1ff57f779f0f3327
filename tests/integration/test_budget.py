"""All that a process asks of public relays keeps to one budget for each, on a virtual clock."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.codecs.filters import Filter
from nostr_client.count.asking import CountOptions
from nostr_client.count.procedure import CountEngine
from nostr_client.count.queries import query as make_query
from nostr_client.errors import RelayError, RelayRefused
from nostr_client.network.access.budget import Budgets
from nostr_client.network.pool import RelayPool
from nostr_client.options import Options, RelayBudget, Timeouts
from tests.conformance.store_events import make
from tests.worlds import clock
from tests.worlds.wire import MemoryTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from nostr_client.count.merge import Claim
    from nostr_client.network.relay import Relay

OPTIONS = Options(timeouts=Timeouts(heartbeat=1e9))
BUDGET = RelayBudget()
FOLLOWERS = Filter(kinds=(3,), tags={"#p": ("ab" * 32,)})
DAY = 86_400.0


class House:
    """A public relay that writes down when it is asked, and answers at once with few bytes."""

    latency = 0.05
    reachable = True

    def __init__(self, size: int = 0, refusal: str = "") -> None:
        self.asked: list[float] = []
        self.verbs: dict[str, int] = defaultdict(int)
        self.bytes = 0
        self._notice = json.dumps(["NOTICE", "x" * size]) if size else ""
        self._refusal = refusal
        self._send: dict[House, Callable[[str], None]] = {}

    def document(self) -> dict[str, object] | None:
        self.asked.append(asyncio.get_running_loop().time())
        self.verbs["NIP-11"] += 1
        return {"name": "a house"}

    def open(self, send: Callable[[str], None], cut: Callable[[], None]) -> Line:
        return Line(self, send)

    def answer(self, verb: str, id_: str) -> str | None:
        """What a frame gets, and the note that it came."""
        if verb in ("CLOSE", "NEG-CLOSE"):
            return None
        self.asked.append(asyncio.get_running_loop().time())
        self.verbs[verb] += 1
        if self._refusal:
            return json.dumps(["CLOSED", id_, self._refusal])
        if verb == "COUNT":
            return json.dumps(["COUNT", id_, {"count": 7}])
        if verb == "EVENT":
            return json.dumps(["OK", id_, True, ""])
        if verb == "NEG-OPEN":
            return json.dumps(["NEG-ERR", id_, "blocked: not here"])
        return json.dumps(["EOSE", id_])


class Line:
    def __init__(self, house: House, send: Callable[[str], None]) -> None:
        self._house = house
        self._send = send

    def receive(self, text: str) -> None:
        verb, id_, *_ = json.loads(text)
        id_ = id_["id"] if verb == "EVENT" else id_
        if self._house._notice:
            self._house.bytes += len(self._house._notice)
            self._send(self._house._notice)
        answer = self._house.answer(verb, id_)
        if answer is not None:
            self._send(answer)

    def was_read(self, text: str) -> None:
        """Nothing waits for that."""

    def close(self) -> None:
        """Nothing is kept."""


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    clock.run(main)


def pool_of(houses: dict[str, House], budgets: Budgets, options: Options = OPTIONS) -> RelayPool:
    return RelayPool(
        options=options,
        transport=MemoryTransport(houses, options),
        budgets=budgets,
        rand=lambda: 0.5,
    )


def check_kept(house: House) -> None:
    """In no minute more than the burst and a minute's rate; in all no more than the rate."""
    times, per_minute = house.asked, BUDGET.requests_per_minute
    assert times == sorted(times)
    most = BUDGET.requests_at_once + per_minute
    first = 0
    for last, at in enumerate(times):
        while times[first] <= at - 60:
            first += 1
        assert last - first + 1 <= most + 1
    assert len(times) <= BUDGET.requests_at_once + per_minute * (times[-1] - times[0]) / 60 + 1


async def watch(
    relays: list[Relay], places: dict[str, asyncio.Semaphore], every: float, until: float, n: int
) -> None:
    """One watch, which asks each of its relays every so often, two at once as the agent does."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(every * (n % 97) / 97)
    while loop.time() < until:
        for relay in relays:
            async with places[relay.url]:
                if loop.time() < until:
                    await relay.count(FOLLOWERS)
        await asyncio.sleep(every)


async def crowd(watches: int, houses: dict[str, House], seconds: float, every: float) -> None:
    budgets = Budgets(lambda: 0.5)
    places = {url: asyncio.Semaphore(2) for url in houses}
    async with pool_of(houses, budgets) as pool:
        relays = [pool.relay(url) for url in houses]
        places = {relay.url: asyncio.Semaphore(2) for relay in relays}
        async with asyncio.TaskGroup() as group:
            for n in range(watches):
                some = [relays[(n + 7 * k) % len(relays)] for k in range(4)]
                group.create_task(watch(some, places, every, seconds, n))


def named(number: int) -> dict[str, House]:
    return {f"wss://house{n}.example": House() for n in range(number)}


def test_a_crowd_of_watches_keeps_the_budget() -> None:
    """200 watches over 2 relays, twice as much as these may be asked."""
    houses = named(2)
    run(lambda: crowd(200, houses, 900.0, every=60.0))
    for house in houses.values():
        check_kept(house)
        assert len(house.asked) > 900 / 60 * BUDGET.requests_per_minute * 0.7


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_2000_watches_over_20_relays_keep_the_budget_for_a_day() -> None:
    houses = named(20)
    run(lambda: crowd(2_000, houses, DAY, every=1_800.0))
    for house in houses.values():
        check_kept(house)
        assert len(house.asked) >= 2_000 * 4 / 20 * DAY / 1_800 * 0.9


@pytest.mark.parametrize("of", ["process", "user"])
def test_counts_reads_probes_and_sessions_of_two_clients_share_one_budget(
    tmp_path: Path, of: str
) -> None:
    """By one process's budgets, or by two of which each knows the file alone."""
    house = House()
    options = dataclasses.replace(OPTIONS, share_budget=of == "user")
    url = "wss://house.example"

    async def ask_on(ask: Callable[[], Any], until: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            await ask()

    async def negotiate(relay: Relay) -> None:
        with await relay.negotiate(FOLLOWERS, b"\x61") as channel:
            await channel.receive()

    async def main() -> None:
        mine = theirs = Budgets(lambda: 0.5, lambda: tmp_path / "budgets")
        if options.share_budget:
            theirs = Budgets(lambda: 0.5, lambda: tmp_path / "budgets")
        houses = {url: house, f"{url}/other": house}
        async with pool_of(houses, mine, options) as one, pool_of(houses, theirs, options) as two:
            here, there = one.relay(url), two.relay(f"{url}/other")
            async with asyncio.TaskGroup() as group:
                for ask in (
                    lambda: here.count(FOLLOWERS),
                    lambda: here.fetch(FOLLOWERS),
                    lambda: here.info(refresh=True),
                    lambda: negotiate(there),
                    lambda: there.count(FOLLOWERS),
                ):
                    group.create_task(ask_on(ask, 600.0))

    run(main)
    check_kept(house)
    assert set(house.verbs) == {"COUNT", "REQ", "NIP-11", "NEG-OPEN"}
    assert min(house.verbs.values()) > 50


def test_bytes_are_kept_to_and_a_question_that_would_wait_too_long_is_refused() -> None:
    house = House(size=1_000_000)
    budget = RelayBudget(bytes_per_minute=6_000_000, bytes_at_once=10_000_000)
    options = Options(timeouts=Timeouts(heartbeat=1e9), budget=budget)
    refused: list[RelayRefused] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with pool_of({"wss://house.example": house}, Budgets(), options) as pool:
            relay = pool.relay("wss://house.example")
            while loop.time() < 600:
                try:
                    await relay.count(FOLLOWERS, timeout=5)
                except RelayRefused as error:
                    refused.append(error)
                    await asyncio.sleep(10)

    run(main)
    assert house.bytes <= budget.bytes_at_once + budget.bytes_per_minute * 10 + 2_000_000
    assert house.bytes >= budget.bytes_per_minute * 8
    assert {one.prefix for one in refused} == {"rate-limited"}
    assert "our own budget" in str(refused[0])


def test_the_events_of_a_sync_keep_the_budget_of_bytes() -> None:
    house = House()
    budget = RelayBudget(bytes_per_minute=60_000, bytes_at_once=100_000)
    options = Options(timeouts=Timeouts(heartbeat=1e9), budget=budget)
    took: list[float] = []

    async def hand_over(relay: Relay, number: int) -> None:
        try:
            await relay.publish(make(content=f"{number}".ljust(10_000, "x")), 600, paced=True)
        except RelayError:
            raise AssertionError from None
        took.append(asyncio.get_running_loop().time())

    async def main() -> None:
        async with pool_of({"wss://house.example": house}, Budgets(), options) as pool:
            relay = pool.relay("wss://house.example")
            async with asyncio.TaskGroup() as group:
                for number in range(40):
                    group.create_task(hand_over(relay, number))

    run(main)
    assert len(took) == 40
    assert max(took) - min(took) > (40 * 10_000 - 110_000) / 60_000 * 60 * 0.9


@pytest.mark.parametrize("refuses", ["", "unsupported: no COUNT here"])
@pytest.mark.parametrize("read", [False, True], ids=["count", "read"])
def test_a_count_that_our_own_budget_holds_back_says_so(read: bool, refuses: str) -> None:
    """A relay that was not asked did not refuse, is not late and is not taken for silent."""
    house = House(refusal=refuses)
    budget = RelayBudget(requests_per_minute=6, requests_at_once=1)
    options = Options(timeouts=Timeouts(heartbeat=1e9, group=5), budget=budget)
    claims: list[Claim] = []

    async def main() -> None:
        counting = CountOptions(timeouts=options.timeouts, read=read)
        async with pool_of({"wss://house.example": house}, Budgets(), options) as pool:
            relay = pool.relay("wss://house.example")
            for _ in range(3):
                query, asked = make_query(FOLLOWERS), [(relay.url, relay)]
                answer = await CountEngine(now=time.time).count(query, asked, counting)
                claims.extend(answer.relays)
            assert relay.capabilities.count is not False or refuses

    run(main)
    told = [str(one.status) for one in claims]
    assert told[1:] == ["held_back"] * 2, claims
    assert any(
        "our own budget for this relay is spent" in warning for warning in claims[-1].warnings
    )


@pytest.mark.parametrize("how", ["COUNT", "REQ"])
def test_a_relay_that_says_rate_limited_is_asked_rarely(how: str) -> None:
    house = House(refusal="rate-limited: slow down")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with pool_of({"wss://house.example": house}, Budgets(lambda: 1.0)) as pool:
            relay = pool.relay("wss://house.example")
            while loop.time() < 3_600:
                with pytest.raises(RelayError):
                    await (relay.count(FOLLOWERS) if how == "COUNT" else relay.fetch(FOLLOWERS))
                await asyncio.sleep(1)

    run(main)
    gaps = [b - a for a, b in itertools.pairwise(house.asked)]
    assert gaps[0] >= BUDGET.first_pause
    assert all(a < b + 1 for a, b in itertools.pairwise(gaps))
    assert len(house.asked) < 30


def test_what_nobody_waits_for_any_more_is_not_sent() -> None:
    house = House()
    budget = RelayBudget(requests_per_minute=6, requests_at_once=1)
    options = Options(timeouts=Timeouts(heartbeat=1e9), budget=budget)

    async def main() -> None:
        async with pool_of({"wss://house.example": house}, Budgets(), options) as pool:
            relay = pool.relay("wss://house.example")
            await relay.count(FOLLOWERS)
            asking = [asyncio.ensure_future(relay.count(FOLLOWERS, 12)) for _ in range(50)]
            results = await asyncio.gather(*asking, return_exceptions=True)
            assert sum(isinstance(one, RelayError) for one in results) >= 48
            await asyncio.sleep(600)

    run(main)
    assert len(house.asked) <= 4


def test_a_relay_of_ones_own_is_asked_as_fast_as_it_answers() -> None:
    house = House()

    async def main() -> None:
        async with pool_of({"ws://127.0.0.1:7777": house}, Budgets()) as pool:
            relay = pool.relay("ws://127.0.0.1:7777")
            for _ in range(500):
                await relay.count(FOLLOWERS)
            assert asyncio.get_running_loop().time() < 60

    run(main)
    assert len(house.asked) == 500
