"""Delays and the retry rule."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.errors import (
    DeadlineExceeded,
    InvalidRelayURL,
    NetworkError,
    ProtocolError,
    RelayRefused,
    StoreError,
    Unsupported,
)
from nostr_client.network.pacing import RetryDecision, delays, judge
from nostr_client.options import ReconnectPolicy


def first(count: int, rand: float, policy: ReconnectPolicy | None = None) -> list[float]:
    return list(itertools.islice(delays(policy or ReconnectPolicy(), lambda: rand), count))


def test_the_range_doubles_up_to_five_minutes_and_never_ends() -> None:
    assert first(12, 0.0) == [1.0] * 12
    longest = first(5000, 1.0)
    assert longest[:10] == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert set(longest[9:]) == {300}


@given(st.floats(0, 1, exclude_max=True), st.floats(0.1, 50), st.floats(1, 100))
def test_every_delay_is_within_the_policy(rand: float, start: float, factor: float) -> None:
    policy = ReconnectPolicy(first=start, longest=start * factor)
    made = first(20, rand, policy)
    assert all(start <= delay <= policy.longest * (1 + 1e-9) for delay in made)
    assert made == sorted(made)


def test_clients_of_one_relay_spread_out() -> None:
    rand = random.Random(1).random
    fifth = [next(itertools.islice(delays(ReconnectPolicy(), rand), 4, 5)) for _ in range(1000)]
    tenths = {int((delay - 1) / 3.1) for delay in fifth}
    assert tenths == set(range(10))


def test_attempts_end_it() -> None:
    assert len(list(delays(ReconnectPolicy(attempts=3)))) == 3


@pytest.mark.parametrize(
    ("error", "step"),
    [
        (NetworkError("refused"), RetryDecision.RETRY),
        (NetworkError("gone", close_code=1001), RetryDecision.RETRY),
        (NetworkError("gone", close_code=1006), RetryDecision.RETRY),
        (NetworkError("restart", close_code=1012), RetryDecision.RETRY),
        (NetworkError("policy", close_code=1008), RetryDecision.RETRY_LATE),
        (NetworkError("too big", close_code=1009), RetryDecision.RETRY_LATE),
        (NetworkError("go away", close_code=4000), RetryDecision.FATAL),
        (NetworkError("busy", http_status=503), RetryDecision.RETRY),
        (NetworkError("banned", http_status=403), RetryDecision.RETRY_LATE),
        (NetworkError("moved", http_status=302), RetryDecision.RETRY_LATE),
        (NetworkError("slow down", http_status=429), RetryDecision.RETRY_LATE),
        (DeadlineExceeded("connect"), RetryDecision.RETRY),
        (ConnectionResetError(), RetryDecision.RETRY),
        (ProtocolError("junk"), RetryDecision.RETRY_LATE),
        (RelayRefused("rate-limited: slow", prefix="rate-limited"), RetryDecision.RETRY_LATE),
        (RelayRefused("error: disk", prefix="error"), RetryDecision.RETRY_LATE),
        (RelayRefused("blocked: you", prefix="blocked"), RetryDecision.FATAL),
        (RelayRefused("auth-required: who", prefix="auth-required"), RetryDecision.FATAL),
        (Unsupported("unsupported: COUNT", prefix="unsupported"), RetryDecision.FATAL),
        (InvalidRelayURL("x"), RetryDecision.FATAL),
        (StoreError("disk"), RetryDecision.FATAL),
        (KeyboardInterrupt(), RetryDecision.FATAL),
    ],
    ids=repr,
)
def test_retry_or_fatal(error: BaseException, step: RetryDecision) -> None:
    assert judge(error) is step
