"""Every action of the table by its key, small and large: what it shows, and a snapshot of that.

One application for each page: what one case did is there for the next, as in a person's hands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.tui import world
from tests.tui.driving import SIZES, Driver, driving
from tui.actions import ACTIONS, BY_NAME

if TYPE_CHECKING:
    from syrupy import SnapshotAssertion

    from tests.tui.backend import Recorded, Served


class Case(NamedTuple):
    """An action: what it shows or says, and what is done after its key; `=text` is typed."""

    name: str
    told: tuple[str, ...]
    then: tuple[str, ...] = ()
    gone: str = ""
    """What is not there any more."""


TABS = (
    Case("relays", ("2310 ms", "nos.lol (trusted)")),
    Case("syncs", ("running", "62m ago")),
    Case("counters", ("events.1", "52,113")),
    Case("logs", ("no_answer", "alert_given_up")),
    Case("overview", ("launch-reactions", "≈ 184,312")),
)
PAGES = {
    "overview": (
        *TABS,
        Case("watch count", ("asking the 6 relays of fiatjaf-followers",)),
        Case("copy", ("copied fiatjaf-followers",)),
        Case("sort", ("Value ▼",)),
        Case("turn", ("Value ▲",)),
        Case("filter", ("launch-reposts",), ("=launch", "enter"), gone="thread-replies"),
        Case("watch show", ("exact distinct authors", "relay.primal.net")),
        Case("back", ("launch-reposts",)),
        Case("count", ("≈ 184,312 distinct authors",), (f"=followers {world.NPUB}", "enter")),
        Case(
            "watch add",
            ("watching followers-npub-0uf63m",),
            (f"={world.NPUB}", "enter", "enter"),
        ),
        Case("digest", ("about 612 new (301 to 1,104)",)),
        Case("watch warnings", ("Nothing is wrong",)),
        Case("alerts", ("liar.example.net has a warning in fiatjaf-followers", "not delivered")),
        Case("columns", ("Space switches one",)),
        Case("panels", ("Alerts and warnings",)),
        Case("state", ("changed today: 2 of ",)),
        Case("group", ("by person",)),
        Case("watch mark", ("1 marked",)),
        Case("watch mark all", ("2 marked",)),
        Case("reindex", ("by spark", "12,000,000")),
        Case("theme", ("Search for themes", "dracula")),
        Case("commands", (":watch add [TARGET]",)),
        Case("help", ("Go to all watches.",)),
    ),
    "relays": (Case("read", ("Status: disconnected",)),),
    "watch": (
        Case("watch span", ("last 1w",)),
        Case("watch exclude", ("counting without wss://nos.lol", "excluded")),
        Case("watch trust", ("believing wss://nos.lol",)),
        Case("watch relay", ("With it again:", "[x: take it back]", "Trusted for every watch")),
        Case("watch people", ("unfollowed", "Ada (npub1", "about 171,912")),
        Case("watch overlap", ("≈ 754", "10–15%", "≈87%", "exact"), ("down", "down")),
        Case("back", ("fiatjaf-followers", "last 1w")),
        Case("watch remove", ("removed fiatjaf-followers", "launch-reactions"), ("y",)),
    ),
    "syncs": (
        Case("sync run", ("running mine",)),
        Case("sync cancel", ("stopped mine",), ("y",)),
        Case("sync add", ("syncing dms",), ('=dms {"kinds":[4]}', "enter")),
        Case("sync remove", ("removed mine",), ("y",)),
        Case("coverage", ("1,162", "partial")),
    ),
    "coverage": (
        Case("coverage run", ("comparing mine",)),
        Case("back", ("launch-reactions",)),
    ),
    "counters": (
        Case("counter recount", ("events.1 adds up to 52113",)),
        Case("counter add", ("events.1 is 52115", "52,115"), ("=2", "enter")),
        Case("counter reset", ("events.1 begins again from zero",), ("y",)),
        Case("counter stream", ("stream VOTES",)),
        Case("counter list", ("subjects >.",), ("=.", "enter")),
    ),
    "log": (
        Case("logs level", ("started",), gone="not_listening"),
        Case("logs follow", ("held",)),
        Case("messages", ("Messages",)),
    ),
    "reindex": (
        Case("reindex run", ("rebuilding what is derived",)),
        Case("reindex check", ("checking what is derived",)),
        Case("reindex repair", ("checking and repairing",), ("y",)),
        Case("reindex cancel", ("cancelled",)),
        Case("back", ("launch-reactions",)),
    ),
}


def test_every_action_has_a_case() -> None:
    named = {case.name for cases in PAGES.values() for case in cases}
    assert named | {"quit"} == set(BY_NAME)  # after quit there is nothing to see
    assert len(BY_NAME) == len(ACTIONS)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("page", PAGES)
async def test_what_an_action_brings_about(
    page: str, size: tuple[int, int], api: Served, agent: Recorded, snapshot: SnapshotAssertion
) -> None:
    async with driving(api.api.url, size, toasts=False) as tui:
        await tui.go(page)
        for case in PAGES[page]:
            shown = await result(tui, case)
            assert shown == snapshot(name=f"{case.name}")
            await leave_dialogs(tui)


async def result(tui: Driver, case: Case) -> str:
    """Do it; what is on the screen then, and below it what was said."""
    said: list[str] = []
    tui.app.report = said.append
    await tui.press(BY_NAME[case.name].keys.split(",")[0])
    for step in case.then:
        await (tui.type(step[1:]) if step[0] == "=" else tui.press(step))
    await tui.until(lambda: all(one in "\n".join([tui.text(), *said]) for one in case.told))
    await tui.until(lambda: not case.gone or case.gone not in tui.text())
    await tui.settled()
    return "\n".join([tui.text(), *said])


async def leave_dialogs(tui: Driver) -> None:
    while len(tui.app.screen_stack) > 1:
        await tui.press("escape")
