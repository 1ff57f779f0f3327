"""Going from page to page, within a table and the log, and out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from tui.action import Deed
    from tui.app import TallyApp

_A_COMMAND: Final = "a command, as: count followers npub1…"


def to(page: str) -> Deed:
    """Goes to a page."""

    async def go(app: TallyApp, words: list[str]) -> None:
        await app.go(page)

    return go


async def back(app: TallyApp, words: list[str]) -> None:
    """To the first page."""
    await app.go("overview")


async def help(app: TallyApp, words: list[str]) -> None:
    """All actions, to be searched and run."""
    from tui.dialogs.help import Help

    chosen = await app.push_screen_wait(Help(app.page_name, read_only=app.read_only))
    if chosen:
        await app.perform(chosen)


async def palette(app: TallyApp, words: list[str]) -> None:
    """The line for commands; the words of one that is wrong come in a form, to be mended."""
    from tui.commands import Palette

    if words:
        await _mend(app, " ".join(words))
    else:
        await app.push_screen(Palette(placeholder=_A_COMMAND))


async def _mend(app: TallyApp, typed: str) -> None:
    from tui.commands import parse

    meant = []

    async def check(text: str) -> None:
        line = parse(text)
        if line is None:
            raise InvalidInput(f"there is no command {text}")
        meant.append(line)

    await app.fill("Command", _A_COMMAND, check, typed)
    for line in meant:
        await app.perform(line.action.name, line.words)


async def theme(app: TallyApp, words: list[str]) -> None:
    """Other colours: those named, else a list to choose from."""
    if not words:
        from textual.theme import ThemeProvider

        from tui.commands import Palette

        await app.push_screen(Palette(providers=[ThemeProvider], placeholder="Search for themes…"))
    elif words[0] in app.available_themes:
        app.theme = words[0]
    else:
        app.trouble(f"there is no theme {words[0]}")


async def quit(app: TallyApp, words: list[str]) -> None:
    """Leave."""
    app.exit()


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
