"""What is drawn again: rows that changed, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tests.tui import world
from tests.tui.driving import driving

if TYPE_CHECKING:
    from textual.strip import Strip

    from tests.tui.backend import Recorded, Served
    from tui.widgets.grid import Grid

NAME = "launch-reactions"


def drawn(grid: Grid) -> dict[str, Strip]:
    return {grid.keys[n]: line.strip for n, line in grid._drawn.items()}


async def test_only_rows_that_changed_are_drawn_again(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.settled()
        grid = tui.grid("#watches")
        before = drawn(grid)
        assert set(before) == set(grid.keys)
        tui.app.page.tick()
        await tui.settled()
        assert all(drawn(grid)[key] is strip for key, strip in before.items())
        one = agent.watch_map[NAME]
        agent.put_watch(msgspec.structs.replace(one, figure=world.exact(7_654_321)))
        await tui.until(lambda: "7,654,321" in tui.text())
        after = drawn(grid)
        assert {key for key, strip in before.items() if after[key] is not strip} == {NAME}


async def test_the_cursor_draws_two_rows(api: Served, agent: Recorded) -> None:
    async with driving(api.api.url) as tui:
        await tui.settled()
        grid = tui.grid("#watches")
        before = drawn(grid)
        await tui.press("down")
        await tui.settled()
        after = drawn(grid)
        changed = {key for key, strip in before.items() if after[key] is not strip}
        assert changed == set(grid.keys[:2])
