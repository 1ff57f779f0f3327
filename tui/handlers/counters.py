"""Handlers of counters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from tui.host import Host


async def _subject(host: Host, words: list[str]) -> str:
    """The subject that is named, else the one that is pointed at. Raises NetworkError."""
    await host.until_known()
    subject = words[0] if words else host.pointed_on("counters")
    if not subject:
        host.trouble("there is no counter to do this with")
    return subject


async def recount(host: Host, words: list[str]) -> None:
    """Add the counter up again and report the result."""
    subject, stream = await _subject(host, words), host.counters_page.stream
    if not subject:
        return
    found = await host.ask(lambda client: client.audit(stream, subject))
    if found.holds:
        host.report(f"{subject} adds up to {found.value}")
    else:
        breaks = [f"message {b.seq}: {b.found} instead of {b.expected}" for b in found.breaks[:10]]
        await host.inform(f"{subject} does not add up", "\n".join(breaks))


async def reset(host: Host, words: list[str]) -> None:
    """Set it to nothing when that is really meant."""
    subject, stream = await _subject(host, words), host.counters_page.stream
    if subject and await host.sure(f"Set the counter {subject} to nothing?", "Reset"):
        await host.ask(lambda client: client.reset(stream, subject))
        host.report(f"{subject} begins again from zero")
        await host.counters_page.look()


async def add(host: Host, words: list[str]) -> None:
    """Add to it: subject and number, given or asked for."""
    stream = host.counters_page.stream

    async def count(line: str) -> None:
        subject, number = _amount(line)
        added = await host.ask(lambda client: client.add(stream, subject, number))
        host.report(f"{subject} is {added.value}")

    held = f"{host.pointed_on('counters')} "
    title, hint = "Add to a counter", "subject and number: votes.yes 1"
    await host.fill(title, hint, count, " ".join(words), held=held)
    await host.counters_page.look()


def _amount(line: str) -> tuple[str, str]:
    subject, number, *more = [*line.split(), "", ""][:3]
    if not re.fullmatch(r"[+-]?[0-9]{1,4000}", number, re.ASCII) or any(more):
        raise InvalidInput("a subject and a whole number are needed")
    return subject, number


async def pattern(host: Host, words: list[str]) -> None:
    """Which subjects to show."""
    page = host.counters_page

    async def choose(text: str) -> None:
        await page.choose(pattern=text)

    given = words[0].strip() if words else ""
    await host.fill("Subjects", "as count.*.hits or >", choose, given, held=page.pattern)


async def stream(host: Host, words: list[str]) -> None:
    """The next stream, or the one named."""
    await host.counters_page.choose(stream=words[0] if words else None)
