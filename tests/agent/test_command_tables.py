"""Answers of the agent as people read them."""

from __future__ import annotations

import pytest

from agent.alerts import bodies
from agent.commands.status import when
from nostr_client.codecs.display import said
from nostr_client.count.merge import Figure
from tui import format


@pytest.mark.parametrize("at", [-(2.0**62), 2.0**33 * 50, 2.0**63 - 1024, float(2**63 - 1)])
def test_a_time_beyond_every_calendar_is_a_number(at: float) -> None:
    assert when(at) == f"{at:.0f}"


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        (Figure(value=1204, low=0, high=None, as_said=True), "1,204, as the relay says"),
        (Figure.exactly(717, as_said=True), "717, as these relays say"),
        (
            Figure(value=717, low=400, high=717, as_said=True),
            "717, as these relays say, at least 400",
        ),
    ],
)
def test_who_says_a_number_is_said_in_the_same_words_everywhere(figure: Figure, shown: str) -> None:
    told = figure.storable
    assert said(figure) == bodies.number_of(told) == shown
    assert f"{format.value(told)}, {format.in_words(told)}" == shown
    assert f"{format.value(told)}, {format.interval(told)}" == shown
    assert format.certainty(told) == "claimed"
