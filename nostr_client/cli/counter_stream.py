"""`nostr-client counter stream` and `counter source`: what counts, and what it reads from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nostr_client.cli.counter_backend import Place, backend_options, opened, place
from nostr_client.cli.entry import run_async
from nostr_client.cli.output import console, json_option, plain_table, print_json

if TYPE_CHECKING:
    from nostr_client.counters.base import StreamInfo
    from nostr_client.counters.config import SourceConfig, StreamConfig, TransformConfig

F = TypeVar("F", bound=Callable[..., Any])

SECOND = 1_000_000_000

LEAST_SECONDS = 1e-9
MOST_SECONDS = 9_000_000_000
"""285 years: nanoseconds are counted in 64 bits."""


def _seconds(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Refuse nan, which is in no range, and what nanoseconds cannot say; 0 is none."""
    if value is not None and value != 0 and not LEAST_SECONDS <= value <= MOST_SECONDS:
        text = f"{value} is not from {LEAST_SECONDS} to {MOST_SECONDS:,} seconds"
        raise click.BadParameter(text, ctx=ctx, param=param)
    return value


_SETTINGS = (
    click.option("--subject", "subjects", metavar="PATTERN", multiple=True, help="Repeatable."),
    click.option("--description", help="What it is for."),
    click.option("--count/--plain", "counts", default=None, help="Counters, or any messages."),
    click.option(
        "--keep",
        "max_msgs_per_subject",
        type=click.IntRange(-1),
        metavar="N",
        help="Changes kept a counter; -1: all.",
    ),
    click.option(
        "--max-msgs",
        type=click.IntRange(-1),
        metavar="N",
        help="Changes kept in all; the newest always are. -1: no limit.",
    ),
    click.option(
        "--max-age", type=float, callback=_seconds, help="Seconds; the newest are kept always."
    ),
    click.option(
        "--window", type=float, callback=_seconds, help="Seconds in which an --id counts once."
    ),
    click.option(
        "--batches/--no-batches", "allow_atomic", default=None, help="Take several adds as one."
    ),
    click.option("--transform", metavar="SRC=DEST", help="Rewrite subjects on arrival."),
    click.option("--republish", metavar="SRC=DEST", help="Tell every change under a subject."),
)


def _settings(command: F) -> F:
    for option in reversed(_SETTINGS):
        command = option(command)
    return command


@click.group()
def stream() -> None:
    """Streams: sets of counters with their settings."""


@stream.command()
@click.argument("name")
@_settings
@click.option("--mirror", metavar="STREAM", help="Copy another stream, message by message.")
@backend_options
@json_option
def create(name: str, mirror: str | None, as_json: bool, **options: Any) -> None:
    """Make a stream of counters."""
    _print(run_async(_create(place(options), name, mirror, options)), as_json=as_json)


@stream.command()
@click.argument("name")
@_settings
@backend_options
@json_option
def edit(name: str, as_json: bool, **options: Any) -> None:
    """Change the settings that are given, and no others."""
    _print(run_async(_edit(place(options), name, options)), as_json=as_json)


@stream.command()
@click.argument("name")
@backend_options
@json_option
def info(name: str, as_json: bool, **options: Any) -> None:
    """Settings, size, and how far each source was read."""
    _print(run_async(_info(place(options), name)), as_json=as_json)


@stream.command("list")
@backend_options
@json_option
def list_(as_json: bool, **options: Any) -> None:
    """Every stream."""
    found = run_async(_list(place(options)))
    if as_json:
        print_json([_shown(item) for item in found])
    else:
        _tell(found)


@stream.command()
@click.argument("name")
@backend_options
def rm(name: str, **options: Any) -> None:
    """Remove a stream with its counters."""
    run_async(_rm(place(options), name))


@click.group()
def source() -> None:
    """Sources: streams whose counters a stream adds up with its own."""


@source.command("add")
@click.argument("name", metavar="STREAM")
@click.argument("upstream", metavar="SOURCE")
@click.option("--filter", "filter_subject", metavar="PATTERN", help="Only these subjects.")
@click.option(
    "--transform", "transforms", metavar="SRC=DEST", multiple=True,
    help="Only SRC, as DEST; {{wildcard(1)}} is its first `*`. Repeatable.",
)  # fmt: skip
@backend_options
@json_option
def source_add(
    name: str,
    upstream: str,
    filter_subject: str | None,
    transforms: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Add SOURCE to what STREAM sums up: its whole value first, then every change."""
    wanted = _source(upstream, filter_subject, transforms)
    _print(run_async(_source_add(place(options), name, wanted)), as_json=as_json)


@source.command("rm")
@click.argument("name", metavar="STREAM")
@click.argument("upstream", metavar="SOURCE")
@backend_options
@json_option
def source_rm(name: str, upstream: str, as_json: bool, **options: Any) -> None:
    """Stop reading SOURCE. What it brought stays, and adding it again brings the rest only."""
    _print(run_async(_source_rm(place(options), name, upstream)), as_json=as_json)


async def _create(
    where: Place, name: str, mirror: str | None, options: dict[str, Any]
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
        check_config(made)  # before a store is made for it
    async with opened(where, writes=True, creates=True) as store:
        return await store.create_stream(made)


async def _edit(where: Place, name: str, options: dict[str, Any]) -> StreamInfo:
    async with opened(where, writes=True) as store:
        config = (await store.stream_info(name)).config
        return await store.update_stream(_changed(config, options))


async def _info(where: Place, name: str) -> StreamInfo:
    async with opened(where, writes=False) as store:
        return await store.stream_info(name)


async def _list(where: Place) -> list[StreamInfo]:
    async with opened(where, writes=False) as store:
        return await store.streams()


async def _rm(where: Place, name: str) -> None:
    async with opened(where, writes=True) as store:
        await store.delete_stream(name)


async def _source_add(where: Place, name: str, wanted: SourceConfig) -> StreamInfo:
    from msgspec.structs import replace

    async with opened(where, writes=True) as store:
        config = (await store.stream_info(name)).config
        return await store.update_stream(replace(config, sources=(*config.sources, wanted)))


async def _source_rm(where: Place, name: str, upstream: str) -> StreamInfo:
    from msgspec.structs import replace

    async with opened(where, writes=True) as store:
        config = (await store.stream_info(name)).config
        kept = tuple(item for item in config.sources if item.name != upstream)
        if kept == config.sources:
            raise click.UsageError(f"{upstream} is no source of {name}")
        return await store.update_stream(replace(config, sources=kept))


def _changed(config: StreamConfig, options: dict[str, Any]) -> StreamConfig:
    """A configuration with the settings that were given. Raises InvalidInput for no patterns."""
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
    _tell([found])
    for item in found.sources:
        state = f"stalled: {item.stalled}" if item.stalled else f"lag {item.lag}"
        click.echo(f"source {item.name} {item.filters} -> {item.destinations}: {state}")


def _tell(found: list[StreamInfo]) -> None:
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
