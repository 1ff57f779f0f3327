"""Handlers of the agent's long jobs: syncs, coverages, and the bulk rebuild."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from agent.api.schema import RebuildBody
from agent.specs import SyncSpec
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from agent.api.schema import Sync
    from tui.host import Host


async def _named(host: Host, words: list[str]) -> Sync | None:
    """The sync that is named, else the one that is pointed at. Raises NetworkError."""
    await host.until_known()
    name = words[0] if words else host.pointed_on("syncs")
    found = host.model.syncs.get(name)
    if found is None:
        host.trouble(f"there is no sync {name}" if name else "there is no sync to do this with")
    return found


async def run_sync(host: Host, words: list[str]) -> None:
    """Run it now."""
    found = await _named(host, words)
    if found is not None:
        await host.ask(lambda client: client.run_sync(found.spec.name))
        host.report(f"running {found.spec.name}")


async def cancel_sync(host: Host, words: list[str]) -> None:
    """Stop it when that is really meant."""
    found = await _named(host, words)
    if found is not None and await host.sure(f"Stop the sync {found.spec.name}?", "Stop it"):
        await host.ask(lambda client: client.cancel_sync(found.spec.name))
        host.report(f"stopped {found.spec.name}")


async def remove_sync(host: Host, words: list[str]) -> None:
    """Remove it when that is really meant."""
    found = await _named(host, words)
    if found is not None and await host.sure(f"Remove the sync {found.spec.name}?", "Remove"):
        await host.ask(lambda client: client.remove_sync(found.spec.name))
        host.report(f"removed {found.spec.name}")


async def add_sync(host: Host, words: list[str]) -> None:
    """Add one: a name and a filter, given or asked for."""

    async def begin(line: str) -> None:
        spec = _spec(line)
        await host.ask(lambda client: client.add_sync(spec))
        host.report(f"syncing {spec.name}")

    await host.fill("Add a sync", 'name and filter: notes {"kinds":[1]}', begin, " ".join(words))


def _spec(line: str) -> SyncSpec:
    name, _, text = line.strip().partition(" ")
    try:
        filters = [msgspec.json.decode(text)]
        return msgspec.convert({"name": name, "filters": filters}, SyncSpec)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(f"a name and a filter are needed: {error}") from error


async def run_coverage(host: Host, words: list[str]) -> None:
    """Compare now."""
    await host.until_known()
    name = words[0] if words else host.pointed_on("coverage")
    if name not in host.model.coverages:
        host.trouble(f"there is no coverage {name}" if name else "there is no coverage to run")
        return
    await host.ask(lambda client: client.run_coverage(name))
    host.report(f"comparing {name}")


async def run_rebuild(host: Host, words: list[str]) -> None:
    """Rebuild, and take the new index."""
    await host.ask(lambda client: client.start_rebuild(RebuildBody()))
    host.report("rebuilding what is derived")


async def check_rebuild(host: Host, words: list[str]) -> None:
    """Rebuild, and compare only."""
    await host.ask(lambda client: client.start_rebuild(RebuildBody(check=True)))
    host.report("checking what is derived")


async def repair_rebuild(host: Host, words: list[str]) -> None:
    """Compare and repair, after a question."""
    if await host.sure("Repair what differs in the store?", "Repair it"):
        await host.ask(lambda client: client.start_rebuild(RebuildBody(repair=True)))
        host.report("checking and repairing")


async def cancel_rebuild(host: Host, words: list[str]) -> None:
    """Stop it; what is live stays as it is."""
    await host.ask(lambda client: client.cancel_rebuild())
    host.report("cancelled")
