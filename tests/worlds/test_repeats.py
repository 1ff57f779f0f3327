"""The rules by which an event may be tried again, looked at by themselves."""

from __future__ import annotations

import pytest

from tests.worlds.repeats import DAY, Attempt, too_soon


def refused(answer: str, *dates: float) -> list[Attempt]:
    return [Attempt(at, step, answer, read=True) for step, at in enumerate(dates)]


def unread(*dates: float) -> list[Attempt]:
    return [Attempt(at, step, "invalid: no") for step, at in enumerate(dates)]


def taken(at: float, step: int) -> Attempt:
    return Attempt(at, step, "", taken=True, read=True)


KEEP = {
    "once": refused("invalid: no", 100),
    "doubled waits": refused("auth-required: who?", 100, 160, 280, 520),
    "a wait is a day at most": refused("", *(100 + DAY * k for k in range(30))),
    "no reason": refused("", 100, 160),
    "after a week": refused("pow: 30 bits", 100, 100 + 7 * DAY),
    "after a day": refused("duplicate: have it", 100, 100 + DAY),
    "taken, not listed, then known": [taken(10, 0), *refused("duplicate: have it", 10, 11)[1:]],
    "an OK that was not read": unread(100, 160, 280),
    "three tries in one run": [Attempt(at, 0) for at in (1, 2, 3)],
    "error: in one run": [Attempt(at, 0, "error: later", read=True) for at in (1, 2, 3)],
    "long ago": refused("", 100, 160, 280, 280 + 5 * DAY, 340 + 5 * DAY),
}
BREAK = {
    "too early": refused("auth-required: who?", 100, 150),
    "not doubled": refused("auth-required: who?", 100, 160, 220),
    "invalid again": refused("invalid: no", 100, 100 + DAY),
    "known again": refused("duplicate: have it", 100, 200),
    "an OK that was not read, too early": unread(100, 130),
    "four tries in one run": [Attempt(at, 0) for at in (1, 2, 3, 4)],
    "a refusal in one run": [Attempt(at, 0, "invalid: no", read=True) for at in (1, 2)],
}


@pytest.mark.parametrize("attempts", KEEP.values(), ids=KEEP)
def test_tries_within_the_rules(attempts: list[Attempt]) -> None:
    assert too_soon(attempts) == ""


@pytest.mark.parametrize("attempts", BREAK.values(), ids=BREAK)
def test_tries_against_the_rules(attempts: list[Attempt]) -> None:
    assert too_soon(attempts) != ""
