"""Handlers that move: between pages, within a table and the log, to help and palette, and out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from tui.host import Handler, Host

_A_COMMAND: Final = "a command, as: count followers npub1…"


def to(page: str) -> Handler:
    """Goes to a page."""

    async def go(host: Host, words: list[str]) -> None:
        await host.go(page)

    return go


async def back(host: Host, words: list[str]) -> None:
    """To the page that this one was opened from: of shared people the watch, else the first."""
    await host.go("watch" if host.page_name == "overlap" else "overview")


async def help(host: Host, words: list[str]) -> None:
    """All actions, to be searched and run."""
    from tui.dialogs.help import Help

    chosen = await host.push_screen_wait(Help(host.offered, host.page_name))
    if chosen:
        await host.perform(chosen)


async def palette(host: Host, words: list[str]) -> None:
    """The line for commands; the words of one that is wrong come in a form, to be corrected."""
    from tui.dialogs.palette import Palette

    if words:
        await _correct(host, " ".join(words))
    else:
        await host.push_screen(Palette(placeholder=_A_COMMAND))


async def _correct(host: Host, typed: str) -> None:
    from tui.dialogs.palette import parse

    meant = []

    async def check(text: str) -> None:
        line = parse(text, host.actions)
        if line is None:
            raise InvalidInput(f"there is no command {text}")
        meant.append(line)

    await host.fill("Command", _A_COMMAND, check, typed)
    for line in meant:
        await host.perform(line.action.name, line.words)


async def theme(host: Host, words: list[str]) -> None:
    """Other colours: those named, else a list to choose from."""
    if not words:
        from textual.theme import ThemeProvider

        from tui.dialogs.palette import Palette

        await host.push_screen(Palette(providers=[ThemeProvider], placeholder="Search for themes…"))
    else:
        host.choose_theme(words[0])


async def quit(host: Host, words: list[str]) -> None:
    """Leave."""
    host.exit()


async def find(host: Host, words: list[str]) -> None:
    """Filter by the words, or let them be typed."""
    host.page.find(" ".join(words))


async def sort(host: Host, words: list[str]) -> None:
    """Sort by the column named, or by the next one."""
    host.page.sort_by(words[0] if words else None)


async def turn(host: Host, words: list[str]) -> None:
    """The last first."""
    host.page.sort_by(host.page.sort)


async def copy(host: Host, words: list[str]) -> None:
    """Into the clipboard, as far as the terminal lets."""
    text = host.page.copied()
    if text:
        host.copy_to_clipboard(text)
        host.report(f"copied {text}")


async def read(host: Host, words: list[str]) -> None:
    """Show the row under the cursor in full."""
    title, text = host.page.whole()
    if text:
        await host.inform(title, text)


async def messages(host: Host, words: list[str]) -> None:
    """Show the toasts that have passed by, or that a dialog cut."""
    await host.inform("Messages", "\n".join(host.messages) or "No message has passed by yet.")


async def level(host: Host, words: list[str]) -> None:
    """The next level of the log, or the one named."""
    host.log_page.choose_level(words[0] if words else None)


async def follow(host: Host, words: list[str]) -> None:
    """Stay with the newest line, or do not."""
    host.log_page.toggle_follow()
