"""The budget of a public relay: what it lets go, whose it is, and how it backs off."""

from __future__ import annotations

import dataclasses
import heapq
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nostr_client.network.access.budget import JITTER, REMEMBERED, Budget, Budgets
from nostr_client.network.access.budget_file import PLACES, BudgetFile, digest_of
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


# Shared with other programs.

OPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "carried", "refused", "answered", "wait"]),
        st.floats(0, 20),
        st.integers(0, 1),
    ),
    max_size=40,
)


def do(budget: Budget, what: str, now: float) -> float | None:
    if what == "carried":
        budget.carried(300_000, now)
        return None
    answer: float | None = getattr(budget, what)(now)
    return answer


@given(OPS)
@example([("refused", 0.0, 0), ("answered", 5.0, 1), ("refused", 0.0, 0), ("wait", 0.0, 0)])
def test_two_programs_with_one_file_have_one_budget(ops: list[tuple[str, float, int]]) -> None:
    with TemporaryDirectory() as folder:
        files = [BudgetFile(Path(folder) / "b") for _ in range(2)]
        name = digest_of("relay.example", LIMITS)
        shared = [Budget(LIMITS, lambda: 1.0, (file, name)) for file in files]
        one, now = Budget(LIMITS, lambda: 1.0), 100.0
        for what, pause, who in ops:
            now += pause
            expected = do(one, what, now)  # which earns in fewer steps: floats differ at their end
            assert do(shared[who], what, now) == pytest.approx(expected, abs=1e-5)
        for file in files:
            file.close()


def test_who_does_not_get_the_file_goes_on_and_tells_the_others_later(tmp_path: Path) -> None:
    mine, theirs = (BudgetFile(tmp_path / "b") for _ in range(2))
    name = digest_of("relay.example", LIMITS)
    budget = Budget(LIMITS, lambda: 1.0, (mine, name))
    other = Budget(LIMITS, lambda: 1.0, (theirs, name))
    one = Budget(LIMITS, lambda: 1.0)
    budget.take(1.0), one.take(1.0)
    with theirs.locked() as held:
        assert held
        for _ in range(5):
            assert budget.take(1.0) == one.take(1.0)
    budget.wait(1.0)
    assert other.take(1.0) == one.take(1.0)
    mine.close()
    theirs.close()


@given(st.binary(min_size=1, max_size=4096), st.floats(0, 1e6))
def test_whatever_the_file_holds_no_budget_is_shut_for_long(junk: bytes, now: float) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "b"
        path.write_bytes(junk * (65_536 // len(junk)))
        file = BudgetFile(path)
        name = junk[:16].ljust(16, b"x")  # which may well stand there
        budget = Budget(LIMITS, lambda: 1.0, (file, name))
        assert 0 <= budget.wait(now) <= 1e4
        assert 0 <= budget.take(now) <= 1e4
        file.close()


def test_more_hosts_than_places_forget_those_that_were_asked_least_lately(tmp_path: Path) -> None:
    file = BudgetFile(tmp_path / "b")
    for n in range(3 * PLACES):
        Budget(LIMITS, lambda: 1.0, (file, digest_of(f"h{n}.example", LIMITS))).take(100.0 + n)
    newest = Budget(LIMITS, lambda: 1.0, (file, digest_of(f"h{3 * PLACES - 1}.example", LIMITS)))
    assert newest.take(100.0 + 3 * PLACES) == Budget(LIMITS).take(0.0)
    file.close()


ASKING = """
import sys, time
from pathlib import Path
from nostr_client.network.access.budget import Budgets
from nostr_client.options import Options, RelayBudget
limits = RelayBudget(requests_per_minute=0.001, requests_at_once=int(sys.argv[2]))
budgets = Budgets(path=lambda: Path(sys.argv[1]))
budget = budgets.of("wss://relay.example", Options(budget=limits, share_budget=True))
went = 0
while budget.take(time.monotonic()) == 0.0:
    went += 1
print(went)
"""


def test_three_programs_at_once_ask_no_more_than_one_may(tmp_path: Path) -> None:
    path = tmp_path / "state" / "budgets"
    command = [sys.executable, "-c", ASKING, str(path), "3000"]
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    went = [int(one.communicate()[0]) for one in programs]
    assert 3000 <= sum(went) <= 3000 * 1.1, went
    assert path.stat().st_mode & 0o077 == 0
    assert b"relay.example" not in path.read_bytes()


def test_a_budget_without_a_place_to_be_written_is_that_of_this_process(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    budgets = Budgets(path=lambda: tmp_path / "file" / "budgets")
    budget = budgets.of("wss://relay.example", Options(share_budget=True))
    assert budget is not None
    assert budget.take(1.0) == 0.0
