"""Handlers of what pages show: panels, columns, states, groups, marked rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nostr_client.errors import InvalidInput
from tui.pages.layout import PANEL_TITLES, PANELS

if TYPE_CHECKING:
    from tui.host import Host


async def panels(host: Host, words: list[str]) -> None:
    """Switch the panels that are named, or choose them in a list."""
    now = host.settings.panels
    on = PANELS if now is None else now
    names = tuple(PANEL_TITLES.items())
    chosen = await _chosen(host, "Panels of the first page", names, on, words)
    if chosen is not None:
        host.remember(msgspec.structs.replace(host.settings, panels=chosen))
        host.redraw()


async def columns(host: Host, words: list[str]) -> None:
    """Switch the columns that are named, or choose them in a list."""
    page, names = host.page_name, host.page.columns
    every = tuple(name for name, _ in names)
    hidden = host.settings.hidden.get(page, ())
    on = tuple(name for name in every if name not in hidden)
    chosen = await _chosen(host, f"Columns of {page}", names, on, words)
    if chosen is not None:
        left_out = tuple(name for name in every if name not in chosen)
        pages = host.settings.hidden | {page: left_out}
        host.remember(msgspec.structs.replace(host.settings, hidden=pages))
        host.redraw()


async def _chosen(
    host: Host,
    title: str,
    names: tuple[tuple[str, str], ...],
    on: tuple[str, ...],
    words: list[str],
) -> tuple[str, ...] | None:
    """Those that are on, the named ones switched; without words as chosen in a list."""
    from tui.dialogs.choose import ChooseSeveral

    if not words:
        return await host.push_screen_wait(ChooseSeveral(title, names, on))
    every = tuple(name for name, _ in names)
    wrong = [word for word in words if word not in every]
    if wrong:
        raise InvalidInput(f"there is no {wrong[0]}; there are: {', '.join(every)}")
    return tuple(name for name in every if (name in on) is not (name in words))


async def state(host: Host, words: list[str]) -> None:
    """Show the watches of the next state, or of the one named."""
    host.overview_page.choose_state(" ".join(words) or None)


async def group(host: Host, words: list[str]) -> None:
    """Group the watches by the next thing, or by the one named."""
    host.overview_page.choose_group(words[0] if words else None)


async def mark(host: Host, words: list[str]) -> None:
    """Mark the watch or the group under the cursor, or unmark it."""
    host.overview_page.mark()


async def mark_all(host: Host, words: list[str]) -> None:
    """Mark all watches that are listed, or unmark them."""
    host.overview_page.mark_all()
