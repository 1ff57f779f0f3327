"""Which receipts a wallet may have signed, by the times at which its keys were seen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nostr_client.count.wallets.keys import KEEP, Wallet, WalletStatus, unknown

A, B = "aa" * 32, "bb" * 32
START = 1_700_000_000
DAY = 86_400


def seen(*sightings: tuple[str | None, int]) -> Wallet:
    wallet = unknown("cc" * 32)
    for key, day in sightings:
        wallet = wallet.answered(key, START + day * DAY, "w.example")
    return wallet


def days(wallet: Wallet, key: str) -> list[int]:
    """The days, out of forty, on which the key holds."""
    return [day for day in range(40) if wallet.signed(key, START + day * DAY)]


def test_a_key_that_is_the_first_one_known_holds_for_all_the_time_before() -> None:
    assert days(seen((A, 5)), A) == [0, 1, 2, 3, 4, 5, 6]


def test_a_key_is_believed_as_long_as_the_answer_is_kept() -> None:
    wallet = seen((A, 5))
    assert wallet.signed(A, START + 5 * DAY + KEEP)
    assert not wallet.signed(A, START + 5 * DAY + KEEP + 1)


def test_after_a_change_each_key_holds_in_its_own_time() -> None:
    """The wallet changed on a day between 10 and 20, so then both hold."""
    wallet = seen((A, 5), (A, 10), (B, 20), (B, 30))
    assert days(wallet, A) == list(range(21))
    assert days(wallet, B) == list(range(10, 32))


def test_a_key_that_comes_back_did_not_hold_between() -> None:
    wallet = seen((A, 1), (B, 10), (B, 20), (A, 30))
    assert 15 not in days(wallet, A)
    assert {0, 30} <= set(days(wallet, A))


def test_a_failure_keeps_the_keys_and_extends_none() -> None:
    wallet = seen((A, 5)).failed(WalletStatus.UNREACHABLE, "gone", START + 30 * DAY)
    assert days(wallet, A) == [0, 1, 2, 3, 4, 5, 6]
    assert wallet.is_known
    assert not wallet.is_fresh(START + 30 * DAY)


def test_of_a_wallet_that_never_answered_nothing_is_known() -> None:
    assert not unknown("cc" * 32).failed(WalletStatus.TIMEOUT, "late", START).is_known
    assert seen((None, 1)).is_known


@given(st.integers(-10, 2 * KEEP))
def test_an_answer_is_kept_for_a_day(age: int) -> None:
    assert seen((A, 0)).is_fresh(START + age) is (0 <= age < KEEP)


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 40)), min_size=1))
def test_what_a_wallet_named_at_a_time_holds_at_that_time(sightings: list[tuple[str, int]]) -> None:
    ordered = sorted(sightings, key=lambda one: one[1])
    wallet = seen(*ordered)
    for key, day in ordered:
        assert wallet.signed(key, START + day * DAY)
