"""What can be done with syncs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from agent.specs import SyncSpec
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from agent.api.schema import Sync
    from tui.app import TallyApp


def _named(app: TallyApp, words: list[str]) -> Sync | None:
    """The sync that is named, else the one that is pointed at."""
    name = words[0] if words else app.pointed_on("syncs")
    found = app.model.syncs.get(name)
    if found is None:
        app.trouble(f"there is no sync {name}" if name else "there is no sync to do this with")
    return found


async def run(app: TallyApp, words: list[str]) -> None:
    """Run it now."""
    found = _named(app, words)
    if found is not None:
        await app.ask(lambda client: client.run_sync(found.spec.name))
        app.tell(f"running {found.spec.name}")


async def cancel(app: TallyApp, words: list[str]) -> None:
    """Stop it when that is really meant."""
    found = _named(app, words)
    if found is not None and await app.sure(f"Stop the sync {found.spec.name}?", "Stop it"):
        await app.ask(lambda client: client.cancel_sync(found.spec.name))
        app.tell(f"stopped {found.spec.name}")


async def remove(app: TallyApp, words: list[str]) -> None:
    """Remove it when that is really meant."""
    found = _named(app, words)
    if found is not None and await app.sure(f"Remove the sync {found.spec.name}?", "Remove"):
        await app.ask(lambda client: client.remove_sync(found.spec.name))
        app.tell(f"removed {found.spec.name}")


async def add(app: TallyApp, words: list[str]) -> None:
    """Add one: a name and a filter, given or asked for."""

    async def begin(line: str) -> None:
        spec = _spec(line)
        await app.ask(lambda client: client.add_sync(spec))
        app.tell(f"syncing {spec.name}")

    await app.fill("Add a sync", 'name and filter: notes {"kinds":[1]}', begin, " ".join(words))


def _spec(line: str) -> SyncSpec:
    name, _, text = line.strip().partition(" ")
    try:
        filters = [msgspec.json.decode(text)]
        return msgspec.convert({"name": name, "filters": filters}, SyncSpec)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(f"a name and a filter are needed: {error}") from error
