"""What can be done with the bulk rebuild."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.schema import RebuildBody

if TYPE_CHECKING:
    from tui.app import TallyApp


async def run(app: TallyApp, words: list[str]) -> None:
    """Rebuild, and take the new index."""
    await app.ask(lambda client: client.start_rebuild(RebuildBody()))
    app.tell("rebuilding what is derived")


async def check(app: TallyApp, words: list[str]) -> None:
    """Rebuild, and compare only."""
    await app.ask(lambda client: client.start_rebuild(RebuildBody(check=True)))
    app.tell("checking what is derived")


async def repair(app: TallyApp, words: list[str]) -> None:
    """Compare, and mend, when that is really meant."""
    if await app.sure("Mend what differs in the store?", "Mend it"):
        await app.ask(lambda client: client.start_rebuild(RebuildBody(repair=True)))
        app.tell("checking and mending")


async def cancel(app: TallyApp, words: list[str]) -> None:
    """Stop it; what is live stays as it is."""
    await app.ask(lambda client: client.cancel_rebuild())
    app.tell("cancelled")
