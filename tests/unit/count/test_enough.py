"""`--enough`: a count of few relays is close to that of all, and inventors gain nothing by it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from nostr_client import hll
from nostr_client.count.enough import FINEST, Enough

OFFSET = 10


class Outcome(NamedTuple):
    """Of one world: the part of all people that the asked relays have, and how many were asked.

    `added`: the part that those not asked add of people on two relays at least; `high`: its bound.
    """

    share: float
    added: float
    asked: int
    high: float


def world(seed: int, line: float, relays: int = 14) -> Outcome:
    """People on relays that hold different parts of them, all asked before."""
    rng = np.random.default_rng((2_028, seed))
    n = int(rng.choice([100, 500, 3_000, 10_000]))
    keys = rng.integers(0, 256, (n, 32), dtype=np.uint8)
    held = {f"r{i}": rng.random(n) < part for i, part in enumerate(rng.beta(0.7, 1.2, relays))}
    known = {url: hll.from_raw(keys[mask], OFFSET) for url, mask in held.items()}
    chooser = Enough(known, [], line)
    asked: list[str] = []
    while batch := chooser.next():
        asked += batch
        for url in batch:
            chooser.answered(url, known[url])
    union = np.logical_or.reduce(list(held.values()))
    got = np.logical_or.reduce([held[url] for url in asked])
    left = chooser.left
    assert sorted((*asked, *left.known)) == sorted(held)
    twice = np.sum(list(held.values()), axis=0) >= 2
    added = (twice & ~got).sum() / max((twice | got).sum(), 1)
    return Outcome(float(got.sum() / max(union.sum(), 1)), float(added), len(asked), left.high)


def check(worlds: range) -> None:
    outcomes = [world(seed, 0.10) for seed in worlds]
    within = np.mean([one.share >= 0.9 for one in outcomes])
    bounded = np.mean([one.added <= one.high for one in outcomes])
    assert within >= 0.95
    assert bounded >= 0.95
    assert np.mean([one.asked for one in outcomes]) < 8


def test_enough_is_within_its_line_in_150_worlds() -> None:
    check(range(150))


@pytest.mark.long
def test_enough_is_within_its_line_in_1000_worlds() -> None:
    check(range(150, 1_150))


def sketch(seed: int, n: int) -> bytes:
    keys = np.random.default_rng(seed).integers(0, 256, (n, 32), dtype=np.uint8)
    return hll.from_raw(keys, OFFSET)


def test_an_inventor_is_not_asked_first() -> None:
    honest = {f"h{n}": hll.merge(sketch(1, 400), sketch(10 + n, 20)) for n in range(3)}
    liar = {"liar": hll.merge(sketch(1, 300), sketch(99, 50_000))}
    chooser = Enough(liar | honest, [], 0.10)
    first = chooser.next()
    assert first[0] in honest
    chooser.answered(first[0], honest[first[0]])
    assert chooser.high < 0.3


def test_relays_that_were_never_asked_are_asked_first_where_they_are_many() -> None:
    known = {f"k{n}": sketch(n, 100) for n in range(3)}
    chooser = Enough(known, ["new", "other"], 0.10)
    assert chooser.next() == ["new", "other"]
    assert len(chooser.next()) == 1


def test_a_relay_that_was_never_asked_has_its_turn() -> None:
    known = {f"k{n:02}": sketch(n, 1_000) for n in range(40)}
    chooser = Enough(known, ["new"], 0.01)
    asked: list[str] = []
    while batch := chooser.next():
        asked += batch
        for url in batch:
            chooser.answered(url, known.get(url))
    assert asked.index("new") == 9
    assert chooser.left.never == ()


def test_without_any_history_all_are_asked() -> None:
    chooser = Enough({}, ["a", "b", "c"], 0.10)
    assert chooser.next() == ["a", "b", "c"]
    for url in "abc":
        chooser.answered(url, sketch(1, 50))
    assert chooser.next() == []
    assert chooser.left.high == pytest.approx(0.0, abs=FINEST)
