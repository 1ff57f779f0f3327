"""Choose where a command works: on a store's file, or through the agent that holds it.

One process writes a store. While an agent does, commands send it changes of the store and questions
that only it can answer; all other commands read the file. Words, results and exit codes are the
same either way, and stderr says if the agent answered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, cast

import click

from nostr_client.cli.output import say
from nostr_client.cli.parameters import UserPath
from nostr_client.errors import NetworkError, StoreError
from nostr_client.paths import addresses_places, store_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from nostr_client.assertions.report import Asserted
    from nostr_client.count.figures import CountReport, RelayOverlaps
    from nostr_client.counters.shown import Audit, Counter
    from nostr_client.sync.coverage_report import CoverageRun
    from nostr_client.watch.definition import Watch
    from nostr_client.watch.digest import Digest
    from nostr_client.watch.history import Point
    from nostr_client.watch.people import People

GROUP: Final = "nostr_tally.agent"
"""The entry points that offer the agent's client: the SDK never imports the agent."""

F = TypeVar("F", bound=Callable[..., Any])


class StoreOrAgent(NamedTuple):
    """The values of `--store`, `--api` and `--token-file`; `given` is None if no store is named."""

    given: Path | None = None
    api: str | None = None
    token_file: Path | None = None

    @property
    def path(self) -> Path:
        """The store's file, which may not exist."""
        return store_path() if self.given is None else self.given

    @property
    def there(self) -> Path:
        """Return the store's file. Raises StoreError if it does not exist: commands that read
        create none."""
        if not self.path.exists():
            raise StoreError(f"no store at {self.path}")
        return self.path


store_option: Callable[[F], F] = click.option(
    "--store",
    metavar="PATH",
    type=UserPath(path_type=Path, dir_okay=False),
    help="Use this file as the store. Default, if one is needed: $NOSTR_TALLY_STORE, or store.db "
    "in the user's data folder; nostr-agent takes it from its configuration.",
)

api_option: Callable[[F], F] = click.option(
    "--api", metavar="URL", help="Use the agent's API at this URL. Default: the running agent's."
)

token_option: Callable[[F], F] = click.option(
    "--token-file",
    metavar="FILE",
    type=UserPath(path_type=Path, dir_okay=False),
    help="Read the API's token from this file. Default: the running agent's.",
)


def place_option(command: F) -> F:
    """Add `--store`, `--api` and `--token-file`; the command receives `place`."""

    @functools.wraps(command)
    def with_place(
        *args: Any, store: Path | None, api: str | None, token_file: Path | None, **given: Any
    ) -> Any:
        return command(*args, place=StoreOrAgent(store, api, token_file), **given)

    return cast("F", store_option(api_option(token_option(with_place))))


class StoredWatch(NamedTuple):
    """A stored watch: when it was last asked, its newest number, and some numbers before that.

    `asserted`: what its providers assert, which an agent alone knows.
    """

    watch: Watch
    asked_at: int | None
    newest: Point | None
    spark: tuple[int, ...] = ()
    asserted: tuple[Asserted, ...] = ()


class StreamSubjects(NamedTuple):
    """A stream of counters: the subjects that it takes, and those that its sources send."""

    name: str
    subjects: tuple[str, ...]
    targets: tuple[str, ...]


class WatchCommands(Protocol):
    """The operations of commands of watches, on a file or an agent. All raise NostrTallyError."""

    async def watches(self) -> list[StoredWatch]: ...

    async def watch(self, name: str) -> StoredWatch: ...

    async def explain(self, name: str) -> CountReport: ...

    async def overlaps(self, name: str) -> RelayOverlaps: ...

    async def points(self, name: str, since: int) -> list[Point]: ...

    async def people(self, name: str, since: int, limit: int) -> People: ...

    async def digest(self, since: int) -> Digest: ...

    async def add_watch(self, watch: Watch) -> Watch: ...

    async def set_watch(self, watch: Watch) -> Watch: ...

    async def remove_watch(self, name: str) -> None: ...


class CounterCommands(Protocol):
    """The operations of commands of counters, on a file, a nats-server or an agent."""

    async def offers(self) -> list[StreamSubjects]: ...

    async def counters(
        self, stream: str, patterns: Sequence[str], at: int | None
    ) -> list[Counter]: ...

    async def increments(self, stream: str, subject: str, after: int) -> list[Counter]: ...

    async def audit(self, stream: str, subject: str) -> Audit: ...

    async def add(self, stream: str, subject: str, n: int, msg_id: str | None) -> str: ...

    async def reset(self, stream: str, subject: str) -> str: ...

    async def remove(self, stream: str, pattern: str) -> int: ...


class RunningAgent(WatchCommands, CounterCommands, Protocol):
    """A running agent. Its own state comes as its API shows it: as JSON objects."""

    @property
    def url(self) -> str: ...

    async def close(self) -> None: ...

    async def ask_watch(self, name: str) -> CountReport:
        """Ask every relay of a watch now; return its number once each was asked."""
        ...

    async def links(self) -> list[Mapping[str, Any]]: ...

    async def run_link(self, name: str) -> None: ...

    async def confirm_link(self, name: str) -> None: ...

    async def relays(self) -> list[Mapping[str, Any]]: ...

    async def syncs(self) -> list[Mapping[str, Any]]: ...

    async def sync(self, name: str) -> Mapping[str, Any]: ...

    async def add_sync(self, spec: Mapping[str, Any]) -> Mapping[str, Any]: ...

    async def remove_sync(self, name: str) -> None: ...

    async def run_sync(self, name: str) -> Mapping[str, Any]:
        """Run a sync now; return its result once it has ended."""
        ...

    async def cancel_sync(self, name: str) -> None: ...

    async def coverages(self) -> Mapping[str, CoverageRun]:
        """Return the newest run of each coverage that was compared, by name."""
        ...

    async def assertions(self) -> Mapping[str, Any]:
        """Return what became of the cards that the agent publishes."""
        ...

    async def run_assertions(self) -> Mapping[str, Any]:
        """Publish what changed now; return the result once the run has ended."""
        ...


class AgentFinder(Protocol):
    """Finds an agent, in the agent's package: at `api`, else the one that holds `store`."""

    def __call__(
        self, store: Path | None, api: str | None, token_file: Path | None
    ) -> RunningAgent | None: ...


@asynccontextmanager
async def agent_at(
    place: StoreOrAgent, *, holds: bool = True
) -> AsyncIterator[RunningAgent | None]:
    """Yield the agent that a place names, else, if `holds`, the one that has its store.

    Raises InvalidInput, NetworkError.
    """
    found: RunningAgent | None = None
    if place.api or place.token_file:
        found = _find(None, place.api, place.token_file)
    elif holds:
        found = _find(place.path, None, None)
    async with AsyncExitStack() as stack:
        if found is not None:
            stack.push_async_callback(found.close)
            say(f"through the agent at {found.url}")
        yield found


@asynccontextmanager
async def the_agent(place: StoreOrAgent) -> AsyncIterator[RunningAgent]:
    """Yield the agent, for what only a running one knows: of the named store, else any.

    Raises NetworkError if none runs.
    """
    named = place.given is not None
    async with agent_at(place, holds=named) as found:
        if found is not None:
            yield found
            return
    agent = None if named else _find(None, None, None)
    if agent is None:
        what = f"no agent holds {place.path}" if named else "no agent is running"
        raise NetworkError(f"{what}; start it with: nostr-agent run")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(agent.close)
        say(f"through the agent at {agent.url}")
        yield agent


def _find(store: Path | None, api: str | None, token_file: Path | None) -> RunningAgent | None:
    """Find the agent through its package, if installed; without a run file there is no agent to
    ask."""
    if api is None and not any(path.exists() for path in addresses_places()):
        return None
    from importlib.metadata import entry_points

    for one in entry_points(group=GROUP):
        finder: AgentFinder = one.load()
        return finder(store, api, token_file)
    return None
