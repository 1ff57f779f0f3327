"""Live events bring questions about soon, and no flood of them."""

from __future__ import annotations

from itertools import pairwise

from agent.pacing import BURST, DELAY_S, EVERY_S, GAP_S, RELAY_BURST, RELAY_RATE, LivePace

URL = "wss://relay.example"


def asked(pace: LivePace, events: list[float], watch: str = "w") -> list[float]:
    """When the relay is asked, for events at these times."""
    return sorted({round(at + pace.delay(watch, URL, at), 6) for at in events})


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


def test_a_flood_for_a_watch_falls_to_its_steady_rate() -> None:
    events = [n / 10 for n in range(36_000)]
    found = asked(LivePace(), events)
    assert len(found) <= BURST + 3600 / EVERY_S + 1
    late = found[2 * BURST :]
    gaps = [b - a for a, b in pairwise(late)]
    assert max(gaps) < EVERY_S + GAP_S


def test_many_watches_share_what_one_relay_is_asked() -> None:
    pace, found = LivePace(), set()
    for second in range(600):
        for n in range(200):
            found.add((n, round(second + pace.delay(f"w{n}", URL, float(second)), 6)))
    within = [one for one in found if one[1] < 600]
    assert len(within) <= RELAY_BURST + 600 * RELAY_RATE + 1
    assert {n for n, _ in within} == set(range(200))


def test_what_is_gone_is_forgotten() -> None:
    pace = LivePace()
    pace.delay("w", URL, 1.0)
    pace.delay("v", URL, 1.0)
    pace.keep({("v", URL)})
    assert set(pace._due) == set(pace._watches) == {("v", URL)}
    pace.keep(set())
    assert not pace._due
    assert not pace._relays
