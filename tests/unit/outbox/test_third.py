"""A third of 200 relays, chosen by evidence, counts nearly what all of them count.

The worlds hold to what was measured on lists of 26 people who follow 105 to 1,779 others, February
2026 (github.com/nostrability/outbox, OUTBOX-REPORT.md, section 8.1): of those who publish a relay
list, the two largest relays have 85 % (median), and the best 20 relays for a follow list 98.5 %. Of
the relays that lists name, 45 % do not serve: they are offline, paid or closed (the same, 5.3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from nostr_client import hll
from nostr_client.network.outbox import RelayChoice, RelayEvidence, choose
from nostr_client.network.outbox.evidence import confirmed_people

OFFSET = 10
RELAYS = 200
THIRD = 67
DAYS = 10
"""Earlier questions, each asked on one day."""


def measured_parts() -> np.ndarray:
    """The part of all people on each relay: two have 85 % of them, and twenty 98.5 %."""
    parts = 1 / np.arange(1, RELAYS + 1)
    parts[:2] = 0.7, 0.5
    return parts


class Third(NamedTuple):
    """Of one world: how far the count and the people of the third are from those of all."""

    off: float
    people: float
    first: list[int]
    """The chosen relays; the dead and the inventors are the last."""


def third(seed: int, parts: np.ndarray, dead: int = 90, inventors: int = 5) -> Third:
    """Ask the third that other questions recommend; the relays of the list are in random order."""
    rng = np.random.default_rng((2_031, seed))
    honest = len(parts) - dead - inventors
    urls = [f"wss://r{n}.example.com" for n in range(len(parts))]
    serving = np.concatenate([parts[:honest], np.zeros(dead + inventors)])

    def asked(n: int) -> tuple[dict[str, bytes], np.ndarray]:
        keys = rng.integers(0, 256, (n, 32), dtype=np.uint8)
        held = rng.random((len(parts), n)) < serving[:, None]
        found = {urls[i]: hll.from_raw(keys[held[i]], OFFSET) for i in range(honest)}
        for url in urls[honest + dead :]:  # each invents other people, many more than there are
            made = rng.integers(0, 256, (10 * n, 32), dtype=np.uint8)
            found[url] = hll.from_raw(made, OFFSET)
        return found, held

    earlier = [asked(int(rng.choice([500, 2_000])))[0] for _ in range(DAYS)]
    shown = confirmed_people(earlier)
    evidence = {
        url: RelayEvidence(answered=DAYS, served=DAYS, shown=bits, registers=number)
        for url, (bits, number) in shown.items()
    }
    evidence |= {url: RelayEvidence(failed=DAYS) for url in urls if url not in shown}
    now, held = asked(int(rng.choice([1_000, 4_000, 10_000])))
    listed = [urls[i] for i in rng.permutation(len(urls))]
    chosen = choose(listed, RelayChoice(most=THIRD), evidence=evidence).relays
    first = [urls.index(url) for url in chosen]
    true = [urls[i] for i in first if i < honest]
    some = hll.estimate(hll.merge(*(now[url] for url in true)))
    whole = hll.estimate(hll.merge(*(now[url] for url in urls[:honest])))
    people = held[first].any(axis=0).sum() / held.any(axis=0).sum()
    return Third(abs(1 - some / whole), 1 - float(people), first)


def check(worlds: range) -> None:
    outcomes = [third(seed, measured_parts()) for seed in worlds]
    assert np.median([one.off for one in outcomes]) <= 0.03
    assert np.median([one.people for one in outcomes]) <= 0.03
    dead, inventors = range(105, 195), range(195, RELAYS)
    assert np.mean([sum(n in dead for n in one.first) for one in outcomes]) < 1
    assert np.mean([sum(n in inventors for n in one.first) for one in outcomes]) < 1


def test_the_worlds_have_the_measured_overlaps() -> None:
    rng = np.random.default_rng(2_032)
    held = rng.random((RELAYS, 20_000)) < measured_parts()[:, None]
    whole = held.any(axis=0).mean()
    assert held[:2].any(axis=0).mean() / whole == pytest.approx(0.85, abs=0.01)
    assert held[:20].any(axis=0).mean() / whole == pytest.approx(0.985, abs=0.003)


def test_a_third_of_200_relays_counts_nearly_all() -> None:
    check(range(3))


@pytest.mark.long
def test_a_third_of_200_relays_counts_nearly_all_in_100_worlds() -> None:
    check(range(100, 200))
