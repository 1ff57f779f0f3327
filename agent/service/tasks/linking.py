"""Runs all links of counters as one part of the agent: sources, published streams, pushes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.counters.nats_push import PushRunner
from agent.counters.publisher import PublishRunner
from agent.counters.reader import AgentReader, NostrReader
from agent.counters.sources import Arrivals, SourceRunner
from agent.specs import chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent.config import Config
    from agent.config.model import SourceSection
    from agent.counters.links import Links
    from agent.counters.reader import SourceReader
    from agent.log import Log
    from agent.service.parts import AgentParts
    from nostr_client.watch.clock import Clock
    from nostr_client.watch.scheduler import Task


class LinkRunner:
    """Runs links by their names, whatever they are made of."""

    def __init__(
        self,
        config: Config,
        parts: AgentParts,
        clock: Clock,
        log: Log,
        links: Links,
        soon: Callable[[str], None],
    ) -> None:
        """`soon` runs a link after a short delay, unless it runs now."""
        self._config = config
        self._parts = parts
        self._clock = clock
        self._links = links
        remotes = parts.counters.remotes
        self.sourcing = SourceRunner(clock, log, remotes, links, self._reader)
        self.publishing = PublishRunner(
            clock, log, remotes, links, parts.store, parts.pool, parts.signer
        )
        self.pushing = PushRunner(clock, log, parts.counters, links, parts.pool.options.connection)
        self.arrivals = Arrivals(soon)
        parts.store.on_batch.append(self.arrivals.hook)

    def _reader(self, section: SourceSection) -> SourceReader:
        if section.agent:
            return AgentReader(section, self._parts.pool.options.connection)
        return NostrReader(
            section,
            lambda: self._chosen(section),
            self._parts.pool,
            self._parts.store,
            self._clock,
            self._parts.signer,
            self._parts.provenance.note,
        )

    def _chosen(self, section: SourceSection) -> list[str]:
        relays = self._config.relays
        self._parts.pool.name(section.relays)
        return chosen(section.relays, relays.default, relays.denied)

    async def configure(self, config: Config) -> None:
        """Take a configuration, the first or another."""
        self._config = config
        self.arrivals.configure(config.counters.sources)
        await self.sourcing.configure(config.counters.sources)
        for section in config.counters.publish:
            self._parts.pool.name(section.relays)
        self.publishing.configure(config.counters.publish, config.relays)
        self.pushing.configure(config.counters.push)

    def tasks(self) -> list[Task]:
        """One task for each link."""
        return [*self.sourcing.tasks(), *self.publishing.tasks(), *self.pushing.tasks()]

    async def last(self) -> dict[str, float]:
        """When those ran last that must not run sooner after a restart."""
        return await self.publishing.last()

    async def run(self, name: str) -> bool:
        """Let a link take or send what there is."""
        if name in self.publishing.streams:
            return await self.publishing.run(name)
        if name in self.pushing.pushes:
            return await self.pushing.run(name)
        return await self.sourcing.run(name)

    async def confirm(self, name: str) -> bool:
        """Let a link go on that waits for a word; False where it does not."""
        if name in self.publishing.streams:
            return self.publishing.confirm(name)
        if name in self.pushing.pushes:
            return self.pushing.confirm(name)
        return await self.sourcing.confirm(name)

    async def close(self) -> None:
        """Close what links hold open."""
        await self.sourcing.close()

    def numbers(self) -> Mapping[str, tuple[str, float]]:
        """For the metrics, over all links."""
        return {
            "sourced_messages_total": (
                "Messages that the agent read from sources.",
                self.sourcing.moved,
            ),
            "published_values_total": (
                "Events that publish values of counters.",
                self.publishing.published,
            ),
            "pushed_changes_total": ("Changes that the agent pushed to NATS.", self.pushing.sent),
        }
