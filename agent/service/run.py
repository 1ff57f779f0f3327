"""Runs the agent: open, serve, work until a stop is requested, drain, close.

The API listens before the store is open; until then it answers 503.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from agent import state
from agent.api import schema
from agent.api.feed import NEW_TOKENS
from agent.api.guard import ApiAccess
from agent.api.server import ApiServer, Bounds
from agent.api.server import serve as serve_api
from agent.config import InvalidConfig
from agent.log import Log, LogHandler
from agent.relay.listen import bind, parse_address
from agent.service.agent import Agent
from agent.service.backend import AgentBackend
from agent.service.parts import open_parts
from agent.service.process.runfile import runfile
from agent.service.process.secrets import Tokens, make_signer, make_tokens
from agent.service.process.supervision import Notifier, taking_long
from agent.service.relaying import WantedFilters, relay_urls, serve_relay
from agent.service.reload import changes
from agent.service.tasks.ticker import Ticker
from nostr_client.codecs.display import seconds
from nostr_client.errors import NostrTallyError
from nostr_client.network.waiting import end, task_group
from nostr_client.watch.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from agent.config import Config, Draft, StoredNames
    from agent.config.model import ApiSection
    from nostr_client.watch.clock import Clock

ALERTS_S: Final = 5.0
"""How long stopping waits for alerts that were never tried."""

ONCE_S: Final = 3600.0
"""How long `--once` may take in all."""


class Service:
    """A running agent; made by `running`."""

    def __init__(
        self, agent: Agent, backend: AgentBackend, door: Door, stopping: asyncio.Event
    ) -> None:
        self.agent = agent
        self.backend = backend
        self.api = door.api
        self.tokens = door.tokens
        self.stopping = stopping
        self._started = agent.config
        self._reloading = asyncio.Lock()

    @property
    def token(self) -> str:
        """The token that manages."""
        return self.tokens.manage

    def stop(self) -> None:
        """End in order: finish or park what runs, then close."""
        self.stopping.set()

    async def reload(self, load: Callable[[], Draft]) -> schema.Reloaded:
        """Read the configuration again; a wrong one is logged, and the old one stays."""
        try:
            draft = await asyncio.to_thread(load)
            config = await asyncio.to_thread(draft.checked, await self._added())
            tokens = await asyncio.to_thread(make_tokens, self._token_files(config.api))
        except InvalidConfig as error:
            return self._refused(*map(str, error.mistakes))
        except (NostrTallyError, OSError) as error:
            return self._refused(str(error))
        async with self._reloading:
            found = changes(self._started, self.agent.config, config)
            self._take_access(make_access(config.api, tokens), tokens)
            self.agent.log.configure(config.service.log, config.service.log_format)
            try:
                await self.agent.configure(config)
            except NostrTallyError as error:
                return self._refused(str(error))
        self.backend.restart_for = found.restart
        self.agent.log.info("reloaded", changed=", ".join(found.applied) or None)
        if found.restart:
            self.agent.log.warning("restart_needed", keys=", ".join(found.restart))
        return schema.Reloaded(ok=True, applied=found.applied, restart=found.restart)

    def _token_files(self, section: ApiSection) -> ApiSection:
        """A section with the token files of the start, which the run file names."""
        started = self._started.api
        return msgspec.structs.replace(
            section,
            token_file=started.token_file,
            read_token_file=started.read_token_file,
        )

    def _take_access(self, access: ApiAccess, tokens: Tokens) -> None:
        """Take other tokens, hosts and origins; streams that old tokens opened end."""
        if tokens != self.tokens:
            self.agent.feed.close(NEW_TOKENS)
        self.tokens, self.api.access = tokens, access

    async def _added(self) -> StoredNames:
        """The names that nothing of a configuration may have."""
        return await self.agent.parts.store.database.read(state.all_added)

    def _refused(self, *mistakes: str) -> schema.Reloaded:
        for mistake in mistakes:
            self.agent.log.error("reload_refused", mistake=mistake)
        return schema.Reloaded(ok=False, mistakes=mistakes)


@asynccontextmanager
async def running(
    config: Config,
    *,
    clock: Clock | None = None,
    log: Log | None = None,
    notifier: Notifier | None = None,
    config_path: str = "",
    door: Door | None = None,
    publish: bool = True,
    stopping: asyncio.Event | None = None,
) -> AsyncIterator[Service]:
    """A whole agent for as long as the block runs; leaving it drains and closes everything.

    `door`: one that is open already. `publish`: write the run file, by which commands find it.
    `stopping`: set it to end the agent; the agent sets it when its work has ended.

    Raises StoreError and its kinds, NetworkError (an address in use), InvalidInput.
    """
    clock = clock or SystemClock()
    section = config.service
    log = log or Log(clock.wall, level=section.log, style=section.log_format)
    notifier = notifier or Notifier()
    async with AsyncExitStack() as stack:
        stack.enter_context(_library_logs(log))
        signer = await make_signer(config.identity)
        urls = relay_urls(config.relay)
        async with taking_long(notifier, "opening the store"):
            parts = await stack.enter_async_context(open_parts(config, clock, signer, urls))
        agent = Agent(config, parts, clock, log)
        stack.push_async_callback(agent.linking.close)
        await agent.configure(config)
        backend = AgentBackend(agent, config_path)
        if door is None:
            door = await stack.enter_async_context(front_door(config.api))
        wanted = WantedFilters(agent.engine, agent.syncing)
        stopping = stopping or asyncio.Event()
        backend.relay_url = await serve_relay(
            stack, config.relay, parts, wanted, agent.merged, stopping.set
        )
        stack.callback(agent.feed.close)
        if publish:
            stack.enter_context(runfile(door.api.url, backend.relay_url, config.api, log))
        service = Service(agent, backend, door, stopping)
        door.api.backend = backend
        async with _working(service, Ticker(agent, backend, notifier), notifier):
            log.info(
                "started",
                store=parts.path,
                api=door.api.url,
                local_relay=backend.relay_url,
                watches=len(agent.engine.watches),
                syncs=len(agent.syncing.syncs),
            )
            notifier.send(READY=1, MAINPID=os.getpid())
            yield service
    log.info("stopped")


@asynccontextmanager
async def _working(service: Service, ticker: Ticker, notifier: Notifier) -> AsyncIterator[None]:
    """Run the work beside the block; at the end drain it, then cancel the rest."""
    agent = service.agent
    working = asyncio.create_task(_work(agent, ticker))
    working.add_done_callback(lambda _: service.stop())
    try:
        yield
    finally:
        agent.parts.health.stopping = True
        notifier.send(STOPPING=1)
        agent.worker.stop()
        if not working.done():
            cut = await agent.worker.drain(seconds(agent.config.service.drain))
            await agent.alerts.settle(ALERTS_S)
            agent.log.info("drained", cut_off=cut)
            await agent.parts.ingest.drain()
            await agent.keep_relays()
        await end(working)


async def _work(agent: Agent, ticker: Ticker) -> None:
    async with task_group() as group:
        group.create_task(agent.run())
        group.create_task(ticker.run())


@contextlib.contextmanager
def _library_logs(log: Log) -> Iterator[None]:
    handler = LogHandler(log)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


async def serve(config: Config, load: Callable[[], Draft], config_path: str) -> None:
    """Run until SIGTERM or SIGINT; SIGHUP reads the configuration again."""
    notifier = Notifier()
    stopping, hangup = asyncio.Event(), asyncio.Event()
    stops = dict.fromkeys((signal.SIGTERM, signal.SIGINT), stopping.set)
    # Before the agent is announced as started: a signal may follow at once.
    with _signals({**stops, signal.SIGHUP: hangup.set}):
        async with (
            front_door(config.api) as door,
            running(
                config, notifier=notifier, config_path=config_path, door=door, stopping=stopping
            ) as service,
            task_group() as group,
        ):
            service.backend.reloader = lambda: service.reload(load)
            reloading = group.create_task(_reload_on(hangup, service, load, notifier))
            await stopping.wait()
            reloading.cancel()


async def _reload_on(
    hangup: asyncio.Event, service: Service, load: Callable[[], Draft], notifier: Notifier
) -> None:
    while True:
        await hangup.wait()
        hangup.clear()
        notifier.send(RELOADING=1)
        await service.reload(load)
        notifier.send(READY=1)


async def once(config: Config, config_path: str) -> int:
    """Do everything that is due once, for cron; how many tasks did not go well."""
    at_once = msgspec.structs.replace(config.service, catch_up="0s")
    config = msgspec.structs.replace(config, service=at_once)
    stopping = asyncio.Event()
    with _signals(dict.fromkeys((signal.SIGTERM, signal.SIGINT), stopping.set)):
        async with running(config, config_path=config_path, stopping=stopping) as service:
            worker = service.agent.worker
            settled = asyncio.ensure_future(worker.settled())
            stopped = asyncio.ensure_future(stopping.wait())
            try:
                await asyncio.wait(
                    {settled, stopped}, timeout=ONCE_S, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                settled.cancel()
                stopped.cancel()
        return worker.failed


@contextlib.contextmanager
def _signals(
    handlers: dict[signal.Signals, Callable[[], None]],
) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


class Door(NamedTuple):
    """The API's server, and the tokens that it takes."""

    api: ApiServer
    tokens: Tokens


def make_access(section: ApiSection, tokens: Tokens) -> ApiAccess:
    """Who may use the API."""
    return ApiAccess(
        token=tokens.manage,
        read_token=tokens.read,
        source_token=tokens.source,
        hosts=frozenset(host.lower() for host in section.hosts),
        origins=frozenset(origin.lower() for origin in section.cors_origins),
        open_metrics=section.open_metrics,
        badges=frozenset(section.badges),
    )


@asynccontextmanager
async def front_door(section: ApiSection) -> AsyncIterator[Door]:
    """Serve for as long as the block runs. Raises NetworkError, InvalidInput (a token file)."""
    tokens = await asyncio.to_thread(make_tokens, section)
    listener = bind(*parse_address(section.listen))
    bounds = Bounds(section.body_limit, section.connections)
    async with serve_api(make_access(section, tokens), listener, bounds=bounds) as api:
        yield Door(api, tokens)
