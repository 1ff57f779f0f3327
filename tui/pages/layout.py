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


def _fitting(names: Sequence[str], width: int) -> list[str]:
    found: list[str] = []
    for name in names:
        least = LEAST_CELLS.get(name, LEAST_OTHER)
        if least <= width:
            found.append(name)
            width -= least
    return found
