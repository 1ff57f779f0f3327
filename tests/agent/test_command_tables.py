"""Answers of the agent as people read them."""

from __future__ import annotations

from typing import Any

import pytest

from agent.alerts import bodies
from agent.api import schema, views
from agent.commands import tables, watch
from nostr_client.codecs.display import said
from nostr_client.count.merge import Figure
from nostr_client.store.base import StoreStats
from nostr_client.store.index_schema import HOT
from nostr_client.watch.definition import Watch
from tui import format

SPEC = Watch(name="followers", query="followers", target="ab" * 32)
FIGURE = Figure(value=1234, low=1200, high=1300, exact=False, lower_bound=False)


def counted(figure: Figure | None) -> schema.Counted:
    return schema.Counted(
        query="followers",
        target=None,
        filters=(),
        unit="distinct_authors",
        figure=figure,
        authors=figure,
        events=None,
        corroborated=None,
        amount=None,
        relays=(),
    )


def test_a_watch_that_was_not_counted_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    watch._tell_one(schema.WatchState(spec=SPEC, origin="store"))
    tables.counted(counted(None))
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["followers: not counted yet", "not counted yet"]
    watch._tell_one(schema.WatchState(spec=SPEC, origin="store", figure=FIGURE))
    tables.counted(counted(FIGURE))
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["followers: 1,234 1,200–1,300", "1,234 distinct authors (1,200–1,300)"]


def test_hot_targets_say_where_they_begin(capsys: pytest.CaptureFixture[str]) -> None:
    tables.hot_targets(schema.HotTargets(targets=()))
    said = capsys.readouterr()
    assert said.err == f"targets of fewer than {HOT} events are not in it\n"
    assert "256" not in said.out


@pytest.mark.parametrize(
    ("events", "line"),
    [(0, "0 will expire"), (2, f"from {tables.when(1)} to {tables.when(9)}; 0 will expire")],
)
def test_an_empty_store_has_no_range(
    events: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = {"oldest": 1, "newest": 9} if events else {"oldest": None, "newest": None}
    sizes: dict[str, Any] = {"kinds": {}, "search": False}
    sizes |= {one: sizes.get(one, 0) for one in StoreStats.__struct_fields__}
    tables.store(schema.Store(path="s.db", **sizes | ends | {"events": events}))
    assert capsys.readouterr().out.splitlines()[2] == line


@pytest.mark.parametrize("at", [-(2.0**62), 2.0**33 * 50, 2.0**63 - 1024, float(2**63 - 1)])
def test_a_time_beyond_every_calendar_is_a_number(at: float) -> None:
    assert tables.when(at) == f"{at:.0f}"


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
    told = views.figure(figure)
    assert told is not None
    assert ", ".join(tables.figure(told)) == shown
    assert said(figure) == bodies.number_of(told) == shown
    assert f"{format.value(told)}, {format.in_words(told)}" == shown
    assert f"{format.value(told)}, {format.interval(told)}" == shown
    assert format.certainty(told) == "as said"
