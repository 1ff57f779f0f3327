"""`nostr-client counter stream`, `source` and `link`: streams of counters, and how their values
travel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nostr_client.cli.counter.backend import BackendChoice, opened, stream_where_option
from nostr_client.cli.entry import CommandGroup, run_async
from nostr_client.cli.output import (
    console,
    json_option,
    plain_table,
    print_done,
    print_json,
    print_table,
)
from nostr_client.cli.place import StoreOrAgent, place_option, the_agent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nostr_client.counters.base import StreamInfo
    from nostr_client.counters.config import SourceConfig, StreamConfig, TransformConfig

F = TypeVar("F", bound=Callable[..., Any])

SECOND = 1_000_000_000

LEAST_SECONDS = 1e-9
MOST_SECONDS = 9_000_000_000
"""285 years: nanoseconds are counted in 64 bits."""


def _seconds(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Refuse nan, which is in no range, and durations that nanoseconds cannot express; 0 stands for
    none."""
    if value is not None and value != 0 and not LEAST_SECONDS <= value <= MOST_SECONDS:
        text = f"{value} is not from {LEAST_SECONDS} to {MOST_SECONDS:,} seconds"
        raise click.BadParameter(text, ctx=ctx, param=param)
    return value


_SETTINGS = (
    click.option("--subject", "subjects", metavar="PATTERN", multiple=True, help="Repeatable."),
    click.option("--description", help="Describe the stream."),
    click.option(
        "--counters/--plain", "counts", default=None, help="Store counters, or any messages."
    ),
    click.option(
        "--keep-changes",
        "max_msgs_per_subject",
        type=click.IntRange(-1),
        metavar="N",
        help="Store this many changes of a counter; -1: all.",
    ),
    click.option(
        "--max-msgs",
        type=click.IntRange(-1),
        metavar="N",
        help="Store this many changes in all, the newest always. -1: no limit.",
    ),
    click.option(
        "--max-age",
        metavar="SECONDS",
        type=float,
        callback=_seconds,
        help="Drop older changes, but never the newest.",
    ),
    click.option(
        "--id-window",
        "window",
        metavar="SECONDS",
        type=float,
        callback=_seconds,
        help="Recognise a repeated --msg-id for this long.",
    ),
    click.option(
        "--batches/--no-batches",
        "allow_atomic",
        default=None,
        help="Accept several additions as one.",
    ),
    click.option("--rewrite", "transform", metavar="SRC=DEST", help="Rewrite subjects on arrival."),
    click.option("--republish", metavar="SRC=DEST", help="Republish every change under a subject."),
)


def _settings(command: F) -> F:
    for option in reversed(_SETTINGS):
        command = option(command)
    return command


@click.group(cls=CommandGroup)
def stream() -> None:
    """Create, change and list streams: sets of counters with their settings.

    While an agent holds the store, its configuration defines the streams.
    """


@stream.command()
@click.argument("name")
@_settings
@click.option("--mirror", metavar="STREAM", help="Copy another stream, message by message.")
@stream_where_option
@json_option
def add(name: str, mirror: str | None, where: BackendChoice, as_json: bool, **options: Any) -> None:
    """Add a stream of counters."""
    _print(run_async(_add(where, name, mirror, options)), as_json=as_json)


@stream.command("set")
@click.argument("name")
@_settings
@stream_where_option
@json_option
def set_(name: str, where: BackendChoice, as_json: bool, **options: Any) -> None:
    """Change the given settings, and no others."""
    _print(run_async(_set(where, name, options)), as_json=as_json)


@stream.command()
@click.argument("name")
@stream_where_option
@json_option
def show(name: str, where: BackendChoice, as_json: bool) -> None:
    """Show settings, size, and how far each source was read."""
    _print(run_async(_show(where, name)), as_json=as_json)


@stream.command("list")
@stream_where_option
@json_option
def list_(where: BackendChoice, as_json: bool) -> None:
    """List every stream."""
    found = run_async(_list(where))
    if as_json:
        print_json([_shown(item) for item in found])
    else:
        _print_streams(found)


@stream.command()
@click.argument("name")
@stream_where_option
@json_option
def remove(name: str, where: BackendChoice, as_json: bool) -> None:
    """Remove a stream with its counters."""
    run_async(_remove(where, name))
    print_done(f"removed {name}", as_json=as_json)


@click.group(cls=CommandGroup)
def source() -> None:
    """Add and remove sources: streams whose counters a stream adds up with its own."""


@source.command("add")
@click.argument("name", metavar="STREAM")
@click.argument("upstream", metavar="SOURCE")
@click.option("--only", "filter_subject", metavar="PATTERN", help="Read only these subjects.")
@click.option(
    "--transform", "transforms", metavar="SRC=DEST", multiple=True,
    help="Read only SRC, as DEST; {{wildcard(1)}} is its first `*`. Repeatable.",
)  # fmt: skip
@stream_where_option
@json_option
def source_add(
    name: str,
    upstream: str,
    filter_subject: str | None,
    transforms: tuple[str, ...],
    where: BackendChoice,
    as_json: bool,
) -> None:
    """Add SOURCE to the sum of STREAM: first its whole value, then every change."""
    wanted = _source(upstream, filter_subject, transforms)
    _print(run_async(_source_add(where, name, wanted)), as_json=as_json)


@source.command("remove")
@click.argument("name", metavar="STREAM")
@click.argument("upstream", metavar="SOURCE")
@stream_where_option
@json_option
def source_remove(name: str, upstream: str, where: BackendChoice, as_json: bool) -> None:
    """Stop reading SOURCE. Its sum so far stays; adding it again adds only the rest."""
    _print(run_async(_source_remove(where, name, upstream)), as_json=as_json)


async def _add(
    where: BackendChoice, name: str, mirror: str | None, options: dict[str, Any]
) -> StreamInfo:
    from nostr_client.counters.config import SourceConfig, StreamConfig, check_config

    config = StreamConfig(
        name=name,
        allow_msg_counter=mirror is None,
        allow_direct=True,
        mirror=SourceConfig(mirror) if mirror else None,
    )
    made = _changed(config, options)
    if where.url is None:
        check_config(made)  # check before a store is created for it
    async with opened(where, writes=True, creates=True) as store:
        return await store.create_stream(made)


async def _set(where: BackendChoice, name: str, options: dict[str, Any]) -> StreamInfo:
    async with opened(where, writes=True) as store:
        config = (await store.stream_info(name)).config
        return await store.update_stream(_changed(config, options))


async def _show(where: BackendChoice, name: str) -> StreamInfo:
    async with opened(where, writes=False) as store:
        return await store.stream_info(name)


async def _list(where: BackendChoice) -> list[StreamInfo]:
    async with opened(where, writes=False) as store:
        return await store.streams()


async def _remove(where: BackendChoice, name: str) -> None:
    async with opened(where, writes=True) as store:
        await store.delete_stream(name)


async def _source_add(where: BackendChoice, name: str, wanted: SourceConfig) -> StreamInfo:
    from msgspec.structs import replace

    async with opened(where, writes=True) as store:
        config = (await store.stream_info(name)).config
        return await store.update_stream(replace(config, sources=(*config.sources, wanted)))


async def _source_remove(where: BackendChoice, name: str, upstream: str) -> StreamInfo:
    from msgspec.structs import replace

    async with opened(where, writes=True) as store:
        config = (await store.stream_info(name)).config
        kept = tuple(item for item in config.sources if item.name != upstream)
        if kept == config.sources:
            raise click.UsageError(f"{upstream} is not a source of {name}")
        return await store.update_stream(replace(config, sources=kept))


def _changed(config: StreamConfig, options: dict[str, Any]) -> StreamConfig:
    """Return a configuration with the given settings. Raises InvalidInput without patterns."""
    from msgspec.structs import replace

    from nostr_client.counters.subjects import check_patterns

    check_patterns(options["subjects"])
    plain = ("description", "max_msgs_per_subject", "max_msgs", "allow_atomic")
    changes = {name: options[name] for name in plain if options[name] is not None}
    if options["subjects"]:
        changes["subjects"] = options["subjects"]
    if options["counts"] is not None:
        changes["allow_msg_counter"] = options["counts"]
    for option, field in (("max_age", "max_age"), ("window", "duplicate_window")):
        if options[option] is not None:
            changes[field] = round(options[option] * SECOND)
    for option, field in (("transform", "subject_transform"), ("republish", "republish")):
        if options[option] is not None:
            changes[field] = _transform(options[option])
    return replace(config, **changes)


def _source(upstream: str, filter_subject: str | None, transforms: tuple[str, ...]) -> SourceConfig:
    from nostr_client.counters.config import SourceConfig
    from nostr_client.counters.subjects import check_patterns

    check_patterns([filter_subject] if filter_subject else [])
    return SourceConfig(
        upstream,
        filter_subject=filter_subject or "",
        subject_transforms=tuple(_transform(text) for text in transforms),
    )


def _transform(text: str) -> TransformConfig:
    from nostr_client.counters.config import TransformConfig
    from nostr_client.errors import CounterError, InvalidInput

    src, separator, dest = text.partition("=")
    if not separator:
        raise click.UsageError(f"not SRC=DEST: {text}")
    made = TransformConfig(src=src, dest=dest)
    try:
        made.check()
    except CounterError as error:
        raise InvalidInput(str(error)) from error
    return made


def _shown(found: StreamInfo) -> dict[str, Any]:
    import msgspec

    shown: dict[str, Any] = msgspec.to_builtins(found)
    return shown | {"config": found.config.to_api()}


def _print(found: StreamInfo, *, as_json: bool) -> None:
    if as_json:
        print_json(_shown(found))
        return
    _print_streams([found])
    for item in found.sources:
        state = f"stalled: {item.stalled}" if item.stalled else f"lag {item.lag}"
        click.echo(f"source {item.name} {item.filters} -> {item.destinations}: {state}")


def _print_streams(found: list[StreamInfo]) -> None:
    from rich.table import Column

    long = [Column(name, overflow="fold") for name in ("stream", "subjects")]
    short = [Column(name, no_wrap=True) for name in ("counters", "messages", "sequences")]
    table = plain_table(*long, *short)
    for item in found:
        state, config = item.state, item.config
        counters = f"{state.subjects:,}" if config.allow_msg_counter else "(plain)"
        span = f"{state.first_seq}..{state.last_seq}"
        table.add_row(config.name, " ".join(config.subjects), counters, f"{state.messages:,}", span)
    console().print(table)


@click.group(cls=CommandGroup)
def link() -> None:
    """Show how counters travel to and from a running agent, and resume links."""


@link.command("list")
@place_option
@json_option
def link_list(place: StoreOrAgent, as_json: bool) -> None:
    """List the agent's sources, and where it sends its own counters."""
    found = run_async(_links(place))
    if as_json:
        print_json(found)
    else:
        print_table(_LINK_COLUMNS, map(_link_row, found))


@link.command("run")
@click.argument("name")
@place_option
@json_option
def link_run(name: str, place: StoreOrAgent, as_json: bool) -> None:
    """Fetch a source now, or send a push now."""
    run_async(_run_link(place, name))
    print_done(f"running {name}", as_json=as_json)


@link.command("confirm")
@click.argument("name")
@place_option
@json_option
def link_confirm(name: str, place: StoreOrAgent, as_json: bool) -> None:
    """Accept the lower values of a source that went backwards, as after a restore."""
    run_async(_confirm_link(place, name))
    print_done(f"confirmed {name}", as_json=as_json)


async def _links(place: StoreOrAgent) -> list[Mapping[str, Any]]:
    async with the_agent(place) as agent:
        return await agent.links()


async def _run_link(place: StoreOrAgent, name: str) -> None:
    async with the_agent(place) as agent:
        await agent.run_link(name)


async def _confirm_link(place: StoreOrAgent, name: str) -> None:
    async with the_agent(place) as agent:
        await agent.confirm_link(name)


_LINK_COLUMNS = (
    "name",
    "way",
    "stream",
    "peer",
    "state",
    "lag",
    "seq",
    "subjects",
    "last",
    "notes",
)


def _link_row(one: Mapping[str, Any]) -> Iterable[object]:
    unit = " s" if one["via"] == "nostr" else ""
    lag = "" if one["lag"] is None else f"{one['lag']:.0f}{unit}"
    last = f"{one['last_subject']}={one['last_value']}" if one["last_subject"] else ""
    counts = (f"{one[name]} {name.replace('_', ' ')}" for name in _TROUBLES if one[name])
    notes = [one["why"], " <- ".join(one["path"]), *counts]
    way = f"{one['direction']} {one['via']}"
    cells = (one["name"], way, one["stream"], one["peer"], one["state"], lag)
    return *cells, one["seq"], one["subjects"], last, "; ".join(filter(None, notes))


_TROUBLES = ("gaps", "lost", "parked", "left_out")
