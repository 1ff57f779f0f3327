"""Choose the counters that a `nostr-client counter` command works on: a store's, an agent's or a
server's."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from nostr_client.cli.parameters import Seconds, UserPath
from nostr_client.cli.place import (
    StoreOrAgent,
    StreamSubjects,
    agent_at,
    place_option,
    store_option,
)
from nostr_client.cli.relays import proxy_option
from nostr_client.counters import shown
from nostr_client.errors import InvalidInput, StoreError, optional

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.cli.place import CounterCommands
    from nostr_client.counters.base import CounterStore
    from nostr_client.counters.shown import Audit, Counter

F = TypeVar("F", bound=Callable[..., Any])

_SERVER_OPTIONS = (
    click.option("--nats", "url", metavar="URL", help="Use this nats-server instead of the store."),
    click.option(
        "--creds", metavar="FILE", type=UserPath(path_type=str, dir_okay=False),
        help="Read the credentials for --nats from this file.",
    ),
    click.option("--domain", metavar="NAME", help="Use this JetStream domain of --nats."),
    click.option(
        "--nats-timeout", "timeout", metavar="SECONDS", type=Seconds(most=86_400),
        default=5.0, show_default=True, help="Wait at most this long for an answer of --nats.",
    ),
    proxy_option,
)  # fmt: skip


class BackendChoice(NamedTuple):
    """The values of the backend options."""

    place: StoreOrAgent
    url: str | None
    creds: str | None
    domain: str | None
    timeout: float
    proxy: str | None


def where_option(command: F) -> F:
    """Add the options of a store, an agent or a server; the command receives `where`."""
    return _where(place_option, command)


def stream_where_option(command: F) -> F:
    """Add the options of a store or a server; the command receives `where`.

    If an agent holds the store, only its configuration changes streams.
    """

    def file_option(inner: F) -> F:
        @functools.wraps(inner)
        def with_file(*args: Any, store: Path | None, **given: Any) -> Any:
            return inner(*args, place=StoreOrAgent(store), **given)

        return cast("F", store_option(with_file))

    return _where(file_option, command)


def _where(options: Callable[[Any], Any], command: F) -> F:
    names = ("place", "url", "creds", "domain", "timeout", "proxy")

    @functools.wraps(command)
    def with_where(*args: Any, **given: Any) -> Any:
        return command(*args, where=BackendChoice(*(given.pop(name) for name in names)), **given)

    wrapped: Any = with_where
    for option in reversed(_SERVER_OPTIONS):
        wrapped = option(wrapped)
    return cast("F", options(wrapped))


@asynccontextmanager
async def counters_at(where: BackendChoice, *, changes: bool) -> AsyncIterator[CounterCommands]:
    """Yield the counters that the options name; changes to a store go through the agent that holds
    it.

    Raises as `opened`, and ApiError.
    """
    if where.url is None:
        async with agent_at(where.place, holds=changes) as agent:
            if agent is not None:
                yield agent
                return
    elif where.place.api or where.place.token_file:
        raise InvalidInput("give --api or --nats, not both")
    async with opened(where, writes=changes) as store:
        yield StoredCounters(store)


class StoredCounters:
    """The counters of a store or a server, as commands use them."""

    def __init__(self, store: CounterStore) -> None:
        self._store = store

    async def offers(self) -> list[StreamSubjects]:
        configs = [info.config for info in await self._store.streams()]
        return [
            StreamSubjects(c.name, c.subjects, c.targets) for c in configs if c.allow_msg_counter
        ]

    async def counters(self, stream: str, patterns: Sequence[str], at: int | None) -> list[Counter]:
        found = (await self._store.counters(stream)).get_many(*patterns, at_seq=at)
        return [shown.counter(entry) async for entry in found]

    async def increments(self, stream: str, subject: str, after: int) -> list[Counter]:
        found = (await self._store.counters(stream)).history(subject, after_seq=after)
        return [shown.counter(entry) async for entry in found]

    async def audit(self, stream: str, subject: str) -> Audit:
        return shown.audit(subject, await (await self._store.counters(stream)).recount(subject))

    async def add(self, stream: str, subject: str, n: int, msg_id: str | None) -> str:
        return _text(await (await self._store.counters(stream)).add(subject, n, msg_id=msg_id))

    async def reset(self, stream: str, subject: str) -> str:
        return _text(await (await self._store.counters(stream)).reset(subject))

    async def remove(self, stream: str, pattern: str) -> int:
        return await (await self._store.counters(stream)).delete(pattern)


def _text(value: int) -> str:
    from nostr_client.counters.rules import format_integer

    return format_integer(value)


@asynccontextmanager
async def opened(
    where: BackendChoice, *, writes: bool, creates: bool = False
) -> AsyncIterator[CounterStore]:
    """Yield the streams that the options name; print a server's caution on stderr.

    A missing store is created only if `creates`. Raises InvalidInput for options that exclude each
    other, StoreError, NetworkError.
    """
    if where.url is None and (where.creds or where.domain):
        raise InvalidInput("--creds and --domain go with --nats")
    if where.url is not None and where.place.given is not None:
        raise InvalidInput("give --store or --nats, not both")
    opener = _server(where) if where.url is not None else _local(where.place, writes, creates)
    async with opener as store:
        yield store


@asynccontextmanager
async def _local(place: StoreOrAgent, writes: bool, creates: bool) -> AsyncIterator[CounterStore]:
    from nostr_client.cli.store.commands import open_to_read
    from nostr_client.counters.engine.schema import MIGRATIONS
    from nostr_client.counters.sqlite import SqliteCounterStore
    from nostr_client.store.sqlite import SqliteStore

    file = place.path
    if not creates and not file.exists():
        raise StoreError(f"no store at {file}: `counter stream add` makes one")
    file.parent.mkdir(parents=True, exist_ok=True)
    sets = [MIGRATIONS]
    opening = SqliteStore.open(file, migrations=sets) if writes else open_to_read(file, sets)
    async with await opening as events:
        yield await SqliteCounterStore.over(events.database)


@asynccontextmanager
async def _server(where: BackendChoice) -> AsyncIterator[CounterStore]:
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


async def holding(counters: CounterCommands, stream: str | None, *patterns: str) -> str:
    """Return the named stream, or the only one that can hold counters of the patterns.

    Raises InvalidInput if several can, or none.
    """
    from nostr_client.counters.subjects import check_patterns

    wanted = check_patterns(patterns)
    return await _one(
        counters, stream, wanted, lambda one: _meets((*one.subjects, *one.targets), wanted)
    )


async def listening(counters: CounterCommands, stream: str | None, subject: str) -> str:
    """Return the stream that takes additions to a subject, whatever its sources send.

    Raises InvalidInput if none listens on it.
    """
    from nostr_client.counters.subjects import check_subject

    wanted = (check_subject(subject),)
    return await _one(counters, stream, wanted, lambda one: _meets(one.subjects, wanted))


async def _one(
    counters: CounterCommands,
    stream: str | None,
    wanted: Sequence[str],
    fits: Callable[[StreamSubjects], bool],
) -> str:
    if stream is not None:
        return stream
    names = [one.name for one in await counters.offers() if fits(one)]
    if len(names) > 1:
        raise InvalidInput(f"name a stream by --stream of {', '.join(names)}")
    if not names:
        raise InvalidInput(f"there is no stream of counters for {' '.join(wanted)}")
    return names[0]


def _meets(patterns: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether a stream has a pattern that overlaps one of those requested."""
    from nostr_client.counters.subjects import overlaps

    return any(overlaps(pattern, asked) for pattern in patterns for asked in wanted)
