"""Runs one rebuild, and puts the new index in its place, for the owner of the store."""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from agent.reindex import inputs, repair
from agent.reindex.engines import choose
from agent.reindex.launcher import ReindexFailed, messages
from agent.reindex.protocol import Built, Checked, Failed, Job, LogText
from nostr_client.errors import InvalidInput
from nostr_client.store.derived import Repairs
from nostr_client.store.index.keeper import Index
from nostr_client.store.index.update import least

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.reindex.engines import Wanted
    from agent.reindex.protocol import Message
    from nostr_client.store.sqlite import SqliteStore

    Report = Callable[[Message], None]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a rebuild. `generation` is that of the adopted index, if one was adopted."""

    engine: str
    why: str
    built: Built
    checked: Checked | None = None
    generation: int | None = None
    repaired: dict[str, int] = {}


def make_job(
    source: inputs.Input,
    *,
    engine: Wanted = "auto",
    out: Path | str = "",
    urls: tuple[str, ...] = (),
    hot: int | None = None,
    verify: bool = False,
    strict: bool = False,
    check: bool = False,
    now: float | None = None,
    **spark: Any,
) -> tuple[Job, str]:
    """A job, and why its engine takes it. Raises InvalidInput, StoreError."""
    if source.kind != "store" and not out:
        raise InvalidInput("archives are in no store: say where their tables go, with --out")
    if source.kind != "store" and check:
        raise InvalidInput("only a store has live tables to check")
    if source.kind == "store" and out:
        raise InvalidInput("--out is for archives: the index of a store goes beside it")
    if source.kind == "store" and hot not in (None, least()):
        raise InvalidInput(f"--hot is for archives: a store keeps targets from {least()}")
    chosen = choose(engine, source, str(out))
    if spark.get("catalog") and chosen.engine != "spark":
        raise InvalidInput("only Spark writes into a catalog: --engine spark")
    at = int(time.time() if now is None else now)
    settings = inputs.Settings(
        now=at, fixed=now is not None, urls=urls, verify=verify, strict=strict
    )
    if hot is not None or source.kind == "store":
        settings = msgspec.structs.replace(settings, hot=hot or least())
    job = Job(
        source=source,
        settings=settings,
        engine=chosen.engine,
        work=work_folder(source, out),
        out=str(out),
        check=check,
        **spark,
    )
    return job, chosen.why


def work_folder(source: inputs.Input, out: Path | str) -> str:
    """The folder of the stages: beside the store, or inside the folder of the tables."""
    if source.kind == "store" and not out:
        return str(source.store.with_name(f"{source.store.stem}.reindex"))
    return f"{str(out).rstrip('/')}/work"


async def build(job: Job, why: str, report: Report) -> Result:
    """Run the child until the tables are there. Raises ReindexFailed, InvalidInput.

    Cancelled, it ends the child and leaves no half index; finished stages stay for another run.
    """
    start = time.monotonic()
    built: Built | None = None
    checked: Checked | None = None
    report(LogText(f"engine: {job.engine} ({why})"))
    async with aclosing(messages(job)) as received:
        async for message in received:
            if isinstance(message, Failed):
                kind = InvalidInput if message.code == 2 else ReindexFailed
                raise kind(message.message)
            if isinstance(message, Built):
                built = message
            elif isinstance(message, Checked):
                checked = message
            report(message)
    if built is None:
        raise ReindexFailed("the rebuild's process ended without a result")
    took = round(time.monotonic() - start, 3)  # the process's own beginning and end too
    built = msgspec.structs.replace(built, seconds=took)
    return Result(engine=job.engine, why=why, built=built, checked=checked)


async def put_in_place(
    store: SqliteStore, index: Index | None, result: Result, *, repairs: bool
) -> Result:
    """Adopt the built file as the store's index, and repair the store if asked. Raises StoreError.

    `index` is the store's open one, or None where the store was opened only for this.
    """
    wanted = result.checked.repairs if repairs and result.checked is not None else Repairs()
    path = Path(result.built.path)
    try:
        done = await repair.repair_rows(store, wanted)
        generation = await (index or Index(store)).adopt(path)
        if wanted.dead and index is None:
            await Index.open(store)  # what is removed now must leave the new index too
        done |= await repair.remove_dead(store, wanted)
        await asyncio.to_thread(shutil.rmtree, _staged(path, store), ignore_errors=True)
    finally:
        discard(path)
    repaired = {name: number for name, number in done.items() if number}
    return msgspec.structs.replace(result, generation=generation, repaired=repaired)


def _staged(built: Path, store: SqliteStore) -> str:
    """The folder of the stages of an adopted index, which no run needs again."""
    return work_folder(inputs.Input(kind="store", paths=(str(store.database.path or built),)), "")


def discard_checked(job: Job, result: Result) -> None:
    """Remove the index and the stages of a rebuild that only checked a store."""
    discard(Path(result.built.path))
    shutil.rmtree(job.work, ignore_errors=True)


def discard(built: Path) -> None:
    """Remove a built file and what SQLite put beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        built.with_name(built.name + suffix).unlink(missing_ok=True)
