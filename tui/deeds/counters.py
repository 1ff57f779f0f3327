"""What can be done with counters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from tui.app import TallyApp


def _subject(app: TallyApp, words: list[str]) -> str:
    """The subject that is named, else the one that is pointed at."""
    subject = words[0] if words else app.pointed_on("counters")
    if not subject:
        app.trouble("there is no counter to do this with")
    return subject


async def recount(app: TallyApp, words: list[str]) -> None:
    """Add it up anew and say what came out."""
    subject, stream = _subject(app, words), app.counters_page.stream
    if not subject:
        return
    found = await app.ask(lambda client: client.audit(stream, subject))
    if found.ok:
        app.tell(f"{subject} adds up to {found.value}")
    else:
        await app.inform(f"{subject} does not add up", "\n".join(found.problems[:10]))


async def reset(app: TallyApp, words: list[str]) -> None:
    """Set it to nothing when that is really meant."""
    subject, stream = _subject(app, words), app.counters_page.stream
    if subject and await app.sure(f"Set the counter {subject} to nothing?", "Reset"):
        await app.ask(lambda client: client.reset(stream, subject))
        app.tell(f"{subject} begins anew")
        await app.counters_page.look()


async def add(app: TallyApp, words: list[str]) -> None:
    """Add to it: subject and number, given or asked for."""
    stream = app.counters_page.stream
    if len(words) < 2:
        held = f"{app.pointed_on('counters')} "
        line = await app.answer("Add to a counter", "subject and number: votes.yes 1", held)
        words = line.split()
    if not words:
        return
    subject, number = words[0], words[1] if len(words) > 1 else ""
    if not re.fullmatch(r"[+-]?[0-9]{1,4000}", number, re.ASCII):
        raise InvalidInput("a subject and a whole number are needed")
    added = await app.ask(lambda client: client.add(stream, subject, int(number)))
    app.tell(f"{subject} is {added.value}")
    await app.counters_page.look()


async def pattern(app: TallyApp, words: list[str]) -> None:
    """Which subjects to show."""
    page = app.counters_page
    text = words[0] if words else await app.answer("Subjects", "as count.*.hits or >", page.pattern)
    if text:
        await page.choose(pattern=text.strip())


async def stream(app: TallyApp, words: list[str]) -> None:
    """The next stream, or the one named."""
    await app.counters_page.choose(stream=words[0] if words else None)
