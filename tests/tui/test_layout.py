"""What the first page has room for, and what is remembered of it."""

from __future__ import annotations

import re
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api import schema
from nostr_client.codecs import nip19
from nostr_client.watch.definition import Watch
from tests.tui import world
from tests.tui.driving import ALL_SIZES, driving
from tui.pages import overview, panels
from tui.pages.layout import (
    LEAST_CELLS,
    LEAST_OTHER,
    OF_WATCH,
    PANELS,
    placing,
    watch_tables,
)
from tui.pages.watch_rows import (
    GROUPS,
    HEAD,
    NOBODY,
    SORTS,
    STATES,
    groups_of,
    has_state,
    listed,
    rows_of,
)
from tui.settings import TuiSettings, load, save

if TYPE_CHECKING:
    from pathlib import Path

    from tests.tui.backend import Recorded, Served


@given(st.integers(1, 300), st.integers(1, 100), st.sets(st.sampled_from(PANELS)))
def test_panels_fit_and_only_wanted_ones_are_there(
    width: int, height: int, wanted: set[str]
) -> None:
    found = placing(width, height, wanted)
    assert set(found.all) <= wanted
    assert len(set(found.all)) == len(found.all)
    rows = [found.all] if found.is_one_row else [found.of_watch, found.of_agent]
    for row in rows:
        assert sum(LEAST_CELLS.get(name, LEAST_OTHER) for name in row) <= width
    assert set(found.of_watch) <= OF_WATCH
    if (width < 80 or height < 24) and (width < 60 or height < 36):
        assert not found.all


@pytest.mark.parametrize(
    ("size", "panels"),
    [
        ((65, 70), ("people", "alerts", "relays")),
        ((80, 24), ("people", "alerts", "relays")),
        ((100, 30), ("plot", "people", "alerts")),
        ((140, 45), PANELS),
        ((200, 60), PANELS),
    ],
)
def test_the_most_important_panels_are_there(
    size: tuple[int, int], panels: tuple[str, ...]
) -> None:
    assert placing(*size, PANELS).all == panels


@pytest.mark.parametrize("size", ALL_SIZES[2:], ids=str)
async def test_a_large_screen_is_filled(
    size: tuple[int, int], api: Served, agent: Recorded
) -> None:
    """Of the lines between tabs and keys hardly any is blank."""
    async with driving(api.api.url, size) as tui:
        text = tui.text().splitlines()
        blank = [line for line in text if not line.strip()]
        assert len(text) == size[1]
        assert len(blank) <= 2, tui.text()
        for title in ("People: fiatjaf-followers", "Alerts", "Relays", "Syncs", "last 1d"):
            assert title in tui.text()


@given(
    width=st.integers(60, 300),
    height=st.integers(24, 100),
    relays=st.integers(0, 60),
    people=st.integers(0, 500),
    shows_people=st.booleans(),
)
def test_the_tables_of_a_watch_fit_and_are_whole_where_there_is_room(
    width: int, height: int, relays: int, people: int, *, shows_people: bool
) -> None:
    found = watch_tables(width, height, relays, people, shows_people=shows_people)
    fixed = [lines for lines in found if lines is not None]
    assert all(lines >= 0 for lines in fixed)
    assert sum(fixed) <= height - 3 - (15 if height >= 28 else 10)
    if height >= 36:
        assert 0 not in found
        assert found.relays == relays + 1 or relays + 1 > height - 3 - 15 - 6
    else:
        assert found[not shows_people] == 0


@pytest.mark.parametrize("size", ALL_SIZES, ids=str)
async def test_a_watch_fills_the_screen(
    size: tuple[int, int], api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url, size) as tui:
        await tui.press("enter")
        lines = tui.text().splitlines()
        assert sum(not line.strip() for line in lines) <= 2, tui.text()
        plot = tui.app.screen.query_one("#plot")
        assert plot.size.height >= size[1] // 3
        for relay in world.CLAIMS:
            assert relay.relay.removeprefix("wss://") in tui.text()
        assert ("Ada (npub1" in tui.text()) == (size[1] >= 36)
        await tui.press("p")
        assert "Ada (npub1" in tui.text()
        assert tui.app.watch_page.person
        await tui.press("p")
        assert not tui.app.watch_page.person
        if size[1] >= 36:
            await tui.press("tab")
            assert tui.app.watch_page.person


NESTED = b'{"x":' + b"[" * 5_000
"""Deeper than a decoder goes."""


def test_what_is_remembered_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "state" / "tui.json"
    assert load(path) == TuiSettings()
    held = TuiSettings(looked_at=5.5, panels=("plot",), hidden={"relays": ("out",)}, group="tag")
    save(path, held)
    assert load(path) == held
    assert [one.name for one in path.parent.iterdir()] == ["tui.json"]
    assert path.stat().st_mode & 0o077 == 0
    for raw in (b"", b"[]", b'{"panels": 3}', b"\0" * 100_000, b'{"group":"\xff"}', NESTED):
        path.write_bytes(raw)
        assert load(path) == TuiSettings()


async def test_panels_columns_and_groups_are_there_again(
    tmp_path: Path, api: Served, agent: Recorded
) -> None:
    path = tmp_path / "tui.json"
    async with driving(api.api.url, settings=path) as tui:
        await tui.app.perform("panels", ["people", "counters"])
        await tui.app.perform("columns", ["bar"])
        await tui.app.perform("group", ["person"])
        await tui.settled()
        assert "Counters ─" not in tui.text()
        await tui.app.perform("panels", ["nothing"])
        await tui.until(lambda: "there is no nothing" in tui.text())
    assert load(path).panels == ("plot", "alerts", "relays", "syncs")
    assert load(path).looked_at == world.NOW
    async with driving(api.api.url, settings=path) as tui:
        assert "People:" not in tui.text()
        assert "Interval" not in tui.text()
        assert "by person" in tui.text()
        await tui.press("P", "j", "space", "enter")
        await tui.until(lambda: "People:" in tui.text())
    assert load(path).panels == ("plot", "people", "alerts", "relays", "syncs")


# Which watches are listed.


@given(st.sampled_from(STATES), st.sampled_from(SORTS), st.sampled_from(GROUPS), st.booleans())
def test_a_group_loses_no_watch_and_invents_none(
    state: str, sort: str, group: str, reverse: bool
) -> None:
    found = listed(world.WATCHES, state=state, sort=sort, reverse=reverse)
    assert {one.spec.name for one in found} == {
        one.spec.name for one in world.WATCHES if has_state(one, state)
    }
    groups = groups_of(found, group)
    grouped = sorted(name for names in groups.values() for name in names)
    assert grouped == (sorted(one.spec.name for one in found) if group else [])
    assert all(head.startswith(HEAD) for head in groups)
    assert len(rows_of(groups, ())) == len(grouped) + len(groups)
    assert rows_of(groups, groups) == list(groups)


@pytest.mark.parametrize(
    ("state", "names"),
    [
        ("changed today", {"fiatjaf-followers", "launch-reactions", "launch-reposts"}),
        ("unsure", {"thread-replies", "new-one"}),
        ("failing", {"fiatjaf-followers", "new-one"}),
        ("with warnings", {"fiatjaf-followers"}),
    ],
)
def test_states(state: str, names: set[str]) -> None:
    found = {one.spec.name for one in listed(world.WATCHES, state=state)}
    assert names <= found
    assert "thread-replies" not in found or state == "unsure"


ADA = nip19.PublicKey("ab" * 32)
PEOPLE_OF = {
    "followers": {"query": "followers", "target": ADA.encode()},
    "followers-hex": {"query": "followers", "target": ADA.pubkey},
    "zaps": {"query": "zaps", "target": nip19.Profile(ADA.pubkey).encode()},
    "replies": {"query": "replies", "target": nip19.Address(30023, ADA.pubkey, "x").encode()},
    "by": {"filters": ({"kinds": [1], "authors": [ADA.pubkey]},)},
    "named": {"filters": ({"kinds": [1], "#p": [ADA.pubkey]},)},
}


def about(name: str, person: schema.WatchPerson | None = None, **spec: Any) -> schema.WatchState:
    one = world.watch(name, "followers", None)
    return msgspec.structs.replace(one, spec=Watch(name=name, **spec), person=person)


def test_every_kind_of_watch_that_has_a_person_is_grouped_by_it() -> None:
    watches = [about(name, **spec) for name, spec in PEOPLE_OF.items()]
    note = about("note", query="reactions", target="cd" * 32)
    groups = groups_of([*watches, note], "person")
    assert groups == {HEAD + ADA.encode(): list(PEOPLE_OF), HEAD + NOBODY: ["note"]}


def test_a_person_has_the_name_that_the_agent_knows_and_is_no_one_else() -> None:
    ada, other = (schema.WatchPerson(pubkey=key * 32, name="Ada") for key in ("ab", "ba"))
    claimed = msgspec.structs.replace(ada, claimed=True)
    watches = [
        about("followers", ada, query="followers", target=ADA.encode()),
        about("note", ada, query="reactions", target="cd" * 32),
        about("other", other, query="reactions", target="ef" * 32),
        about("linked", claimed, query="reactions", target="ff" * 32),
    ]
    groups = groups_of(watches, "person")
    assert list(groups.values()) == [["followers", "note"], ["other"], ["linked"]]
    heads = [head.removeprefix(HEAD) for head in groups]
    assert heads[0] == f"Ada ({ADA.encode()})"
    assert heads[1].startswith("Ada (npub1")
    assert heads[2] == f"Ada ({ADA.encode()}), as links say"


async def test_states_groups_and_marks_by_their_keys(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("f", "f")
        await tui.until(lambda: "unsure: 2 of 6 watches" in tui.text())
        await tui.press("f", "f")
        await tui.until(lambda: "with warnings: 1 of 6 watches" in tui.text())
        await tui.press("f", "o", "o", "o")
        await tui.until(lambda: "all: 6 of 6 watches, by query" in tui.text())
        grid = tui.grid("#watches")
        assert grid.keys[0] == f"{HEAD}followers"
        await tui.press("home", "enter")
        assert "fiatjaf-followers" not in grid.keys
        await tui.press("enter", "down", "space")
        assert "1 marked" in tui.text()
        assert "● fiatjaf-followers" in tui.text()
        await tui.press("space")
        assert grid.chosen == {"fiatjaf-followers", "launch-reactions"}
        await tui.press("r")
        await tui.until(lambda: "asking the relays of 2 watches" in tui.text())
        await tui.press("D", "y")
        await tui.until(lambda: "removed 2 watches" in tui.text())
        await tui.press("A")
        assert len(grid.chosen) == 4
        await tui.press("A")
        assert not grid.chosen
    assert [what for what, _ in agent.asked] == ["recount"] * 2 + ["remove_watch"] * 2


def test_a_watch_whose_relays_all_answered_is_not_failing() -> None:
    one = world.watch("w", "followers", world.exact(7), asked=7, answered=7, warnings=("old",))
    assert not has_state(one, "failing")
    assert has_state(msgspec.structs.replace(one, failing=(world.GONE,)), "failing")
    assert has_state(msgspec.structs.replace(one, answered=0), "failing")


# What panels say of what they have no room for.


async def test_a_panel_counts_alerts_and_not_lines(api: Served, agent: Recorded) -> None:
    """An alert has several lines: what does not fit as a whole is among "and N more"."""
    async with driving(api.api.url, (140, 45)) as tui:
        await tui.until(lambda: tui.app.model.has_log)
        texts = [f"warning {n} of a relay that has much to say" for n in range(9)]
        one = world.watch("w", "followers", None, warnings=tuple(texts))
        tui.app.model.watches, tui.app.model.log = {"w": one}, deque()
        for height in range(1, 30):
            rows = panels.draw("alerts", tui.app, 30, height).plain.splitlines()
            shown = sum("warning" in row for row in rows)
            assert len(rows) <= height
            assert (f"and {9 - shown} more: press !" in rows) == (shown < 9)


@pytest.mark.parametrize("more", [0, 40])
async def test_people_without_room_are_not_nobody(more: int, api: Served, agent: Recorded) -> None:
    found = msgspec.structs.replace(world.PEOPLE, more=more, unnamed=None)
    total = len(found.people) + more
    async with driving(api.api.url, (140, 45)) as tui:
        draw = partial(panels.draw_people, tui.app, found, 30, is_known=True)
        assert draw(1).plain == f"{total} people: press Enter, then p"
        for height in range(1, 30):
            said = draw(height).plain
            shown = len(re.findall(r"(?m)^ *\d+[smhd] ", said))
            assert "nobody" not in said
            if shown:
                text = f"and {total - shown} more: press Enter, then p"
                assert " ".join(said.split()).endswith(text) == (shown < total)
        text = f"and {more} more: press Enter, then p"
        assert " ".join(draw(40).plain.split()).endswith(text) == bool(more)


async def test_nobody_is_said_only_after_a_relay_answered(api: Served, agent: Recorded) -> None:
    nobody = schema.People(since=0, people=())
    async with driving(api.api.url, (140, 45)) as tui:
        draw = partial(panels.draw_people, tui.app, width=40, height=5)
        assert draw(found=nobody, is_known=True).plain == "nobody in the last 30 days"
        assert draw(found=nobody, is_known=False).plain == "not known yet"
        assert draw(found=None, is_known=True).plain == "not known yet"


async def test_people_who_arrive_later_are_shown_without_a_key(
    api: Served, agent: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of the watch does not move when the agent stores the people behind it."""
    monkeypatch.setattr(overview, "LOOK_AGAIN_S", 0.0)
    found = world.PEOPLE
    monkeypatch.setattr(world, "PEOPLE", schema.People(since=0, people=()))
    async with driving(api.api.url, (140, 45)) as tui:
        await tui.until(lambda: "nobody in the last" in tui.static("#panel-people"))
        monkeypatch.setattr(world, "PEOPLE", found)
        await tui.until(lambda: "Ada" in tui.static("#panel-people"))


# Somebody comes back.


@pytest.mark.parametrize(("hours", "is_shown"), [(7, True), (1, False)])
async def test_the_digest_comes_first_after_an_absence(
    hours: int, is_shown: bool, tmp_path: Path, api: Served, agent: Recorded
) -> None:
    path = tmp_path / "tui.json"
    save(path, TuiSettings(looked_at=world.NOW - 3600 * hours))
    async with driving(api.api.url, settings=path) as tui:
        if is_shown:
            await tui.until(lambda: "Since you last looked, 7h ago" in tui.text())
            await tui.press("escape", "d")
            await tui.until(lambda: "Since you last looked, 7h ago" in tui.text())
        else:
            await tui.press("d")
            await tui.until(lambda: "What changed within a day" in tui.text())
        assert "low coverages" in tui.text()
    assert load(path).looked_at == world.NOW


async def test_no_alert_is_not_said_before_the_log_was_read(api: Served, agent: Recorded) -> None:
    """A snapshot begins a new log: what its lines are is not known until they are read."""
    async with driving(api.api.url, (140, 45)) as tui:
        await tui.until(lambda: tui.app.model.has_log)
        before = tui.static("#panel-alerts")
        tui.app.model.apply("2:1", agent.snapshot(), world.NOW)
        assert not tui.app.model.has_log
        tui.app.redraw()
        await tui.until(lambda: tui.app.model.has_log)
        await tui.settled()
        assert tui.static("#panel-alerts") == before
