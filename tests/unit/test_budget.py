"""The budget of a public relay: what it lets go, whose it is, and how it backs off."""

from __future__ import annotations

import dataclasses
import heapq
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.budget import JITTER, REMEMBERED, Budget, Budgets
from nostr_client.options import Options, RelayBudget

if TYPE_CHECKING:
    from random import Random

LIMITS = RelayBudget(
    requests_per_minute=60, requests_at_once=10, bytes_per_minute=6_000, bytes_at_once=1_000
)


def asked(budget: Budget, start: float, seconds: float, at_once: int) -> list[float]:
    """When somebody asks who has so many questions at once all the time, and waits as told."""
    now, times = start, []
    going = [start] * at_once
    while (now := heapq.heappop(going)) < start + seconds:
        went = now + budget.take(now)
        times.append(went)
        heapq.heappush(going, went)
    return sorted(times)


@given(st.floats(0, 1e6), st.floats(1, 300), st.integers(1, 5), st.randoms(use_true_random=False))
def test_no_window_holds_more_requests_than_the_budget(
    start: float, seconds: float, at_once: int, chance: Random
) -> None:
    times = asked(Budget(LIMITS, chance.random), start, seconds, at_once)
    for first, at in enumerate(times[::7]):
        for last, later in list(enumerate(times))[7 * first :: 11]:
            assert last - 7 * first + 1 <= 10 + (later - at) + 1
    assert len(times) >= min(10, 1)
    assert len(times) >= (seconds - 1) / (1 + JITTER)


def test_bytes_hold_up_requests_until_they_are_earned() -> None:
    budget = Budget(LIMITS, lambda: 0.0)
    budget.carried(1_500, now=0)
    assert budget.wait(0) == budget.pause(0) == 5
    assert budget.wait(5) == 0


def test_a_relay_that_floods_holds_itself_up_for_no_longer_than_the_burst_takes() -> None:
    budget = Budget(LIMITS, lambda: 0.0)
    for _ in range(1_000):
        budget.carried(10**9, now=0)
    assert budget.wait(0) == 10


def test_a_relay_that_says_rate_limited_is_left_alone_longer_each_time() -> None:
    limits = dataclasses.replace(LIMITS, first_pause=4, longest_pause=30)
    budget, now, pauses = Budget(limits, lambda: 1.0), 100.0, []
    for _ in range(5):
        for _ in range(3):  # what was under way is refused too
            budget.refused(now)
        pauses.append(budget.wait(now))
        now += budget.wait(now)
    assert pauses == [4, 8, 16, 30, 30]
    budget.answered(now)
    budget.refused(now)
    assert budget.wait(now) == 4


def test_an_answer_of_before_the_pause_does_not_shorten_the_next() -> None:
    budget = Budget(LIMITS, lambda: 1.0)
    budget.refused(0)
    budget.answered(1)
    budget.refused(6)
    assert budget.wait(6) == 10


def test_a_clock_that_begins_again_does_not_stop_anybody() -> None:
    budget = Budget(LIMITS, lambda: 1.0)
    budget.refused(1e9)
    assert budget.wait(0) <= LIMITS.longest_pause
    budget.refused(0)
    assert budget.wait(0) <= LIMITS.longest_pause


@pytest.mark.parametrize(
    "url",
    [
        "ws://127.0.0.1:7777",
        "ws://localhost",
        "ws://[::1]:80",
        "ws://192.168.1.2",
        "wss://10.0.0.1",
        "ws://0x7f.1",
        "ws://nas.local",
        "ws://relay.internal",
        "ws://umbrel",
    ],
)
def test_relays_of_ones_own_network_have_no_budget(url: str) -> None:
    assert Budgets().of(url, Options()) is None


def test_all_paths_and_ports_of_a_public_host_share_one() -> None:
    budgets, options = Budgets(), Options()
    urls = ["wss://r.example", "wss://R.example/a/b", "ws://r.example:8080", "wss://r.example."]
    found = [budgets.of(url, options) for url in urls]
    assert found[0] is not None
    assert all(one is found[0] for one in found)
    assert budgets.of("wss://other.example", options) is not found[0]
    onion = f"ws://{'a' * 56}.onion"
    assert budgets.of(onion, options) is not None


def test_the_user_lifts_it_for_a_host_or_for_all() -> None:
    own = Options(unlimited=frozenset({"wss://mine.example/inbox"}))
    assert Budgets().of("wss://mine.example", own) is None
    assert Budgets().of("wss://r.example", own) is not None
    assert Budgets().of("wss://r.example", Options(budget=None)) is None


def test_few_budgets_are_remembered_and_the_used_ones_stay() -> None:
    budgets, options = Budgets(), Options()
    first = budgets.of("wss://first.example", options)
    for n in range(2 * REMEMBERED):
        budgets.of(f"wss://r{n}.example", options)
        assert budgets.of("wss://first.example", options) is first
    assert len(budgets._known) == REMEMBERED
