"""The terminal application with 2,000 watches and 200 relays, beside Textual's own DataTable.

CPU of a frame while it scrolls, and of opening a watch with a year of numbers; redraws a second
while numbers rain; cores when nothing happens.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from textual.app import App, ComposeResult
from textual.widgets import DataTable

from agent.api import schema
from bench.report import Report, arguments
from tests.tui import world
from tests.tui.backend import Recorded, served
from tests.tui.driving import Driver, driving
from tui.pages.overview import COLUMNS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WATCHES, RELAYS = 2_000, 200
SIZE = (140, 45)
TARGET_FRAMES_S = {"median": 0.016, "99 in 100": 0.040}
TARGET_OPEN_S = 0.1
TARGET_REDRAWS = 10.0
TARGET_CORE = 0.02
DAY_S = 86_400
UPDATES_A_SECOND = 400
SEED = 9


def watches(n: int) -> list[schema.WatchState]:
    """Watches of all kinds."""
    rng = random.Random(SEED)
    return [
        world.watch(
            f"watch-{i:04d}",
            "reactions",
            world.estimate(rng.randrange(10, 10**6)),
            age=rng.randrange(3600),
            changes={"1h": rng.randrange(-50, 50), "1d": rng.randrange(500), "1w": 1000},
            spark=tuple(rng.randrange(100) for _ in range(24)),
        )
        for i in range(n)
    ]


class YearLong(Recorded):
    """Has a year of numbers of each watch, as an agent stores them: raw, by hours, by days."""

    async def history(
        self, name: str, since: float = 0.0, limit: int = 2000
    ) -> schema.WatchHistory:
        now, rng = int(time.time()), random.Random(SEED)
        ages = [*range(365, 92, -1), *(hour / 24 for hour in range(92 * 24, 48, -1))]
        ages += [minute / 1440 for minute in range(2 * 1440, 0, -1)]
        points, value = [], 100_000
        for age in ages:
            value += rng.randrange(-20, 40)
            low, high = round(value * 0.97), round(value * 1.03)
            points.append(schema.Point(at=now - int(age * DAY_S), value=value, low=low, high=high))
        found = [one for one in points if one.at >= since][-limit:]
        return schema.WatchHistory(watch=name, points=tuple(found))


async def opening(tui: Driver, times: int) -> list[float]:
    """CPU seconds from Enter until the page of a watch stands with all of its year."""
    took = []
    await tui.press("1", "enter")
    tui.app.watch_page.choose_span("all")
    await tui.settled()
    for _ in range(times):
        await tui.press("1", "down")
        before = time.thread_time()
        await tui.press("enter")
        took.append(time.thread_time() - before)
    await tui.press("1")
    return took


def relays(n: int) -> list[schema.RelayState]:
    """Relays that are there."""
    return [
        schema.RelayState(
            url=f"wss://relay{i:03d}.example.com", status="connected", latency_ms=40.0 + i
        )
        for i in range(n)
    ]


@asynccontextmanager
async def application(state: Recorded, size: tuple[int, int]) -> AsyncIterator[Driver]:
    """The application over an API that knows this."""
    with served() as api:
        api.use(state)
        async with driving(api.api.url, size, now=time.time, patience=60) as tui:
            yield tui


async def scroll(tui: Driver, frames: int) -> list[float]:
    """CPU seconds of each frame, a page down at a time, and back to the top at the end."""
    took, grid = [], tui.grid("#watches")
    for n in range(frames):
        before = time.thread_time()
        grid.action_to(0) if n % 40 == 39 else grid.action_page(1)
        await tui.pilot.pause()
        took.append(time.thread_time() - before)
    return took


class Peer(App[None]):
    """The same table as Textual's own widget has it."""

    def __init__(self, found: list[schema.WatchState]) -> None:
        super().__init__()
        self._found = found

    def compose(self) -> ComposeResult:
        yield DataTable(cursor_type="row")

    def on_mount(self) -> None:
        table = self.query_one(DataTable)
        table.add_columns(*(one.title for one in COLUMNS))
        for one in self._found:
            value = one.figure.value if one.figure else 0
            cells = (one.spec.name, f"{value:,}", "├──●──┤", "±5%", "1–2", *one.changes.values())
            table.add_row(*map(str, cells), "▁▂▃▄▅▆▇█" * 2, "12s", "5/6", "1")


async def peer(found: list[schema.WatchState], frames: int) -> list[float]:
    """The same for the peer."""
    took: list[float] = []
    app = Peer(found)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        table = app.query_one(DataTable)
        for n in range(frames):
            before = time.thread_time()
            table.action_scroll_top() if n % 40 == 39 else table.action_page_down()
            await pilot.pause()
            took.append(time.thread_time() - before)
    return took


async def rain(
    tui: Driver, state: Recorded, found: list[schema.WatchState], seconds: float
) -> float:
    """Redraws a second while the agent tells of hundreds of changes a second."""
    before, began = tui.app.redraws, time.monotonic()
    loop, rng = asyncio.get_running_loop(), random.Random(SEED)
    while time.monotonic() - began < seconds:
        one = rng.choice(found)
        await loop.run_in_executor(None, state.feed_later, one)
        await asyncio.sleep(1 / UPDATES_A_SECOND)
    return (tui.app.redraws - before) / (time.monotonic() - began)


async def measure(*, quick: bool) -> dict[str, Any]:
    """All figures."""
    found = watches(200 if quick else WATCHES)
    state = YearLong(watches=found, relays=relays(20 if quick else RELAYS))
    frames, seconds = (20, 1.0) if quick else (200, 10.0)
    async with application(state, SIZE) as tui:
        gc.collect()
        gc.freeze()  # as the program does once it has begun
        took = await scroll(tui, frames)
        opened = await opening(tui, 3 if quick else 20)
        redraws = await rain(tui, state, found, seconds)
        await tui.settled()
        before, began = time.process_time(), time.monotonic()
        await asyncio.sleep(seconds)
        idle = (time.process_time() - before) / (time.monotonic() - began)
    theirs = await peer(found, frames // 4)  # it takes many times as long
    return {
        "frames": sorted(took),
        "open": sorted(opened),
        "redraws": redraws,
        "idle": idle,
        "peer": sorted(theirs),
    }


def main() -> None:
    """Print the figures and write bench/results/tui.json."""
    options = arguments(__doc__)
    report = Report("tui", options)
    report.versions("textual")
    report.note(f"The seed of the generated data is {SEED}.")
    found = asyncio.run(measure(quick=options.quick))
    for name, part in (("median", 0.5), ("99 in 100", 0.99)):
        ours, theirs = (found[key][int(len(found[key]) * part)] for key in ("frames", "peer"))
        report.time(f"a frame while scrolling, {name}", ours, peer="DataTable", theirs=theirs)
        report.figure(f"the same, {name}", ours, "s", at_most=TARGET_FRAMES_S[name])
    median = found["open"][len(found["open"]) // 2]
    report.figure("opening a watch with a year", median, "s", at_most=TARGET_OPEN_S)
    report.figure(
        "redraws a second, in a rain of updates", found["redraws"], "", at_most=TARGET_REDRAWS
    )
    report.figure("idle, cores", found["idle"], "", at_most=TARGET_CORE)
    report.finish()


if __name__ == "__main__":
    main()
