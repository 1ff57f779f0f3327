"""Which panels of the first page fit where, for a size of the terminal. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

PANEL_TITLES: Final = {
    "plot": "Plot of the watch under the cursor",
    "people": "People of that watch",
    "alerts": "Alerts and warnings",
    "relays": "Relays and their latency",
    "syncs": "Syncs and their rate",
    "counters": "Counters",
}
"""All panels, the most important first: where there is no room, the last ones are left out."""

PANELS: Final = tuple(PANEL_TITLES)

OF_WATCH: Final = frozenset({"plot", "people"})
"""The panels of the watch under the cursor, which need most room."""

LEAST_CELLS: Final = {"plot": 44}
LEAST_OTHER: Final = 26
PANELS_FROM: Final = ((80, 24), (60, 36))
"""From any of these sizes on there are panels; the second is that of a phone held upright."""

TWO_ROWS_FROM: Final = 36
"""Lines of the terminal from which the first page has two rows of panels, and the page of a watch
both of its tables."""

PLOT_WIDTH_FROM: Final = 80
"""Cells from which the page of a watch has a plot."""

FRAME_LINES: Final = 3
"""Heading, tabs and keys."""

LEAST_TOP: Final = ((28, 15), (0, 10))
"""Lines that the number and the plot of a watch have at least, from so many lines on."""
LEAST_PEOPLE: Final = 6
PLOT_FROM: Final = 28
"""Lines of the terminal from which a plot shows more than its axes."""


class Placing(NamedTuple):
    """The panels of the watch under the cursor, and those of the agent, in one row or two."""

    of_watch: tuple[str, ...] = ()
    of_agent: tuple[str, ...] = ()
    is_one_row: bool = True

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.of_watch, *self.of_agent)


def placing(width: int, height: int, wanted: Collection[str]) -> Placing:
    """Return the panels that fit into a terminal of so many cells."""
    if not any(width >= least[0] and height >= least[1] for least in PANELS_FROM):
        return Placing()
    names = [one for one in PANELS if one in wanted]
    if height < PLOT_FROM or width < LEAST_CELLS["plot"] + LEAST_OTHER:
        names = [one for one in names if one != "plot"]
    is_one_row = height < TWO_ROWS_FROM
    if is_one_row:
        names = _fitting(names, width)
    upper = [one for one in names if one in OF_WATCH]
    lower = [one for one in names if one not in OF_WATCH]
    return Placing(tuple(_fitting(upper, width)), tuple(_fitting(lower, width)), is_one_row)


class WatchTables(NamedTuple):
    """Lines of the tables of a watch, with their titles; None: what is left over.

    A table that is not there has 0 lines. The number and the plot get what is left over.
    """

    relays: int | None
    people: int | None


def watch_tables(
    width: int, height: int, relays: int, people: int, *, shows_people: bool
) -> WatchTables:
    """Place tables of so many rows: both, or on a terminal of few lines the one that is shown."""
    body = height - FRAME_LINES
    room = body - next(top for least, top in LEAST_TOP if height >= least)
    is_wide = width >= PLOT_WIDTH_FROM
    if height < TWO_ROWS_FROM:
        lines = min((people if shows_people else relays) + 1, room) if is_wide else None
        return WatchTables(0, lines) if shows_people else WatchTables(lines, 0)
    above = min(relays + 1, room - LEAST_PEOPLE)
    below = min(people + 1, (body - above) // 2, room - above)
    return WatchTables(above, below if is_wide else None)


def _fitting(names: Sequence[str], width: int) -> list[str]:
    found: list[str] = []
    for name in names:
        least = LEAST_CELLS.get(name, LEAST_OTHER)
        if least <= width:
            found.append(name)
            width -= least
    return found
