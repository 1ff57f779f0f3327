"""Live events bring questions about soon, and no flood of them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from nostr_client.watch.live import (
    BURST,
    DELAY_S,
    EVERY_S,
    GAP_S,
    SHARE,
    STEADY_S,
    LivePace,
)

URL = "wss://relay.example"


def asked(pace: LivePace, events: list[float], took: float = EVERY_S) -> list[float]:
    """When the relay is asked, for events at these times."""
    return sorted({round(at + pace.delay("w", URL, at, took), 6) for at in events})


def test_single_events_are_asked_for_at_once() -> None:
    events = [100.0 + 7 * n for n in range(50)]
    assert asked(LivePace(), events) == [round(at + DELAY_S, 6) for at in events]


def test_events_a_second_apart_wait_for_the_gap_at_most() -> None:
    pace = LivePace()
    for n in range(BURST):
        assert pace.delay("w", URL, 100 + 1.1 * n) <= GAP_S


def test_events_that_wait_share_a_question_and_the_last_one_has_one_too() -> None:
    events = [100 + n / 100 for n in range(300)]
    found = asked(LivePace(), events)
    assert len(found) == 4
    assert found[-1] >= events[-1]


@pytest.mark.parametrize(
    ("took", "apart"), [(0.01, STEADY_S), (0.2, 0.2 / SHARE), (0.7, EVERY_S), (9.0, EVERY_S)]
)
def test_a_flood_for_a_watch_falls_to_a_steady_rate(took: float, apart: float) -> None:
    """The dearer an answer is to the relay, the rarer; cheap ones keep a number within 2 s."""
    found = asked(LivePace(), [n / 10 for n in range(36_000)], took)
    assert len(found) <= BURST + 3600 / apart + 1
    gaps = [b - a for a, b in pairwise(found[2 * BURST :])]
    assert apart - 1e-6 <= min(gaps)
    assert max(gaps) < apart + 0.2


def test_what_is_gone_is_forgotten() -> None:
    pace = LivePace()
    pace.delay("w", URL, 1.0)
    pace.delay("v", URL, 1.0)
    pace.keep({("v", URL)})
    assert set(pace._due) == set(pace._watches) == {("v", URL)}
    pace.keep(set())
    assert not pace._due
