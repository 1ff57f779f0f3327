"""Everything that can be done: reachable by key, palette and help, and it does what it says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import pytest
from textual.binding import Binding
from textual.events import Key
from textual.widgets import Button, Input, OptionList

from nostr_client.counters.shown import AuditBreak
from tests.tui import world
from tests.tui.backend import READ_TOKEN
from tests.tui.driving import NAMES, SIZES, Driver, driving
from tui.actions import ACTIONS, BY_NAME
from tui.dialogs.claim import ClaimDetail
from tui.dialogs.palette import Commands
from tui.pages.log import LEVELS
from tui.widgets.frame import Keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.api import schema
    from tests.tui.backend import Recorded, Served

PAGES = (
    "overview", "watch", "overlap", "relays", "syncs", "counters", "coverage", "log", "reindex"
)  # fmt: skip
PAGES_BY_KEY = ("overview", "relays", "syncs", "counters", "log")


def recording(tui: Driver) -> list[str]:
    """From now on actions are written down instead of done."""
    done: list[str] = []

    def note(name: str, words: list[str] | None = None) -> None:
        done.append(name)

    tui.app.action_do = note  # type-checked by mypy as a method of the same form
    return done


@pytest.mark.parametrize("page", PAGES)
async def test_every_action_of_a_page_has_its_keys(page: str, api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.go(page)
        done = recording(tui)
        wanted = []
        for action in ACTIONS:
            for key in action.keys.split(",") if action.on(page) else ():
                await tui.pilot.press(key)
                wanted.append(action.name)
        await tui.until(lambda: len(done) >= len(wanted))
    assert done == wanted


@pytest.mark.parametrize("page", PAGES)
async def test_the_keys_of_other_pages_do_nothing(page: str, api: Served, agent: Recorded) -> None:
    here = {key for one in ACTIONS if one.on(page) for key in one.keys.split(",")}
    others = [key for one in ACTIONS for key in one.keys.split(",") if key not in here]
    async with driving(api.api.url) as tui:
        await tui.go(page)
        done = recording(tui)
        await tui.press(*others)
    assert others
    assert not done


def test_no_key_means_two_things_on_a_page() -> None:
    for page in PAGES:
        keys = [key for a in ACTIONS if a.on(page) for key in a.keys.split(",")]
        assert len(keys) == len(set(keys)), page


TAKES_AWAY = {"exclude": "x", "remove": "D", "reset": "D", "cancel": "X"}
"""The last word of a command that takes something away, and the key of all such commands."""


def test_a_key_that_takes_something_away_does_the_same_on_every_page_and_nothing_else() -> None:
    for action in ACTIONS:
        keys = {*action.keys.split(",")} & {"x", "X", "D", "delete"}
        verb = action.name.split()[-1]
        wanted = {TAKES_AWAY[verb]} if verb in TAKES_AWAY else set()
        assert keys - {"delete"} == wanted, action.name
        assert ("delete" in keys) == (TAKES_AWAY.get(verb) == "D"), action.name


def test_a_key_of_a_relays_dialog_is_that_of_the_page() -> None:
    for one in ClaimDetail.BINDINGS:
        assert isinstance(one, Binding)
        chosen = re.fullmatch(r"choose\('(watch \w+)'\)", one.action)
        assert chosen is None or one.key in BY_NAME[chosen[1]].keys.split(",")


async def test_every_action_is_in_the_palette(api: Served, agent: Recorded) -> None:
    """First of what its name finds, and among what is listed before anything is typed."""
    async with driving(api.api.url) as tui:
        done = recording(tui)
        commands = Commands(tui.app.screen)
        listed = [hit.text async for hit in commands.discover()]
        for action in ACTIONS:
            hits = [hit async for hit in commands.search(f":{action.name}")]
            best = max(hits, key=lambda hit: hit.score)
            best.command()
    assert done == [action.name for action in ACTIONS]
    assert listed == done


def in_help(tui: Driver) -> list[str]:
    """The names of the actions that the help lists, from the top."""
    options = tui.app.screen.query_one("#help-actions", OptionList)
    return [str(one.id) for one in options.options]


async def test_every_action_is_in_the_help(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("question_mark")
        words = tui.app.screen.query_one(Input)
        for action in ACTIONS:
            words.value = f"{action.name} {action.help}"
            await tui.until(lambda name=action.name: in_help(tui)[:1] == [name])


async def test_help_runs_what_is_chosen(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("question_mark")
        await tui.type("agent's log")
        await tui.press("enter")
        await tui.until(lambda: tui.app.page_name == "log")


async def test_the_footer_has_five_to_seven_keys_and_does_what_is_clicked(
    api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url, (80, 24)) as tui:
        for page in PAGES:
            await tui.go(page)
            assert 5 <= len(tui.app.screen.query_one(Keys).names) <= 7, page
        await tui.go("overview")
        done = recording(tui)
        await tui.pilot.click(Keys, offset=(15, 0))
        await tui.until(lambda: bool(done))
        assert done == ["watch add"]


async def test_nothing_is_destroyed_by_one_key(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        for action in [one for one in ACTIONS if "after a question" in one.help]:
            await tui.go(action.pages[0])
            await tui.press(action.keys.split(",")[0], "enter")
            await tui.until(lambda: len(tui.app.screen_stack) == 1)
    assert agent.asked == []
    assert {a.name for a in ACTIONS if "Remove" in a.help or "reset" in a.name} <= {
        a.name for a in ACTIONS if "after a question" in a.help
    }


async def test_read_only_changes_nothing_and_offers_nothing(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url, read_only=True) as tui:
        await tui.press("a", "r", "D")
        assert "only reads" in tui.text()
        assert len(tui.app.screen_stack) == 1
        assert "Add" not in tui.app.screen.query_one(Keys).names
        await tui.press("question_mark")
        writing = [a.name for a in ACTIONS if a.writes]
        assert not set(in_help(tui)) & set(writing)
        assert len(in_help(tui)) == len(ACTIONS) - len(writing)
    assert agent.asked == []


async def test_a_token_that_only_reads_offers_nothing_else(api: Served, agent: Recorded) -> None:
    """Not by the word of --read-only: by what the agent says of the token."""
    async with driving(lambda: (api.api.url, READ_TOKEN)) as tui:
        await tui.until(lambda: tui.app.read_only)
        await tui.press("a", "r", "D")
        assert "Add" not in tui.app.screen.query_one(Keys).names
        assert "only reads" in tui.text()
    assert agent.asked == []


# What single actions do.


async def test_going_from_page_to_page(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        for key, page in zip("12345", PAGES_BY_KEY, strict=True):
            await tui.press(key)
            assert tui.app.page_name == page
        await tui.press("1", "down", "enter")
        assert (tui.app.page_name, tui.app.watched) == ("watch", "launch-reactions")
        assert "1,287" in tui.text() or "exact distinct authors" in tui.text()
        await tui.press("escape")
        assert tui.app.page_name == "overview"
        assert tui.grid().key == "launch-reactions"


FAST = {"slash": "/", "c": "c", "question_mark": "?", "colon": ":"}


@pytest.mark.parametrize("key", FAST)
async def test_keys_typed_fast_go_where_the_first_one_leads(
    key: str, api: Served, agent: Recorded
) -> None:
    """All are there at once: an `a` after the slash is a letter, and opens nothing."""
    async with driving(api.api.url) as tui:
        for name, letter in ((key, FAST[key]), ("z", "z"), ("a", "a"), ("p", "p")):
            tui.app.post_message(Key(name, letter))
        await tui.until(lambda: getattr(tui.app.focused, "value", "") == "zap")
        assert isinstance(tui.app.focused, Input)


@pytest.mark.parametrize(("leaving", "stays"), [("escape", ""), ("enter", "launch")])
async def test_keys_typed_fast_after_a_filter_are_keys_again(
    leaving: str, stays: str, api: Served, agent: Recorded
) -> None:
    """Both keys are there before the first is looked at, as when the machine is busy."""
    async with driving(api.api.url) as tui:
        await tui.press("slash", *"launch")
        for key, letter in ((leaving, None), ("2", "2")):
            tui.app.post_message(Key(key, letter))
        await tui.until(lambda: tui.app.page_name == "relays")
        await tui.go("overview")
        assert tui.app.page.wanted == stays


async def test_adding_a_watch_by_pasting(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        from textual.events import Paste

        tui.app.post_message(Paste(f" {world.NPUB}\n"))
        await tui.until(lambda: len(tui.app.screen_stack) == 2)
        await tui.settled()
        assert "person: what to count?" in tui.text()
        assert tui.app.screen.query_one("#name", Input).value == "followers-npub-0uf63m"
        await tui.press("enter", "enter")
        await tui.until(lambda: "watching followers-npub-0uf63m" in tui.text())
        assert "followers-npub-0uf63m" in tui.grid("#watches").keys
    assert agent.asked == [("add_watch", "followers-npub-0uf63m")]


async def test_adding_a_watch_of_a_filter_with_a_name(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("a")
        await tui.type("npub1wrong")
        assert "not npub, name@domain, nevent, naddr" in " ".join(tui.text().split())
        assert tui.app.screen.query_one("#go", Button).disabled
        tui.app.screen.query_one("#target", Input).value = '{"kinds":[1],"#t":["nostr"]}'
        await tui.settled()
        tui.app.screen.query_one("#name", Input).value = "tag"
        await tui.settled()
        await tui.pilot.click("#go")
        await tui.until(lambda: "watching tag" in tui.text())
        spec = agent.watch_map["tag"].spec
    assert spec.filters == ({"kinds": [1], "#t": ["nostr"]},)
    assert spec.query is None


async def test_what_the_agent_refuses_is_a_toast(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        tui.app.do("sync add", ["mine", '{"kinds":[1]'])
        await tui.until(lambda: "Add a sync" in tui.text())
        await tui.app.perform("sync cancel", ["nothing"])
        await tui.until(lambda: "there is no sync nothing" in tui.text())
        assert "a name and a filter are needed" in tui.text()


@pytest.mark.parametrize("size", SIZES)
async def test_what_is_left_out_is_not_called_trusted(
    size: tuple[int, int], api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url, size) as tui:
        await tui.press("enter", "t")
        await tui.until(lambda: tui.app.page_name == "watch")
        grid = tui.grid("#claims")

        def why() -> str:
            return grid._row(grid.key or "")["why"].text if grid.key else ""

        await tui.until(lambda: why().startswith("trusted by you"))
        await tui.press("enter")
        await tui.until(lambda: "Tests are not applied: you trust this relay" in tui.text())
        assert "No test" not in tui.text()
        await tui.press("escape")
        await tui.press("x")
        await tui.until(lambda: why() == "by you")
        told = [one.message for one in tui.app._notifications]
        assert any("but excluded until you take it back (x)" in one for one in told), told


async def test_recount_exclude_trust_and_remove(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("r", "enter", "x")
        await tui.until(lambda: "counting without wss://nos.lol" in tui.text())
        await tui.until(lambda: " by you" in tui.text())
        assert agent.watch_map["fiatjaf-followers"].spec.excluded == ("wss://nos.lol",)
        tui.grid("#claims").point(world.DAMUS)
        await tui.press("t")
        await tui.until(lambda: "trusted by you" in tui.text())
        tui.grid("#claims").point(world.NOS)
        await tui.press("x")
        await tui.until(lambda: "counting again with" in tui.text())
        await tui.press("D", "y")
        await tui.until(lambda: tui.app.page_name == "overview")
        await tui.until(lambda: "fiatjaf-followers" not in tui.grid("#watches").keys)
    assert [what for what, _ in agent.asked] == [
        "recount",
        "change_watch",
        "change_watch",
        "change_watch",
        "remove_watch",
    ]
    assert BY_NAME["watch remove"].writes


async def test_spans_of_the_plot(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("enter")
        for shown in ("last 1w", "all numbers", "last 1h", "last 1d"):
            await tui.press("h")
            await tui.until(lambda shown=shown: shown in tui.text())
        await tui.app.perform("watch span", ["1h"])
        await tui.settled()
        assert tui.app.watch_page.span == "1h"


async def test_the_key_of_the_person_under_the_cursor_is_copied(
    api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("enter", "p", "y")
        assert tui.app.clipboard == world.NPUB


async def test_filter_sort_turn_and_copy(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("s")
        assert tui.grid().keys[:2] == ["fiatjaf-followers", "launch-reactions"]
        await tui.press("S")
        assert tui.grid().keys[-1] == "fiatjaf-followers"
        await tui.press("slash")
        await tui.type("launch")
        assert tui.grid().keys == ["launch-reposts", "launch-reactions"]
        await tui.press("enter", "y")
        assert "copied launch-re" in tui.text()
        await tui.press("slash", "escape")
        assert len(tui.grid().keys) == len(world.WATCHES)
        await tui.pilot.click("#watches", offset=(3, 0))
        await tui.settled()
        assert tui.grid().keys[0] == "fiatjaf-followers"
        await tui.app.perform("sort", ["1h"])
        assert tui.grid().keys[0] == "launch-reactions"


async def test_the_mouse_points_and_opens(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.pilot.click("#watches", offset=(5, 3))
        assert tui.grid().key == "launch-reposts"
        await tui.pilot.click("#watches", offset=(5, 2), times=2)
        await tui.until(lambda: tui.app.page_name == "watch")
        await tui.settled()
        assert tui.app.watched == "launch-reactions"
        await tui.pilot.click("Tabs", offset=(15, 0))
        await tui.until(lambda: tui.app.page_name == "relays")


async def test_syncs_run_stop_come_and_go(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("3", "r")
        await tui.until(lambda: "running mine" in tui.text())
        await tui.press("X", "y")
        await tui.until(lambda: "stopped mine" in tui.text())
        await tui.press("a")
        await tui.type('dms {"kinds":[4]}')
        await tui.press("enter")
        await tui.until(lambda: "dms" in tui.grid("#syncs").keys)
        tui.grid("#syncs").point("old")
        await tui.press("D", "y")
        await tui.until(lambda: "old" not in tui.grid("#syncs").keys)
    assert agent.asked == [
        ("run_sync", "mine"),
        ("cancel_sync", "mine"),
        ("add_sync", "dms"),
        ("remove_sync", "old"),
    ]


async def test_counters_by_pattern_stream_recount_add_and_reset(
    api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("4", "w")
        tui.app.screen.query_one(Input).value = "events.*"
        await tui.press("enter")
        await tui.until(lambda: len(tui.grid("#subjects").keys) == 3)
        await tui.press("r")
        await tui.until(lambda: "events.1 adds up to 52113" in tui.text())
        agent.breaks = (AuditBreak(seq=3, expected="4", found="5"),)
        await tui.press("r")
        await tui.until(lambda: "message 3: 5 instead of 4" in tui.text())
        await tui.press("escape", "plus")
        await tui.type("2")
        await tui.press("enter")
        await tui.until(lambda: "events.1 is 52115" in tui.text())
        await tui.press("D", "y")
        await tui.until(lambda: "events.1 begins again from zero" in tui.text())
        await tui.press("n")
        await tui.until(lambda: "stream VOTES" in tui.text())
    assert agent.asked == [
        ("audit", "events.1"),
        ("audit", "events.1"),
        ("add", "events.1 2"),
        ("reset", "events.1"),
    ]


async def test_the_log_by_level_and_held(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("5")
        seen = []
        for _ in LEVELS:
            await tui.press("l")
            seen.append(len(tui.grid().keys))
        assert seen == [5, 2, 1, 6]
        await tui.press("f")
        assert "held" in tui.static("#log-state")
        await tui.app.perform("logs level", ["error"])
        assert list(tui.grid().keys) == ["5"]


async def test_themes_by_name_and_by_list(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.app.perform("theme", ["tally-light"])
        assert tui.app.theme == "tally-light"
        await tui.app.perform("theme", ["none-such"])
        await tui.until(lambda: "there is no theme none-such" in tui.text())
        await tui.press("T")
        await tui.until(lambda: len(tui.app.screen_stack) == 2)


async def test_leaving(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.pilot.press("q")
        await tui.until(lambda: not tui.app.is_running)


@pytest.mark.parametrize(
    ("line", "good"),
    [
        ("count followers", lambda tui: "a target" in tui.text() or "Count once" in tui.text()),
        ("count nothing npub1x", lambda tui: "the query is one of" in tui.text()),
        ("watch show nobody", lambda tui: "there is no watch nobody" in tui.text()),
        ("counter add votes.yes many", lambda tui: "a whole number are needed" in tui.text()),
    ],
)
async def test_commands_that_lack_something_say_what(
    line: str, good: Callable[[Driver], bool], api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("colon")
        await tui.type(line)
        await tui.until(lambda: f":{line.split()[0]}" in tui.text())
        await tui.press("enter")
        await tui.until(lambda: good(tui))
    assert agent.asked == []


@pytest.mark.parametrize("line", ["bogus cmd", "err", "the agent", "wtch rm launch-reactions"])
async def test_a_command_that_there_is_not_runs_nothing_and_comes_to_be_mended(
    line: str, api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("colon")
        await tui.type(line)
        await tui.until(lambda: f"There is no command {line}" in tui.text())
        await tui.press("enter")
        await tui.until(lambda: f"there is no command {line}" in tui.text())
        field = tui.app.screen.query_one(Input)
        assert (field.value, tui.app.page_name) == (line, "overview")
        field.value = "watch show nobody"
        await tui.press("enter")
        await tui.until(lambda: "there is no watch nobody" in tui.text())
    assert agent.asked == []


@pytest.mark.parametrize("line", ["bogus cmd", "watch show nobody"])
async def test_enter_typed_fast_after_a_command_is_about_the_whole_of_it(
    line: str, api: Served, agent: Recorded
) -> None:
    """What the list shows is of the letters before: Enter waits for what all of them find."""
    said = {"bogus cmd": "there is no command bogus cmd"}.get(line, "there is no watch nobody")
    async with driving(api.api.url) as tui:
        for letter in f":{line}":
            tui.app.post_message(Key(NAMES.get(letter, letter), letter))
        tui.app.post_message(Key("enter", None))
        await tui.until(lambda: said in tui.text())
        assert tui.app.page_name == "overview"
    assert agent.asked == []


@pytest.mark.parametrize(
    ("typed", "first"), [("sy", "syncs"), ("wa c", "watch count"), ("rebuild", "reindex")]
)
async def test_a_command_is_found_by_letters_of_its_name_and_by_its_title(
    typed: str, first: str, api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url) as tui:
        hits = [hit async for hit in Commands(tui.app.screen).search(typed)]
        assert max(hits, key=lambda hit: hit.score).text == first


async def test_a_command_that_changes_something_is_told_apart_from_none_in_read_only(
    api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url, read_only=True) as tui:
        await tui.press("colon")
        await tui.type("watch remove launch-reactions")
        await tui.until(lambda: "not there in a session that only reads" in tui.text())
        await tui.press("enter")
        await tui.until(lambda: "this session only reads" in tui.text())


async def test_the_bulk_rebuild_is_begun_checked_mended_and_stopped(
    api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("b", "r", "c", "X")
        await tui.until(lambda: len(agent.asked) == 3)
        await tui.press("R")
        await tui.until(lambda: "Repair what differs" in tui.text())
        await tui.press("y")
        await tui.until(lambda: len(agent.asked) == 4)
    assert agent.asked == [
        ("rebuild", ""),
        ("rebuild", "check"),
        ("cancel_rebuild", ""),
        ("rebuild", "repair"),
    ]


async def test_the_overlap_is_that_of_the_watch_that_is_open(
    api: Served, agent: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another watch nothing of this one is shown; what cannot be compared is no zero."""
    asked: list[str] = []

    async def overlaps(name: str) -> schema.WatchOverlaps:
        asked.append(name)
        found = world.overlaps(name)
        if name != "fiatjaf-followers":
            none = world.UNCOMPARED_ONLY
            found = msgspec.structs.replace(found, overlaps=(), uncompared=none)
        return found

    monkeypatch.setattr(agent, "overlaps", overlaps)
    async with driving(api.api.url) as tui:
        await tui.press("enter", "o")
        assert len(tui.grid("#matrix").keys) == len(world.COMPARED)
        assert len(tui.grid("#pairs").keys) == 4
        await tui.press("slash")
        await tui.type("primal")
        await tui.press("enter")
        assert tui.grid("#matrix").keys == [world.PRIMAL]
        await tui.press("slash")
        await tui.type("nothing like it")
        assert "Nothing matches" in tui.text()
        await tui.press("escape")
        again = msgspec.structs.replace(world.WATCHES[0], updated_at=world.NOW)
        api.do(lambda: agent.put_watch(again))
        await tui.until(lambda: len(asked) == 2)
        await tui.press("escape", "escape")
        await tui.press("down", "enter", "o")
        assert asked[2:] == ["launch-reactions"]
        await tui.until(lambda: "not compared: no other relay" in tui.text())
        assert "%" not in tui.text().replace("95 %", "")
        await tui.app.perform("watch overlap", ["nobody"])
        await tui.until(lambda: "there is no watch nobody" in tui.text())


async def test_a_coverage_of_no_event_says_so_and_has_no_share(
    api: Served, agent: Recorded
) -> None:
    (mine,) = world.COVERAGES[:1]
    assert mine.run is not None
    relays = tuple(
        msgspec.structs.replace(one, share=None, kinds=(), why="") for one in mine.run.relays[:2]
    )
    run = msgspec.structs.replace(mine.run, kinds=(), relays=relays)
    empty = msgspec.structs.replace(mine, run=run)
    async with driving(api.api.url) as tui:
        await tui.press("v")
        api.do(lambda: agent.feed.publish(coverage=empty))
        await tui.until(lambda: "no events" in tui.text())
        assert "2/2" in tui.text()
        assert "%" not in tui.text()


async def test_a_coverage_is_compared_and_what_was_removed_goes(
    api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("v", "r")
        await tui.until(lambda: ("run_coverage", "mine") in agent.asked)
        await tui.press("down")
        await tui.until(lambda: tui.grid("#matrix").border_title == "new")
        assert tui.grid("#matrix").keys == []
        api.do(lambda: agent.feed.publish(removed_coverage="new"))
        await tui.until(lambda: tui.grid("#coverages").keys == ["mine"])
        await tui.until(lambda: len(tui.grid("#matrix").keys) == 6)
        await tui.press("escape")
        await tui.until(lambda: tui.app.page_name == "overview")
