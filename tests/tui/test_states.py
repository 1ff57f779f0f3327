"""What is not the ordinary day: no agent, the wrong token, no room, no colours, hostile names."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING
from unittest.mock import AsyncMock, Mock

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner
from pytest_textual_snapshot import SVGImageExtension

from agent.api import schema
from agent.specs import SyncSpec
from nostr_client.errors import InvalidInput, NetworkError
from nostr_client.sync.report import SyncStatus
from tests.tui import world
from tests.tui.backend import TOKEN
from tests.tui.driving import ALL_SIZES, PATIENCE_S, SIZES, driving
from tui.app import REDRAWS_A_SECOND
from tui.cli import _app, cli
from tui.embedded_agent import EmbeddedAgent
from tui.glyphs import UNICODE
from tui.pages.relays import SORTS as RELAY_SORTS
from tui.pages.watch_number import WatchNumber
from tui.pages.watch_rows import SORTS

if TYPE_CHECKING:
    from syrupy import SnapshotAssertion

    from agent.api.schema import Figure
    from tests.tui.backend import Recorded, Served

STREAM = "text/event-stream"
BOTH = pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")


@pytest.fixture
def svg(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(SVGImageExtension)


def nowhere() -> tuple[str, str]:
    raise NetworkError("no agent is running; start it with: nostr-agent run")


@BOTH
async def test_without_an_agent_it_says_how_to_get_one(
    size: tuple[int, int], svg: SnapshotAssertion
) -> None:
    async with driving(nowhere, size, live=False) as tui:
        await tui.until(lambda: "looking for the agent" in tui.text())
        assert "nostr-agent run" in tui.text()
        assert "--embedded" in tui.text()
        assert "not known yet" in tui.text()
        assert "none yet" not in tui.text()
        assert await tui.picture() == svg
        await tui.press("r", "enter")
        assert "the agent is away" in tui.text()


async def test_while_it_connects_it_says_so_and_a_key_waits(api: Served, agent: Recorded) -> None:
    """As in a browser's tab, where keys come before the connection."""
    reachable = threading.Event()

    def found_late() -> tuple[str, str]:
        reachable.wait(PATIENCE_S)
        return api.api.url, TOKEN

    try:
        async with driving(found_late, (80, 24), live=False, own_agent=AsyncMock()) as tui:
            assert "Connecting to the agent." in tui.text()
            assert "No agent is running" not in tui.text()
            for page in "23":
                await tui.press(page)
                assert "Connecting to the agent." in tui.text()
            await tui.press("1", "r")
            assert not tui.app.messages
            reachable.set()
            await tui.until(lambda: bool(tui.app.messages))
            assert tui.app.messages[0].endswith("asking the 6 relays of fiatjaf-followers")
            assert agent.asked == [("recount", "fiatjaf-followers")]
    finally:
        reachable.set()


async def test_a_key_that_waited_long_enough_says_that_it_still_connects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tui.link.CONNECT_S", 0.01)
    reachable = threading.Event()

    def never() -> tuple[str, str]:
        reachable.wait(PATIENCE_S)
        raise NetworkError("no agent is running")

    try:
        async with driving(never, (80, 24), live=False) as tui:
            await tui.press("r")
            await tui.until(lambda: any("still connecting" in one for one in tui.app.messages))
            assert not any("away" in one for one in tui.app.messages)
    finally:
        reachable.set()


async def test_an_agent_that_was_found_and_does_not_answer_is_not_called_absent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    gone = f"http://127.0.0.1:{port}", TOKEN
    async with driving(lambda: gone, (80, 24), live=False, own_agent=AsyncMock()) as tui:
        await tui.until(lambda: "The agent does not answer." in tui.text())
        assert "No agent is running" not in tui.text()


@BOTH
async def test_what_is_out_of_date_is_marked_and_comes_back_by_itself(
    size: tuple[int, int], api: Served, agent: Recorded, svg: SnapshotAssertion
) -> None:
    async with driving(api.api.url, size) as tui:
        await tui.press("enter")
        api.use(None)
        await tui.until(lambda: "agent away 0s" in tui.text())
        assert "numbers of 03:20:00" in tui.text()
        assert tui.grid("#claims").faded
        assert "fiatjaf-followers" in tui.text()
        assert await tui.picture() == svg
        await tui.app.perform("watch count")
        await tui.until(lambda: "the agent is away" in tui.text())
        api.use(agent)
        await tui.until(lambda: "● live" in tui.text())
        await tui.until(lambda: not tui.grid("#claims").faded)


def starting() -> tuple[str, str]:
    raise NetworkError("the agent is starting")


@pytest.mark.parametrize(
    ("brings", "told"),
    [
        ("demo", "Starting the demo: local relays, people and an agent."),
        ("agent", "Starting an agent."),
    ],
)
async def test_what_is_brought_is_waited_for_and_not_asked_for(brings: str, told: str) -> None:
    async with driving(starting, (80, 24), live=False, brings=brings) as tui:
        await tui.until(lambda: "the agent is starting" in tui.text())
        assert told in tui.text()
        assert "nostr-agent run" not in tui.text()
        assert "--demo" not in tui.text()


@pytest.mark.parametrize(
    ("flags", "brings"), [({"demo": True}, "demo"), ({"demo": False}, "agent"), (None, "")]
)
def test_the_application_knows_what_was_brought(flags: dict[str, bool] | None, brings: str) -> None:
    given = {"demo": False, "read_only": False, "ascii_only": True, "theme": "tally-dark"}
    given |= {"api": None, "token_file": None, **(flags or {})}
    child = None if flags is None else EmbeddedAgent(Mock(), Mock(), Mock())
    assert _app(given, child).brings == brings


async def test_a_wrong_token_is_a_dialog_told_once(api: Served, agent: Recorded) -> None:
    async with driving(lambda: (api.api.url, "wrong"), live=False) as tui:
        await tui.until(lambda: "The agent lets nobody in" in tui.text())
        assert "the token is wrong" in tui.text()
        await tui.press("enter")
        await tui.until(lambda: len(tui.app.screen_stack) == 1)


async def test_an_agent_of_another_version_is_told_once_and_nothing_is_made_up() -> None:
    """Its status can be read, its stream cannot: no page says that there is nothing."""

    async def status(_: web.Request) -> web.Response:
        fields = {**msgspec.to_builtins(world.status()), "brand_new": [1]}
        return web.json_response(fields)

    async def events(_: web.Request) -> web.Response:
        tries.append(1)
        return web.Response(text='data: {"type":"unheard-of"}\n\n', content_type=STREAM)

    async def access(_: web.Request) -> web.Response:
        return web.json_response({"scope": "manage"})

    tries: list[int] = []
    site = web.Application()
    site.router.add_get("/v1/access", access)
    site.router.add_get("/v1/status", status)
    site.router.add_get("/v1/events", events)
    async with TestServer(site) as server, driving(str(server.make_url("/")), live=False) as tui:
        told = (
            "The agent is not understood", "is it of another version?", "Looking for the agent."
        )  # fmt: skip
        await tui.until(lambda: all(one in tui.text() for one in told))
        assert "none yet" not in tui.text()
        await tui.press("enter")
        seen = len(tries)
        await tui.until(lambda: len(tries) >= seen + 2)
        assert len(tui.app.screen_stack) == 1


@pytest.mark.parametrize(("size", "room"), [((59, 24), False), ((80, 15), False), ((60, 16), True)])
async def test_too_small_a_terminal_is_told(
    size: tuple[int, int], room: bool, api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url, size) as tui:
        for page in (
            "overview",
            "watch",
            "overlap",
            "relays",
            "syncs",
            "counters",
            "coverage",
            "log",
        ):
            await tui.go(page)
            assert ("is too small" in tui.text()) is not room, page
        await tui.go("overview")
        assert ("launch-reactions" in tui.text()) is room
        assert "Alerts ─" not in tui.text()
        await tui.pilot.resize_terminal(100, 30)
        await tui.until(lambda: "launch-reactions" in tui.text() and "─ Alerts ─" in tui.text())


@pytest.mark.parametrize("page", ["overview", "watch"])
async def test_ascii_is_enough(
    page: str, api: Served, agent: Recorded, svg: SnapshotAssertion
) -> None:
    async with driving(api.api.url, (80, 24), ascii_only=True) as tui:
        await tui.go(page)
        assert await tui.picture() == svg
        strange = {one for one in tui.text() if not one.isascii()}
        assert not strange, strange


async def test_light_looks_different(api: Served, agent: Recorded, svg: SnapshotAssertion) -> None:
    async with driving(api.api.url, (80, 24), theme="tally-light") as tui:
        assert tui.app.theme == "tally-light"
        assert await tui.picture() == svg


async def test_updates_are_drawn_at_most_ten_times_a_second(api: Served, agent: Recorded) -> None:
    """A hundred changes at once are a few redraws; the last one is what stands there."""
    async with driving(api.api.url) as tui:
        before, loop = tui.app.redraws, asyncio.get_running_loop()
        began = loop.time()

        def change() -> None:
            for n in range(100):
                agent.put_watch(world.watch("launch-reactions", "reactions", world.exact(2000 + n)))

        await asyncio.to_thread(api.do, change)
        await tui.until(lambda: "2,099" in tui.text())
        took = loop.time() - began
        assert tui.app.redraws - before <= REDRAWS_A_SECOND * took + 2


async def test_what_moves_and_goes_while_it_is_looked_at(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.press("down", "enter")
        assert tui.app.watched == "launch-reactions"
        gone = "launch-reactions"
        api.do(lambda: agent.put_watch(world.watch(gone, "reactions", world.exact(1300))))
        await tui.until(lambda: tui.app.screen.query_one("#digits").value == "1,300")
        await tui.app.perform("back")
        api.do(lambda: agent.feed.publish(removed_watch=gone))
        await tui.until(lambda: gone not in tui.grid().keys)
        await tui.press("home", "end", "pageup", "pagedown")
        assert tui.grid().key == "zaps-of-talk"


async def test_hostile_text_of_relays_stays_text(api: Served, agent: Recorded) -> None:
    """Control characters, markup and right-to-left marks move nothing and style nothing."""
    evil = "[red]\x1b[2J\x07\u202e[@click=app.exit]x[/]\n" * 20
    relay = msgspec.structs.replace(world.RELAYS[5], last_error=evil, notices=(evil,))
    bracketed = msgspec.structs.replace(world.RELAYS[0], url="ws://[::1]:7777")
    agent.relay_list = (relay, bracketed, *world.RELAYS[:3])
    async with driving(api.api.url) as tui:
        await tui.press("2")
        tui.grid("#relays").point(world.GONE)
        await tui.until(lambda: "[@click=app.exit]x[/]" in tui.text())
        text = tui.text()
        assert "[red]\\x1b[2J\\x07\\x202e[@click=app.exit]" in text
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
        tui.grid("#relays").point(bracketed.url)
        await tui.until(lambda: "─ ws://[::1]:7777 ─" in tui.text())


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (140, 40)])
async def test_a_number_too_wide_for_large_digits_stands_there_whole(
    size: tuple[int, int], api: Served, agent: Recorded
) -> None:
    large = world.watch("large", "zaps", world.exact(123_456_789_012_345))
    agent.watch_map = {"large": large}
    async with driving(api.api.url, size) as tui:
        await tui.press("enter")
        await tui.until(lambda: "123,456,789,012,345" in tui.text())
        assert not tui.app.screen.query_one("#digits").value


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        (world.estimate(184_312), "≈184,312"),
        (world.at_least(58), "≥58"),
        (world.exact(0), "0"),
        (None, ""),
    ],
)
async def test_the_large_number_says_what_it_is(
    figure: Figure | None, shown: str, api: Served, agent: Recorded
) -> None:
    agent.watch_map = {"one": world.watch("one", "followers", figure)}
    async with driving(api.api.url, (140, 45)) as tui:
        await tui.press("enter")
        assert tui.app.screen.query_one("#digits").value == shown
        facts = tui.static("#facts")
        if figure is None:
            assert facts.startswith("?\nno answer yet")
            assert "distinct authors" not in tui.text()
            assert tui.text().count("no answer yet") == 1
        else:
            assert "distinct authors" in facts
            assert "no answer yet" not in tui.text()


@pytest.mark.parametrize(
    ("hours", "changes", "told"),
    [
        (0.5, {}, "first counted 02:50; change of an hour from 03:50"),
        (5, {"1h": 3}, "first counted 27 Nov 22:20; change of a day from 22:20"),
        (5, {}, "not counted between 01:20 and 02:20; change of an hour from 04:20 at the latest"),
        (900, {"1h": 1, "1d": 2, "1w": 3}, ""),
    ],
)
def test_a_change_that_is_not_known_says_why_and_when_it_will_be(
    hours: float, changes: dict[str, int], told: str
) -> None:
    one = world.watch(
        "one", "followers", world.exact(7), changes=changes, since=world.NOW - 3600 * hours
    )
    number = WatchNumber(Mock(now=lambda: world.NOW, glyphs=UNICODE))
    assert number._waits(one) == told


async def test_what_a_relay_lacks_is_not_zero_before_it_was_compared(
    api: Served, agent: Recorded
) -> None:
    failed = schema.RelayReport(relay=world.GONE, status=SyncStatus.FAILED)
    same = schema.RelayReport(relay=world.NOS, status=SyncStatus.COMPLETE)
    spec = SyncSpec(name="one", filters=({"kinds": [1]},))
    agent.sync_map = {"one": schema.Sync(spec=spec, origin="api", relays=(failed, same))}
    async with driving(api.api.url) as tui:
        await tui.press("3")
        grid = tui.grid("#sync-relays")
        shown = {
            url: (grid._row(url)["have"].text, grid._row(url)["need"].text) for url in grid.keys
        }
        assert shown == {world.GONE: ("?", "?"), world.NOS: ("0", "0")}


async def test_a_trend_of_one_number_says_since_when(api: Served, agent: Recorded) -> None:
    young = world.watch("one", "followers", world.exact(7), spark=(7,), since=world.NOW - 600)
    agent.watch_map = {"one": young, "two": world.watch("two", "followers", None)}
    async with driving(api.api.url, (200, 60)) as tui:
        assert "since 03:10" in tui.text()
        cells = tui.app.overview_page._row("two")
        assert {cells[name].text for name in ("value", "sure", "bounds", "1h", "spark")} == {"?"}


async def test_the_arrow_is_in_the_column_by_which_rows_are_sorted(
    api: Served, agent: Recorded
) -> None:
    """At every size, of every page that sorts; rows rise or fall as it says."""
    for size in ALL_SIZES:
        async with driving(api.api.url, size) as tui:
            for page, sorts in (("1", SORTS), ("2", RELAY_SORTS)):
                await tui.press(page)
                for column in sorts:
                    tui.app.page.sort_by(column)
                    await tui.settled()
                    grid = tui.grid()
                    title = grid.render_line(0).text
                    assert grid.width_of(column), (size, column)
                    assert title.count("▲") + title.count("▼") == 1, title
            for keys in (("3",), ("4",), ("5",), ("v",)):
                await tui.press("1", *keys)
                title = tui.grid().render_line(0).text
                assert title.count("▲") + title.count("▼") == 1, (keys, title)


async def test_sorted_rows_rise_or_fall_as_the_arrow_says(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        tui.app.page.sort_by("value")
        for sign in ("▼", "▲"):
            await tui.settled()
            assert f"Value {sign}" in tui.text()
            watches = [tui.app.model.watches[key] for key in tui.grid().keys]
            found = [one.figure.value for one in watches if one.figure]
            assert found == sorted(found, reverse=sign == "▼")
            tui.app.page.sort_by("value")


@pytest.mark.parametrize("typed", ["[/red]x", "[b", "[@click=app.exit]x[/]"])
async def test_what_is_typed_into_a_filter_is_seen_and_stays_text(
    typed: str, api: Served, agent: Recorded
) -> None:
    async with driving(api.api.url, (80, 24)) as tui:
        for page in "12345":
            await tui.press(page, "slash")
            await tui.type(typed)
            lines = tui.text().splitlines()
            assert lines[-2].strip() == typed, (page, lines)
            if page in "1234":
                assert any(f"“{typed}”" in line for line in lines), (page, lines)
            await tui.press("escape")
        await tui.app.go("counters")
        await tui.app.counters_page.choose(pattern=f"x.{typed}")
        await tui.until(lambda: f"No counter fits x.{typed}." in tui.text())


def refused() -> tuple[str, str]:
    raise InvalidInput("the token cannot be read: [/red] permission denied")


async def test_what_keeps_it_from_the_agent_is_told(api: Served) -> None:
    async with driving(refused, (80, 24), live=False) as tui:
        await tui.until(lambda: "cannot be read: [/red] permission denied" in tui.text())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "it reads stdin and draws on stderr"),
        (["--theme", "nope"], "tally-dark"),
        (["--demo", "--api", "http://127.0.0.1:1"], "leave --api and --token-file out"),
        (["--demo", "--embedded"], "leave --embedded out"),
    ],
)
def test_wrong_usage_is_told(words: list[str], told: str) -> None:
    found = CliRunner().invoke(cli, words)
    assert found.exit_code == 2
    assert told in found.output


async def test_a_stream_that_was_cut_goes_on(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        api.do(agent.feed.close)
        await tui.until(lambda: tui.app.model.why == "the agent stops")
        await tui.until(lambda: tui.app.model.link == "live")
