"""Which counters a `nostr-client counter` command works on: the local store's, or a server's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nostr_client.cli.parameters import Seconds, UserPath
from nostr_client.errors import InvalidInput, StoreError, optional

if TYPE_CHECKING:
    from nostr_client.counters.base import Counters, CounterStore
    from nostr_client.counters.config import StreamConfig

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--store", "path", metavar="PATH", type=UserPath(path_type=Path, dir_okay=False),
        help="The store's file (default: store.db in the user's data folder).",
    ),
    click.option("--nats", "url", metavar="URL", help="A nats-server instead of the store."),
    click.option(
        "--creds", metavar="FILE", type=UserPath(path_type=str, dir_okay=False),
        help="Credentials for --nats.",
    ),
    click.option("--domain", metavar="NAME", help="A JetStream domain of --nats."),
    click.option(
        "--timeout", metavar="SECONDS", type=Seconds(most=86_400),
        default=5.0, show_default=True, help="How long --nats may take for one answer.",
    ),
    click.option(
        "--proxy", metavar="URL",
        help="Refuse to connect to --nats beside this proxy, as there is no way through one; none: "
        "connect directly. Else the proxy of $ALL_PROXY; $NO_PROXY names hosts without one.",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """What the backend options say."""

    path: Path | None
    url: str | None
    creds: str | None
    domain: str | None
    timeout: float
    proxy: str | None


def backend_options(command: F) -> F:
    """Add the options that choose a backend; the command hands them to `opened`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def place(options: dict[str, Any]) -> Place:
    """Take the backend options out of a command's keyword arguments."""
    names = ("path", "url", "creds", "domain", "timeout", "proxy")
    return Place(*(options.pop(name) for name in names))


@asynccontextmanager
async def opened(
    where: Place, *, writes: bool, creates: bool = False
) -> AsyncIterator[CounterStore]:
    """The counters that the options name; a server's caution goes to stderr.

    A store that is not there is made where it `creates` alone. Raises InvalidInput for options
    that exclude each other, StoreError, NetworkError.
    """
    if where.url is None and (where.creds or where.domain):
        raise InvalidInput("--creds and --domain go with --nats")
    if where.url is not None and where.path is not None:
        raise InvalidInput("give --store or --nats, not both")
    opener = _server(where) if where.url is not None else _local(where.path, writes, creates)
    async with opener as store:
        yield store


@asynccontextmanager
async def _local(path: Path | None, writes: bool, creates: bool) -> AsyncIterator[CounterStore]:
    from nostr_client.cli.store import open_to_read, store_place
    from nostr_client.counters.engine.schema import MIGRATIONS
    from nostr_client.counters.sqlite import SqliteCounterStore
    from nostr_client.store.sqlite import SqliteStore

    file = store_place(path)
    if not creates and not file.exists():
        raise StoreError(f"no store at {file}: `counter stream create` makes one")
    file.parent.mkdir(parents=True, exist_ok=True)
    sets = [MIGRATIONS]
    opening = SqliteStore.open(file, migrations=sets) if writes else open_to_read(file, sets)
    async with await opening as events:
        yield await SqliteCounterStore.over(events.database)


@asynccontextmanager
async def _server(where: Place) -> AsyncIterator[CounterStore]:
    with optional("--nats"):
        from nostr_client.counters.jetstream import JetStreamCounterStore, NatsOptions
    from nostr_client.cli.output import say
    from nostr_client.options import ConnectionOptions

    options = NatsOptions(
        credentials=where.creds,
        domain=where.domain,
        timeout_s=where.timeout,
        connection=ConnectionOptions(proxy=where.proxy),
    )
    async with await JetStreamCounterStore.connect(where.url or "", options) as store:
        if store.caution:
            say(f"warning: {store.caution}")
        yield store


async def bound(store: CounterStore, stream: str | None, *subjects: str) -> Counters:
    """The counters of a stream: the one named, or the only one that can hold the subjects.

    Raises InvalidInput where several can, or none.
    """
    from nostr_client.counters.subjects import check_patterns

    wanted = check_patterns(subjects)
    return await _one(store, stream, wanted, lambda config: _holds(config, wanted))


async def listening(store: CounterStore, stream: str | None, subject: str) -> Counters:
    """The counters of the stream that takes what is added to a subject: sources do not matter.

    Raises InvalidInput where none listens on it.
    """
    from nostr_client.counters.subjects import check_subject

    wanted = (check_subject(subject),)
    return await _one(store, stream, wanted, lambda config: _listens(config, wanted))


async def _one(
    store: CounterStore,
    stream: str | None,
    wanted: Sequence[str],
    fits: Callable[[StreamConfig], bool],
) -> Counters:
    if stream is not None:
        return await store.counters(stream)
    configs = [info.config for info in await store.streams()]
    names = [c.name for c in configs if c.allow_msg_counter and fits(c)]
    if len(names) > 1:
        raise InvalidInput(f"name a stream by --stream of {', '.join(names)}")
    if not names:
        raise InvalidInput(f"there is no stream of counters for {' '.join(wanted)}")
    return await store.counters(names[0])


def _holds(config: StreamConfig, wanted: Sequence[str]) -> bool:
    """Whether a stream listens or sources where one of the patterns asks."""
    from nostr_client.counters.subjects import overlaps

    made = [pattern for source in config.sources for pattern in source.targets]
    return _listens(config, wanted) or any(overlaps(p, w) for p in made for w in wanted)


def _listens(config: StreamConfig, wanted: Sequence[str]) -> bool:
    from nostr_client.counters.subjects import overlaps

    return any(overlaps(pattern, asked) for pattern in config.subjects for asked in wanted)
