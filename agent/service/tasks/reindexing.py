"""Runs the bulk rebuild in an agent: a child process reads, the agent adopts its file.

One at a time. The agent loads no Spark and no Java; what it waits for costs it nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from agent.api.schema import ApiRefusal, Rebuild, RebuildBody, RebuildStage
from agent.reindex import inputs, run
from agent.reindex.protocol import LogText, Stage
from nostr_client.errors import NostrTallyError
from nostr_client.network.waiting import task_group

if TYPE_CHECKING:
    from pathlib import Path

    from agent.log import Log
    from agent.maintenance.index import Indexing
    from agent.reindex.protocol import Job, Message
    from agent.reindex.run import Result
    from nostr_client.store.base import Difference
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.watch.clock import Clock


SHOWN: Final = 20
"""Differences of each table that an agent shows; `nostr-agent reindex --check` lists more."""


class RebuildRunner:
    """Runs rebuilds as they are asked for; `shown` is the newest one."""

    def __init__(self, clock: Clock, log: Log, store: SqliteStore, index: Indexing | None) -> None:
        self.shown = Rebuild()
        self._clock = clock
        self._log = log
        self._store = store
        self._index = index
        self._asked: RebuildBody | None = None
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, body: RebuildBody) -> Rebuild:
        """Begin one. Raises ApiRefusal where one runs, or nothing can be rebuilt."""
        if self.shown.running:
            raise ApiRefusal(409, "running", "a rebuild runs already")
        if self._index is None or self._store.database.path is None:
            raise ApiRefusal(409, "no_index", "this agent keeps no derived tables: set store.index")
        if body.check and body.repair:
            raise ApiRefusal(409, "both", "a repair checks first: ask for it alone")
        self.shown = Rebuild(running=True, started_at=self._clock.wall())
        self._asked = body
        self._wanted.set()
        return self.shown

    def cancel(self) -> None:
        """Cancel the running rebuild; no half file is left. Raises ApiRefusal if none runs."""
        if not self.shown.running:
            raise ApiRefusal(409, "not_running", "no rebuild runs")
        if self._task is not None:
            self._task.cancel()

    async def run(self) -> None:
        """Do what is asked for until cancelled, which ends the child too."""
        async with task_group() as group:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                self._task = group.create_task(self._one(self._asked or RebuildBody()))
                await asyncio.wait([self._task])
                self._over(self._task.cancelled())

    def _over(self, cancelled: bool) -> None:
        if cancelled:
            self._change(outcome="cancelled")
        self._change(running=False, ended_at=self._clock.wall())
        self._log.info("rebuild_ended", outcome=self.shown.outcome, why=self.shown.message)

    async def _one(self, body: RebuildBody) -> None:
        try:
            result = await self._rebuild(body)
        except NostrTallyError as error:
            self._change(outcome="failed", message=str(error))
            return
        self._change(
            outcome="done",
            rows=result.built.rows,
            generation=result.generation,
            repaired=result.repaired,
        )

    async def _rebuild(self, body: RebuildBody) -> Result:
        path, index = self._store.database.path, self._index
        assert path is not None
        assert index is not None
        await index.snapshot()
        job, why = await asyncio.to_thread(self._job, path, body)
        self._change(engine=job.engine, why=why)
        result = await run.build(job, why, self._on_message)
        if result.checked is not None:
            self._change(found=result.checked.found, differences=_differences(result))
        if body.check:
            await asyncio.to_thread(run.discard_checked, job, result)
            return result
        async with index.exchange:
            return await run.put_in_place(self._store, index.index, result, repairs=body.repair)

    def _job(self, path: Path, body: RebuildBody) -> tuple[Job, str]:
        return run.make_job(
            inputs.Input(kind="store", paths=(str(path.absolute()),)),
            engine=body.engine,
            urls=self._store.urls,
            check=body.check or body.repair,
            memory=body.memory,
        )

    def _on_message(self, message: Message) -> None:
        if isinstance(message, LogText):
            self._change(message=message.text)
        elif isinstance(message, Stage):
            stage = msgspec.convert(
                {name: getattr(message, name) for name in RebuildStage.__struct_fields__},
                RebuildStage,
            )
            others = tuple(one for one in self.shown.stages if one.name != stage.name)
            self._change(stages=(*others, stage))

    def _change(self, **fields: object) -> None:
        self.shown = msgspec.structs.replace(self.shown, **fields)


def _differences(result: Result) -> tuple[Difference, ...]:
    """The first ones of each table: what is shown is read every second."""
    found, of = [], Counter[str]()
    for one in () if result.checked is None else result.checked.differences:
        of[one.table] += 1
        if of[one.table] <= SHOWN:
            found.append(one)
    return tuple(found)
