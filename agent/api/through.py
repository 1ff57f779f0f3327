"""Connects `nostr-client` to a running agent: implements `nostr_client.cli.place.RunningAgent`.

The SDK does not import the agent. It finds this module by the entry point of its group.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.api.address import RunFile, reach, running
from agent.api.client import AgentClient
from agent.config.check import convert
from agent.config.load import dotted
from agent.specs import SyncSpec
from nostr_client.cli.place import StoredWatch, StreamSubjects
from nostr_client.errors import (
    DeadlineExceeded,
    Duplicate,
    InvalidInput,
    NetworkError,
    StoreError,
    StoreLocked,
)
from nostr_client.store.file.connect import WriterLock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from agent.api import schema
    from agent.config.check import Path as Where
    from nostr_client.count.figures import CountReport, RelayOverlaps
    from nostr_client.counters.shown import Audit, Counter
    from nostr_client.sync.coverage_report import CoverageRun
    from nostr_client.watch.definition import Watch
    from nostr_client.watch.digest import Digest
    from nostr_client.watch.history import Point
    from nostr_client.watch.people import People

MOST: Final = 10_000
"""Rows of one answer."""

LOOK_S: Final = 0.2
"""Seconds between two checks whether a run has ended."""

RUN_S: Final = 3_600.0
"""Seconds that a run of the agent is waited for; the run itself goes on."""


def find(store: Path | None, api: str | None, token_file: Path | None) -> ThroughAgent | None:
    """The agent at `api`, else the one that holds `store`, else any; None where there is none.

    Raises NetworkError (none at `api`), InvalidInput (its token cannot be read).
    """
    if store is not None:
        found = holder(store)
        return None if found is None else ThroughAgent(*reach(found.api, token_file))
    try:
        return ThroughAgent(*reach(api, token_file))
    except NetworkError:
        if api is None and token_file is None:
            return None
        raise


def holder(store: Path) -> RunFile | None:
    """The running agent that writes a store, None if no process or another program does."""
    if not store.is_file():
        return None
    try:
        WriterLock(store).release()
    except StoreLocked as error:
        return next((one for one in running() if one.pid == error.pid), None)
    except StoreError:  # a folder that this user cannot write: the holder is unknown
        return None
    return None


class ThroughAgent:
    """The commands of one agent. Methods raise ApiError, NetworkError, DeadlineExceeded."""

    def __init__(self, url: str, token: str) -> None:
        self._client = AgentClient(url, token)

    @property
    def url(self) -> str:
        return self._client.url

    async def close(self) -> None:
        """Close the connections; safe twice."""
        await self._client.close()

    # Watches.

    async def watches(self) -> list[StoredWatch]:
        found = (await self._client.watches()).watches
        return [await self._kept(one.spec, one.spark) for one in found]

    async def watch(self, name: str) -> StoredWatch:
        found = await self._client.watch(name)
        kept = await self._kept(found.spec, found.spark)
        return kept._replace(asserted=found.asserted)

    async def _kept(self, watch: Watch, spark: tuple[int, ...]) -> StoredWatch:
        found = await self._client.history(watch.name, limit=1)
        newest = found.points[-1] if found.points else None
        return StoredWatch(watch, found.asked_at, newest, spark)

    async def explain(self, name: str) -> CountReport:
        return await self._client.explain(name)

    async def overlaps(self, name: str) -> RelayOverlaps:
        return await self._client.overlaps(name)

    async def points(self, name: str, since: int) -> list[Point]:
        return list((await self._client.history(name, since=float(since), limit=MOST)).points)

    async def people(self, name: str, since: int, limit: int) -> People:
        return await self._client.people(name, since=float(since), limit=limit)

    async def digest(self, since: int) -> Digest:
        return await self._client.digest(since=float(since))

    async def add_watch(self, watch: Watch) -> Watch:
        return (await self._client.add_watch(watch)).spec

    async def set_watch(self, watch: Watch) -> Watch:
        return (await self._client.change_watch(watch.name, watch)).spec

    async def remove_watch(self, name: str) -> None:
        await self._client.remove_watch(name)

    async def ask_watch(self, name: str) -> CountReport:
        return await self._client.ask_watch(name)

    # Counters.

    async def offers(self) -> list[StreamSubjects]:
        found = (await self._client.streams()).streams
        return [StreamSubjects(one.name, one.subjects, one.targets) for one in found if one.counts]

    async def counters(self, stream: str, patterns: Sequence[str], at: int | None) -> list[Counter]:
        found: dict[str, Counter] = {}
        for pattern in patterns or (">",):
            answer = await self._client.counters(stream, pattern, limit=MOST, at=at or 0)
            found |= {one.subject: one for one in _all_of(answer)}
        return list(found.values())

    async def increments(self, stream: str, subject: str, after: int) -> list[Counter]:
        found: list[Counter] = []
        while True:
            page = await self._client.counter_history(stream, subject, after=after, limit=MOST)
            found += page.counters
            if not page.more:
                return found
            after = found[-1].seq

    async def audit(self, stream: str, subject: str) -> Audit:
        return await self._client.audit(stream, subject)

    async def add(self, stream: str, subject: str, n: int, msg_id: str | None) -> str:
        found = await self._client.add(stream, subject, str(n), msg_id or "")
        if found.value is None:
            raise Duplicate(found.seq)
        return found.value

    async def reset(self, stream: str, subject: str) -> str:
        return (await self._client.reset(stream, subject)).value or "0"

    async def remove(self, stream: str, pattern: str) -> int:
        return (await self._client.remove_counters(stream, pattern)).messages

    async def links(self) -> list[Mapping[str, Any]]:
        return [_object(one) for one in (await self._client.links()).links]

    async def run_link(self, name: str) -> None:
        await self._client.run_link(name)

    async def confirm_link(self, name: str) -> None:
        await self._client.confirm_link(name)

    # Relays and syncs.

    async def relays(self) -> list[Mapping[str, Any]]:
        return [_object(one) for one in (await self._client.relays()).relays]

    async def syncs(self) -> list[Mapping[str, Any]]:
        return [_object(one) for one in (await self._client.syncs()).syncs]

    async def sync(self, name: str) -> Mapping[str, Any]:
        return _object(await self._client.sync(name))

    async def add_sync(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        return _object(await self._client.add_sync(_sync_spec(spec)))

    async def remove_sync(self, name: str) -> None:
        await self._client.remove_sync(name)

    async def run_sync(self, name: str) -> Mapping[str, Any]:
        before = (await self._client.sync(name)).started_at
        await self._client.run_sync(name)
        async with _waiting():
            found = await self._client.sync(name)
            while found.running or found.started_at == before:
                await asyncio.sleep(LOOK_S)
                found = await self._client.sync(name)
        return _object(found)

    async def cancel_sync(self, name: str) -> None:
        await self._client.cancel_sync(name)

    async def coverages(self) -> Mapping[str, CoverageRun]:
        found = (await self._client.coverages()).coverages
        return {one.spec.name: one.run for one in found if one.run is not None}

    # Cards.

    async def assertions(self) -> Mapping[str, Any]:
        return _object(await self._client.assertions())

    async def run_assertions(self) -> Mapping[str, Any]:
        before = (await self._client.assertions()).ran_at
        await self._client.run_assertions()
        async with _waiting():
            found = await self._client.assertions()
            while found.on and (found.running or found.ran_at == before):
                await asyncio.sleep(LOOK_S)
                found = await self._client.assertions()
        return _object(found)


@asynccontextmanager
async def _waiting() -> AsyncIterator[None]:
    """Wait for a run of the agent. Raises DeadlineExceeded."""
    try:
        async with asyncio.timeout(RUN_S):
            yield
    except TimeoutError as error:
        raise DeadlineExceeded(f"the agent's run did not end within {RUN_S:g} s") from error


def _object(value: msgspec.Struct) -> Mapping[str, Any]:
    found: Mapping[str, Any] = msgspec.to_builtins(value)
    return found


def _all_of(answer: schema.CounterList) -> Sequence[Counter]:
    if answer.more:
        raise InvalidInput(f"more than {MOST:,} counters match: narrow the pattern")
    return answer.counters


def _sync_spec(given: Mapping[str, Any]) -> SyncSpec:
    """Options as a spec. Raises InvalidInput with everything that is wrong."""
    mistakes: list[str] = []

    def complain(path: Where, why: str) -> None:
        mistakes.append(f"{dotted(path)}: {why}")

    found = convert(dict(given), SyncSpec, complain)
    if found is None:
        raise InvalidInput("; ".join(mistakes))
    return found
