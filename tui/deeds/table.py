"""What can be done with any table: filter, sort, copy; and with the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.app import TallyApp


async def find(app: TallyApp, words: list[str]) -> None:
    """Filter by the words, or let them be typed."""
    app.page.find(" ".join(words))


async def sort(app: TallyApp, words: list[str]) -> None:
    """Sort by the column named, or by the next one."""
    app.page.sort_by(words[0] if words else None)


async def turn(app: TallyApp, words: list[str]) -> None:
    """The last first."""
    app.page.sort_by(app.page.sort)


async def copy(app: TallyApp, words: list[str]) -> None:
    """Into the clipboard, as far as the terminal lets."""
    text = app.page.copied()
    if text:
        app.copy_to_clipboard(text)
        app.tell(f"copied {text}")


async def level(app: TallyApp, words: list[str]) -> None:
    """The next level of the log, or the one named."""
    app.log_page.choose_level(words[0] if words else None)


async def follow(app: TallyApp, words: list[str]) -> None:
    """Stay with the newest line, or do not."""
    app.log_page.toggle_follow()
