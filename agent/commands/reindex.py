"""`nostr-agent reindex`: rebuild all that is derived from events, or compare it with the live."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from agent.api.address import reach
from agent.api.schema import Rebuild, RebuildBody
from agent.api.through import holder
from agent.commands.options import chosen_store, config_options
from agent.reindex.protocol import LOCAL, MEMORY, LogText, Stage, checked_memory
from nostr_client.cli.entry import run_async_until_sigterm
from nostr_client.cli.output import console, json_option, plain_table, print_json, say
from nostr_client.cli.parameters import UserPath
from nostr_client.cli.place import store_option
from nostr_client.codecs.display import plural
from nostr_client.errors import InvalidInput
from nostr_client.store.file.connect import WriterLock, check_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress, TaskID

    from agent.reindex.inputs import Input
    from agent.reindex.protocol import Job, Message
    from agent.reindex.run import Report, Result


@contextmanager
def bars(*, quiet: bool) -> Iterator[Callable[[Message], None]]:
    """What to call with each message, as long as the block runs."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    err = console(stderr=True)
    if quiet or not err.is_terminal:
        yield _line
        return
    columns = (
        TextColumn("{task.description:>12}"),
        BarColumn(),
        TextColumn("{task.fields[rows]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err) as shown:
        yield _Bars(shown)


class _Bars:
    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, message: Message) -> None:
        if isinstance(message, LogText):
            self._shown.console.print(message.text, markup=False)
        elif isinstance(message, Stage):
            self._stage(message)

    def _stage(self, stage: Stage) -> None:
        task = self._tasks.get(stage.name)
        if task is None:
            task = self._tasks[stage.name] = self._shown.add_task(stage.name, total=None, rows="")
        rows = plural(stage.rows, "row") if stage.rows else ""
        if stage.state in ("done", "skipped"):
            text = f"{rows} (done before)" if stage.state == "skipped" else rows
            self._shown.update(task, total=1, completed=1, rows=text)
            self._shown.stop_task(task)
        elif stage.total:
            self._shown.update(task, total=stage.total, completed=stage.done, rows=rows)
        else:
            self._shown.update(task, rows=rows or (f"{stage.done:,}" if stage.done else ""))


def _line(message: Message) -> None:
    if isinstance(message, LogText):
        say(message.text)
    elif isinstance(message, Stage) and message.state in ("done", "skipped"):
        how = "done before" if message.state == "skipped" else f"{message.seconds:.1f} s"
        say(f"{message.name}: {plural(message.rows, 'row')}, {how}")


ASK_S: Final = 0.5
"""Seconds between two requests for the progress."""


def agent_writes(store: Path) -> bool:
    """Whether a running agent holds this store.

    Raises StoreLocked (another process holds it), InvalidInput (no such file), StoreError (not a
    store).
    """
    if not store.exists():
        raise InvalidInput(f"there is no store at {store}")
    check_file(store)
    if holder(store) is not None:
        return True
    WriterLock(store).release()
    return False


async def by_agent(given: dict[str, Any], report: Report) -> Rebuild:
    """Start a rebuild in the running agent and report its progress.

    A cancellation cancels the rebuild in the agent too.

    Raises InvalidInput for options that only a rebuild in this process takes.
    """
    if given["master"] != LOCAL:
        raise InvalidInput("--master: the agent is running, and rebuilds on its own machine")
    if given["conf"]:
        raise InvalidInput("--conf: the agent is running, and has its own settings")
    body = RebuildBody(
        engine=given["engine"],
        check=given["check"],
        repair=given["repair"],
        memory=given["memory"],
    )
    from agent.api.client import AgentClient

    async with AgentClient(*reach(None, None)) as client:
        shown = await client.start_rebuild(body)
        report(LogText("the running agent does it"))
        reported: set[str] = set()
        try:
            while shown.running:
                await asyncio.sleep(ASK_S)
                shown = await client.rebuild()
                _report_new(shown, reported, report)
        except asyncio.CancelledError:
            await asyncio.shield(client.cancel_rebuild())
            raise
    return shown


def _report_new(shown: Rebuild, reported: set[str], report: Report) -> None:
    for one in shown.stages:
        if one.name in reported:
            continue
        if one.state in ("done", "skipped"):
            reported.add(one.name)
        report(Stage(*msgspec.structs.astuple(one)))


def show(done: Rebuild, *, as_json: bool) -> None:
    """Print the result of a rebuild in the agent."""
    if as_json:
        print_json(done)
        return
    for one in done.differences:
        click.echo(f"{one.table}\t{one.key}\t{one.cause}")
    if done.found is not None:
        say(f"{plural(done.found, 'difference')}, {len(done.differences):,} listed")
    if done.generation is not None:
        say(f"index generation {done.generation} is in its place")
    say(f"{done.outcome}{': ' if done.message else ''}{done.message}")


def code_of(done: Rebuild, given: dict[str, Any]) -> int:
    """The exit code of the command."""
    if done.outcome != "done":
        return 130 if done.outcome == "cancelled" else 1
    return 1 if done.found and not given["repair"] else 0


_PLACE = UserPath(path_type=str)


def _memory(context: click.Context, option: click.Parameter, text: str) -> str:
    try:
        return checked_memory(text)
    except InvalidInput as error:
        raise click.BadParameter(str(error), context, option) from error


def _spark_settings(
    context: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    pairs = [one.partition("=") for one in given]
    for key, equals, _ in pairs:
        if not key.startswith("spark.") or not equals:
            raise click.BadParameter("must be spark.NAME=VALUE", context, option)
    return tuple((key, value) for key, _, value in pairs)


def _alone(context: click.Context, option: click.Parameter, given: bool) -> bool:
    """`--check` or `--repair`: whichever is parsed last sees the other."""
    if given and (context.params.get("check") or context.params.get("repair")):
        raise click.UsageError("--repair checks first: give it alone", context)
    return given


@click.command()
@store_option
@click.option(
    "--jsonl",
    type=_PLACE,
    multiple=True,
    metavar="PATH",
    help="JSONL archives, .gz and .zst too.",
)
@click.option("--parquet", type=_PLACE, multiple=True, metavar="PATH", help="Parquet archives.")
@click.option(
    "--out",
    type=_PLACE,
    metavar="PATH",
    help="Where the tables of archives go: a folder or a URL.",
)
@click.option(
    "--catalog",
    metavar="NAMESPACE",
    help="A namespace of a catalog of Spark for the same tables, as lake.nostr.",
)
@click.option("--verify", is_flag=True, help="Check every signature, in parallel.")
@click.option("--strict", is_flag=True, help="End the run at a damaged file of archives.")
@click.option(
    "--check",
    is_flag=True,
    callback=_alone,
    help="Compare with what is live, and change nothing.",
)
@click.option("--repair", is_flag=True, callback=_alone, help="Compare, then repair what differs.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "spark", "reference"]),
    default="auto",
    show_default=True,
    help="auto: by the events of a store; Spark for archives.",
)
@click.option("--master", default=LOCAL, show_default=True, help="Where Spark runs.")
@click.option(
    "--conf",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_spark_settings,
    help="A setting of Spark, as spark.sql.shuffle.partitions=16.",
)
@click.option(
    "--memory",
    default=MEMORY,
    show_default=True,
    metavar="SIZE",
    callback=_memory,
    help="Java's heap on this machine; 512m is the least.",
)
@click.option(
    "--hot", type=click.IntRange(1), help="Events from which a target of archives is kept."
)
@click.option(
    "--now",
    type=click.IntRange(0),
    metavar="SECONDS",
    help="Unix time at which expired events of archives are dead. Else now, or when the run began "
    "that is gone on with.",
)
@config_options
@json_option
def reindex(
    store: Path | None,
    config: Path | None,
    settings: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Rebuild the index of the store from its events, or the same tables from archives.

    Exit code 1 when --check found a difference, 130 when cancelled.
    """
    from agent.commands import reindex

    source = _source(store, given, config, settings)
    with bars(quiet=as_json) as report:
        if source.kind == "store" and reindex.agent_writes(source.store):
            done = run_async_until_sigterm(reindex.by_agent(given, report))
            reindex.show(done, as_json=as_json)
            click.get_current_context().exit(reindex.code_of(done, given))
        result = run_async_until_sigterm(_run(source, given, report))
    if as_json:
        print_json(result)
    else:
        _print_result(result, given["out"])
    found = 0 if result.checked is None else result.checked.found
    click.get_current_context().exit(1 if found and not given["repair"] else 0)


def _source(
    store: Path | None, given: dict[str, Any], config: Path | None, settings: tuple[str, ...]
) -> Input:
    from agent.reindex.inputs import Input, archive

    named = [kind for kind in ("jsonl", "parquet") if given[kind]]
    if len(named) + (store is not None) > 1:
        raise InvalidInput("one of --store, --jsonl and --parquet")
    for option in ("out", "catalog", "hot", "now"):
        if given[option] is not None and not named:
            raise InvalidInput(f"--{option} is for archives")
    if given["strict"] and not named:
        raise InvalidInput("--strict is for archives")
    if given["verify"] and not named:
        raise InvalidInput("--verify is for archives; nostr-client store verify checks a store")
    if named:
        return archive("jsonl" if named == ["jsonl"] else "parquet", given[named[0]])
    path = chosen_store(store, config, settings)
    return Input(kind="store", paths=(str(path),))


async def _run(source: Input, given: dict[str, Any], report: Report) -> Result:
    from agent.reindex import run

    job, why = await asyncio.to_thread(
        run.make_job,
        source,
        engine=given["engine"],
        out=given["out"] or "",
        hot=given["hot"],
        now=given["now"],
        verify=given["verify"],
        strict=given["strict"],
        check=given["check"] or given["repair"],
        master=given["master"],
        memory=given["memory"],
        conf=given["conf"],
        catalog=given["catalog"] or "",
    )
    result = await run.build(job, why, report)
    if source.kind != "store":
        return result
    return await _finish(job, result, given)


async def _finish(job: Job, result: Result, given: dict[str, Any]) -> Result:
    """Adopt the new index of a store, or remove it if only a check was asked for."""
    from agent.reindex import run
    from agent.service.parts import open_for_reindex

    try:
        if given["check"]:
            await asyncio.to_thread(run.discard_checked, job, result)
            return result
        async with await open_for_reindex(job.source.store) as store:
            return await run.put_in_place(store, None, result, repairs=given["repair"])
    finally:
        run.discard(Path(result.built.path))


def _print_result(result: Result, out: str | None) -> None:

    from nostr_client.cli.output import console

    built = result.built
    table = plain_table("table", "rows")
    for name, rows in built.rows.items():
        table.add_row(name, f"{rows:,}")
    console().print(table)
    for status, number in built.statuses.items():
        say(f"{number:,} {status}")
    for reason, number in built.rejects.items():
        say(f"{number:,} rejected: {reason}")
    if built.rejects and out is not None:
        say(f"what was rejected is in {out.rstrip('/')}/rejects")
    _print_check(result)
    if result.generation is not None:
        say(f"index generation {result.generation} is in its place")
    say(f"{result.engine}, {built.seconds:.1f} s")


def _print_check(result: Result) -> None:
    checked = result.checked
    if checked is None:
        return
    for one in checked.differences:
        click.echo(f"{one.table}\t{one.key}\t{one.cause}")
    rows = sum(checked.compared.values())
    say(f"{plural(rows, 'row')} compared: {plural(checked.found, 'difference')}")
    if checked.found > len(checked.differences):
        say(f"{checked.found - len(checked.differences):,} more of the same tables are not listed")
    for name, number in result.repaired.items():
        say(f"{number:,} {name} repaired")
