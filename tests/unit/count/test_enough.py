"""`--enough`: a count of few relays is close to that of all, and inventors gain nothing by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from nostr_client import hll
from nostr_client.count.enough.bounds import (
    FINEST,
    LEAST_QUESTIONS,
    EarlierQuestions,
    RelayPicker,
    added,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

OFFSET = 10


class Outcome(NamedTuple):
    """Of one world: the part of all people that the asked relays have, and how many were asked.

    `added`: the part that those not asked add of people on two relays at least; `confirmed_high`:
    its bound. `high`: the bound of the part of all people that they add. `stopped`: some were left.
    """

    share: float
    added: float
    asked: int
    high: float
    confirmed_high: float
    stopped: bool

    @property
    def covers(self) -> bool:
        """Whether both bounds hold."""
        return self.added <= self.confirmed_high and 1 - self.share <= self.high


def run(chooser: RelayPicker, known: Mapping[str, bytes]) -> list[str]:
    """Ask relays, which answer as before, until it is enough; return those that were asked."""
    asked: list[str] = []
    while batch := chooser.next():
        asked += batch
        for url in batch:
            chooser.answered(url, known[url])
    return asked


def outcome(chooser: RelayPicker, asked: list[str], held: Mapping[str, np.ndarray]) -> Outcome:
    """Compare a run with who is on which relay. Inventions are nobody, and are not in `held`."""
    people = list(held.values())
    union, twice = np.logical_or.reduce(people), np.sum(people, axis=0) >= 2
    got = np.logical_or.reduce([held[url] for url in asked])
    left = chooser.left
    assert sorted((*asked, *left.known)) == sorted(held)
    return Outcome(
        share=float((got & union).sum() / max(union.sum(), 1)),
        added=float((twice & ~got).sum() / max(twice.sum(), 1)),
        asked=len(asked),
        high=left.high,
        confirmed_high=left.confirmed_high,
        stopped=bool(left.known),
    )


def world(seed: int, line: float, relays: int = 14) -> Outcome:
    """People on relays that hold different parts of them, all asked before."""
    rng = np.random.default_rng((2_028, seed))
    n = int(rng.choice([100, 500, 3_000, 10_000]))
    keys = rng.integers(0, 256, (n, 32), dtype=np.uint8)
    held = {f"r{i}": rng.random(n) < part for i, part in enumerate(rng.beta(0.7, 1.2, relays))}
    known = {url: hll.from_raw(keys[mask], OFFSET) for url, mask in held.items()}
    chooser = RelayPicker(known, [], line)
    return outcome(chooser, run(chooser, known), held)


def check(worlds: range) -> None:
    outcomes = [world(seed, 0.10) for seed in worlds]
    within = np.mean([one.share >= 0.9 for one in outcomes])
    assert within >= 0.95
    assert np.mean([one.covers for one in outcomes]) >= 0.95
    assert np.mean([one.asked for one in outcomes]) < 8


def test_enough_is_within_its_line_in_150_worlds() -> None:
    check(range(150))


@pytest.mark.long
def test_enough_is_within_its_line_in_1000_worlds() -> None:
    check(range(150, 1_150))


def niches(seed: int, inventors: int) -> Outcome:
    """Relays with people of their own, whom no other or hardly any other has; nobody is excluded.

    Inventors show up to 50 times as many people as there are, and some of the real ones.
    """
    rng = np.random.default_rng((2_033, seed))
    relays, common = int(rng.integers(2, 15)), int(rng.choice([0, 0, 100, 1_000]))
    own = rng.choice([20, 200, 1_000]) * rng.pareto(1.5, relays) + rng.integers(1, 200, relays)
    own = np.minimum(own, 5_000).astype(int)
    owner = np.concatenate([np.full(common, -1), np.repeat(np.arange(relays), own)])
    parts, elsewhere = rng.beta(0.7, 1.2, relays), rng.choice([0.0, 0.02, 0.1, 0.3])
    keys = rng.integers(0, 256, (len(owner), 32), dtype=np.uint8)
    held, known = {}, {}
    for i, part in enumerate(parts):
        likely = np.where(owner == i, 1.0, np.where(owner < 0, part, elsewhere))
        held[f"r{i}"] = rng.random(len(owner)) < likely
        known[f"r{i}"] = hll.from_raw(keys[held[f"r{i}"]], OFFSET)
    union = np.logical_or.reduce(list(held.values()))
    for i in range(inventors):
        held[f"i{i}"] = union & (rng.random(len(owner)) < rng.random())
        made = rng.integers(0, 256, (int(union.sum() * rng.choice([1, 3, 10, 50])), 32), np.uint8)
        known[f"i{i}"] = hll.from_raw(np.concatenate([keys[held[f"i{i}"]], made]), OFFSET)
    order = rng.permutation(list(known))
    chooser = RelayPicker({url: known[url] for url in order}, [], 0.10)
    return outcome(chooser, run(chooser, known), held)


def check_niches(worlds: range, inventors: int) -> None:
    """The line and both bounds hold, also among those runs alone that stopped early."""
    outcomes = [niches(seed, inventors) for seed in worlds]
    assert np.mean([one.share >= 0.9 for one in outcomes]) >= 0.95
    assert np.mean([one.covers for one in outcomes]) >= 0.95
    stopped = [one for one in outcomes if one.stopped]
    assert stopped
    assert np.mean([one.share >= 0.9 for one in stopped]) >= 0.9
    assert np.mean([one.covers for one in stopped]) >= 0.9


@pytest.mark.parametrize("inventors", [0, 1])
def test_people_of_one_relay_alone_are_not_hidden_in_60_worlds(inventors: int) -> None:
    check_niches(range(60), inventors)


@pytest.mark.long
@pytest.mark.parametrize("inventors", [0, 1, 2])
def test_people_of_one_relay_alone_are_not_hidden_in_500_worlds(inventors: int) -> None:
    check_niches(range(100, 600), inventors)


def other_questions(rng: np.random.Generator, parts: np.ndarray, questions: int) -> Outcome:
    """A world in which relays hold alike parts of the people of each question: up to 5 % off."""
    urls = [f"r{i}" for i in range(len(parts))]
    jitter = rng.choice([0.0, 0.01, 0.03, 0.05])

    def asked(n: int) -> tuple[dict[str, bytes], np.ndarray]:
        keys = rng.integers(0, 256, (n, 32), dtype=np.uint8)
        drawn = np.clip(parts + rng.normal(0, jitter, len(parts)), 0, 1)
        held = rng.random((len(parts), n)) < drawn[:, None]
        pairs = zip(urls, held, strict=True)
        return {url: hll.from_raw(keys[mask], OFFSET) for url, mask in pairs}, held

    earlier = [asked(int(rng.choice([100, 500, 2_000])))[0] for _ in range(questions)]
    known, held = asked(int(rng.choice([100, 500, 3_000, 10_000])))
    chooser = RelayPicker(known, [], 0.03, others=EarlierQuestions(earlier))
    return outcome(chooser, run(chooser, known), dict(zip(urls, held, strict=True)))


def check_other_questions(worlds: range) -> None:
    outcomes = []
    for seed in worlds:
        rng = np.random.default_rng((2_029, seed))
        outcomes.append(other_questions(rng, rng.beta(0.7, 1.2, 14), 20 + seed % 20))
    assert np.mean([one.share >= 0.97 for one in outcomes]) >= 0.95
    assert np.mean([one.covers for one in outcomes]) >= 0.95
    assert np.mean([one.asked for one in outcomes]) < 8


def test_a_month_of_other_questions_bounds_three_per_cent_in_60_worlds() -> None:
    check_other_questions(range(60))


@pytest.mark.long
def test_a_month_of_other_questions_bounds_three_per_cent_in_1000_worlds() -> None:
    check_other_questions(range(100, 1_100))


def test_other_questions_bound_nothing_where_they_are_few_or_unlike() -> None:
    rng = np.random.default_rng(7)

    def question(part: float) -> dict[str, bytes]:
        keys = rng.integers(0, 256, (1_000, 32), dtype=np.uint8)
        most = hll.from_raw(keys[: int(1_000 * part)], OFFSET)
        return {
            "most": most,
            "rest": hll.from_raw(keys, OFFSET),
            "also": hll.from_raw(keys, OFFSET),
        }

    left = ["rest", "also"]
    alike = [question(0.99) for _ in range(LEAST_QUESTIONS)]
    bound = EarlierQuestions(alike).bound(question(0.99), left)
    assert bound is not None
    assert 0.01 <= bound < 0.05
    assert EarlierQuestions(alike[1:]).bound(question(0.99), left) is None
    assert EarlierQuestions(alike).bound(question(0.5), left) is None
    lacking = [{**one, "rest": one["rest"]} for one in alike[1:]] + [{"most": alike[0]["most"]}]
    assert EarlierQuestions(lacking).with_all(["most", "rest"]) == LEAST_QUESTIONS - 1
    assert EarlierQuestions(lacking).bound(question(0.99), left) is None


def two_hundred(seed: int, copies: float) -> float:
    """Ask a third of 200 relays; return how far their count is from that of all.

    Relays have regions, and sizes of a long tail: some hold half of their region, most a hundredth.
    A person is on `copies` relays on average. Which relays overlap is measured by the registers of
    an earlier question about other people.
    """
    rng = np.random.default_rng((2_030, seed))
    region = rng.integers(0, 8, 200)
    size = rng.pareto(1.1, 200)
    near = np.where(region[:, None] == np.arange(8), 1.0, 0.15)
    part = np.minimum(0.6, size * (copies / (size[:, None] * near).sum(axis=0).mean()))
    for _ in range(20):  # the largest are bounded: the others hold more, until the mean is right
        part = np.minimum(0.6, part * (copies / (part[:, None] * near).sum(axis=0).mean()))

    def question(n: int) -> dict[str, bytes]:
        keys = rng.integers(0, 256, (n, 32), dtype=np.uint8)
        held = rng.random((200, n)) < part[:, None] * near[:, rng.integers(0, 8, n)]
        return {f"r{i}": hll.from_raw(keys[mask], OFFSET) for i, mask in enumerate(held)}

    earlier = question(4_000)
    now = question(int(rng.choice([1_000, 4_000, 10_000])))
    chooser = RelayPicker(earlier, [], 1e-9)
    asked: list[str] = []
    while len(asked) < 67:
        asked += (batch := chooser.next())
        for url in batch:
            chooser.answered(url, earlier[url])
    some = hll.estimate(hll.merge(*(now[url] for url in asked[:67])))
    return abs(1 - some / hll.estimate(hll.merge(*now.values())))


def test_a_third_of_200_relays_counts_nearly_all() -> None:
    assert np.median([two_hundred(seed, copies=5) for seed in range(6)]) <= 0.03


@pytest.mark.long
@pytest.mark.parametrize("copies", [3, 5, 10])
def test_a_third_of_200_relays_counts_nearly_all_in_100_worlds(copies: int) -> None:
    assert np.median([two_hundred(seed, copies) for seed in range(100)]) <= 0.03


def test_people_of_one_relay_alone_are_no_gain() -> None:
    keys = np.random.default_rng(8).integers(0, 256, (2_000, 32), dtype=np.uint8)
    honest = hll.from_raw(keys[:1_000], OFFSET)
    liar = hll.from_raw(keys, OFFSET)
    assert added({"honest": honest, "liar": liar}, ["liar"]) == 0.0
    found = added({"honest": honest, "liar": liar, "witness": liar}, ["liar"])
    assert found == 0.0
    found = added({"honest": honest, "liar": liar, "witness": liar}, ["liar", "witness"])
    assert found is not None
    assert 0.35 < found < 0.65


def sketch(seed: int, n: int) -> bytes:
    keys = np.random.default_rng(seed).integers(0, 256, (n, 32), dtype=np.uint8)
    return hll.from_raw(keys, OFFSET)


def test_an_inventor_is_not_asked_first() -> None:
    honest = {f"h{n}": hll.merge(sketch(1, 400), sketch(10 + n, 20)) for n in range(3)}
    liar = {"liar": hll.merge(sketch(1, 300), sketch(99, 50_000))}
    chooser = RelayPicker(liar | honest, [], 0.10)
    first = chooser.next()
    assert first[0] in honest
    chooser.answered(first[0], honest[first[0]])
    assert chooser.confirmed_high < 0.3
    assert chooser.high > 0.9


def test_an_inventor_that_was_asked_ends_no_count() -> None:
    honest = {f"h{n}": sketch(n, 200) for n in range(4)}
    liar = {"liar": sketch(99, 50_000)}
    chooser = RelayPicker(liar | honest, [], 0.10)
    assert sorted(run(chooser, liar | honest)) == sorted(liar | honest)


def test_what_an_inventor_says_counts_for_nothing_where_it_is_not_believed() -> None:
    honest = {f"h{n}": hll.merge(sketch(1, 400), sketch(10 + n, 20)) for n in range(4)}
    known = honest | {"liar": sketch(99, 50_000)}
    chooser = RelayPicker(known, [], 0.30)
    while batch := chooser.next():
        for url in batch:
            chooser.answered(url, None if url == "liar" else known[url])
    assert set(chooser.left.known) < set(honest)
    assert chooser.left.known


@pytest.mark.parametrize("sizes", [(200, 400), (400, 200), (400, 20, 400)])
def test_relays_without_common_people_are_all_asked(sizes: tuple[int, ...]) -> None:
    known = {f"r{n}": sketch(n, size) for n, size in enumerate(sizes)}
    chooser = RelayPicker(known, [], 0.03)
    first = chooser.next()
    chooser.answered(first[0], known[first[0]])
    assert chooser.left.high > 0.5
    assert len(first + run(chooser, known)) == len(sizes)


def test_relays_that_were_never_asked_are_asked_first_where_they_are_many() -> None:
    known = {f"k{n}": sketch(n, 100) for n in range(3)}
    chooser = RelayPicker(known, ["new", "other"], 0.10)
    assert chooser.next() == ["new", "other"]
    assert len(chooser.next()) == 1


def test_a_relay_that_was_never_asked_has_its_turn() -> None:
    known = {f"k{n:02}": sketch(n, 1_000) for n in range(40)}
    chooser = RelayPicker(known, ["new"], 0.01)
    asked: list[str] = []
    while batch := chooser.next():
        asked += batch
        for url in batch:
            chooser.answered(url, known.get(url))
    assert asked.index("new") == 9
    assert chooser.left.never == ()


def test_without_any_history_all_are_asked() -> None:
    chooser = RelayPicker({}, ["a", "b", "c"], 0.10)
    assert chooser.next() == ["a", "b", "c"]
    for url in "abc":
        chooser.answered(url, sketch(1, 50))
    assert chooser.next() == []
    assert chooser.left.high == pytest.approx(0.0, abs=FINEST)


def test_a_relay_that_was_never_asked_comes_first_in_a_count_of_its_turn() -> None:
    known = {f"k{n:02}": sketch(n, 1_000) for n in range(40)}
    chooser = RelayPicker(known, ["new", "other"], 0.10, turn=True)
    assert chooser.next() == ["new"]
    chooser.answered("new", None)
    assert "other" not in chooser.next()
