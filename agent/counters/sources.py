"""Runs sources: one task for each, which reads new values and gives them to the counters."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from agent.api import schema
from agent.config.counters import source_config
from agent.counters.links import KIND
from nostr_client.codecs import kinds, nip19
from nostr_client.codecs.display import seconds
from nostr_client.counters.engine.remote import Remote
from nostr_client.errors import NostrTallyError, clip
from nostr_client.watch import scheduler

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence

    from agent.config.model import SourceSection
    from agent.counters.links import Links
    from agent.counters.reader import SourceReader
    from agent.log import Log
    from nostr_client.codecs.event import Event
    from nostr_client.counters.engine.take import BatchResult
    from nostr_client.counters.sqlite.remotes import Remotes
    from nostr_client.store.base import SaveOutcome
    from nostr_client.watch.clock import Clock


MOST_ROUNDS: Final = 50
"""Batches of one turn: a source that is far behind continues at its next turn."""

LONGEST_VALUE: Final = 200
"""Digits of a value in a status: a longer value is left out."""


class RunningSource:
    """One configured source, and what reads it."""

    def __init__(self, section: SourceSection, reader: SourceReader) -> None:
        self.section = section
        self.reader = reader
        self.remote = Remote(section.stream, source_config(section), section.most_subjects)
        self.newest = -1
        """`created_at` of the newest version that came, taken or not: Unix seconds."""


class SourceRunner:
    """All sources. `make` gives the reader of one."""

    def __init__(
        self,
        clock: Clock,
        log: Log,
        remotes: Remotes,
        links: Links,
        make: Callable[[SourceSection], SourceReader],
    ) -> None:
        self.sources: dict[str, RunningSource] = {}
        self.moved = 0
        self._clock = clock
        self._log = log
        self._remotes = remotes
        self._links = links
        self._make = make

    async def configure(self, sections: Sequence[SourceSection]) -> None:
        """Replace all sources by these; values and positions of removed ones stay in the store."""
        before, self.sources = self.sources, {}
        for section in sections:
            old = before.get(section.name)
            if old is not None and old.section == section:
                self.sources[section.name] = before.pop(section.name)
            else:
                self.sources[section.name] = RunningSource(section, self._make(section))
        for one in before.values():
            await one.reader.close()
        await self._remotes.configure(self.sources)
        self._links.keep({("agent", "in"), ("nostr", "in")}, self.sources)
        for one in self.sources.values():
            if self._links.get(one.section.name) is None or one.section.name in before:
                self._links.put(_link(one))
            await self._show_known(one)

    def tasks(self) -> list[scheduler.Task]:
        """One task for each source, each in a lane of its own.

        A failing source keeps its interval: what it counts meanwhile is wanted at once.
        """
        return [
            scheduler.Task(
                f"{KIND} {name}", f"{KIND} {name}", seconds(one.section.interval), backs_off=False
            )
            for name, one in self.sources.items()
        ]

    async def close(self) -> None:
        """Close what readers hold open."""
        for one in self.sources.values():
            await one.reader.close()

    async def confirm(self, name: str) -> bool:
        """Accept the lower values of a source; False if it does not wait for that."""
        return await self._remotes.confirm(name)

    async def run(self, name: str) -> bool:
        """Read a source and take its values; return whether it could be read."""
        one = self.sources.get(name)
        if one is None:
            return True
        self._links.change(name, asked_at=self._clock.wall())
        try:
            taken = await self._bring(one)
        except NostrTallyError as error:
            why = clip(str(error))
            if self._changed(name, "failing", why):
                self._log.warning("source_failed", source=name, why=why)
            self._links.change(name, state="failing", why=why, path=(), confirmable=False)
            return False
        await self._show(one, taken)
        return taken is None or taken.outcome in ("taken", "stale", "met")

    async def _bring(self, one: RunningSource) -> BatchResult | None:
        """Read and take batches until none is left; return the outcome of the last one."""
        again, taken, moved = False, None, 0
        for _ in range(MOST_ROUNDS):
            state = await self._remotes.known(one.section.name)
            batch = await one.reader.read(state[0] if state else None, again=again)
            if batch is None:
                return None
            if batch.version is not None:
                one.newest = batch.version[0]
            taken = await self._remotes.take(one.remote, batch)
            moved += taken.moved
            self._log_outcome(one, taken)
            if again and taken.outcome == "again":
                break
            again = taken.outcome == "again"
            more = taken.outcome == "taken" and batch.upto < batch.head.last_seq
            self._links.change(one.section.name, last_seq=batch.head.last_seq)
            if not (again or more or taken.outcome == "met"):
                break
        self.moved += moved
        return taken

    def _log_outcome(self, one: RunningSource, taken: BatchResult) -> None:
        name = one.section.name
        for gap in taken.gaps[:10]:
            self._log.warning("source_gap", source=name, after=gap.after, before=gap.before)
        if taken.outcome in ("refused", "backwards") and self._changed(name, "stopped", taken.why):
            path = " <- ".join(taken.path) or None
            self._log.error("source_stopped", source=name, why=taken.why, path=path)

    def _changed(self, name: str, state: str, why: str) -> bool:
        """Whether state and reason are new for a link, so that they are logged once."""
        link = self._links.get(name)
        return link is None or (link.state, link.why) != (state, why)

    async def _show(self, one: RunningSource, taken: BatchResult | None) -> None:
        name = one.section.name
        outcome = taken.outcome if taken is not None else "none"
        if taken is not None and outcome in ("refused", "backwards"):
            self._links.change(
                name,
                state="stopped",
                why=taken.why,
                path=taken.path,
                confirmable=outcome == "backwards",
            )
        elif outcome in ("none", "met", "again"):
            why = "nothing is there yet" if outcome == "none" else ""
            self._links.change(name, state="waiting", why=why, path=(), confirmable=False)
        else:
            now = self._clock.wall()
            self._links.change(name, state="ok", why="", path=(), confirmable=False, done_at=now)
        await self._show_known(one)

    async def _show_known(self, one: RunningSource) -> None:
        """Show in its link what the store has of a source."""
        name = one.section.name
        found, link = await self._remotes.known(name), self._links.get(name)
        if found is None or link is None:
            return
        known, parked, count = found
        last_seq = max(link.last_seq, known.seq)
        lag: float | None = last_seq - known.seq
        if one.section.pubkey:
            taken = known.version_at >= 0
            lag = max(0, one.newest - known.version_at) if taken else None
        value = known.last_value
        self._links.change(
            name,
            state="behind" if link.state == "ok" and last_seq > known.seq else link.state,
            seq=known.seq,
            last_seq=last_seq,
            lag=lag if known.store else None,
            subjects=known.subjects,
            last_subject=known.last_subject,
            last_value=value if value is None or len(value) <= LONGEST_VALUE else None,
            moved=known.moved,
            gaps=known.gaps,
            lost=known.lost,
            left_out=known.left_out,
            parked=count,
            changed_at=None if known.changed is None else known.changed / 1e9,
            problems=(
                *one.reader.troubles,
                *(clip(f"{p.subject}: {p.why}", 300) for p in parked),
            ),
        )


def _link(one: RunningSource) -> schema.CounterLink:
    section = one.section
    return schema.CounterLink(
        name=section.name,
        direction="in",
        via="agent" if section.agent else "nostr",
        stream=section.stream,
        peer=clip(one.reader.peer),
    )


SOON_S: Final = 0.2
"""Seconds: the hook runs before the commit, and a read before that would miss the event."""


class Arrivals:
    """A hook for `SqliteStore.on_batch`; `nudge` gets names of sources, on the event loop."""

    def __init__(self, nudge: Callable[[str], None]) -> None:
        self._nudge = nudge
        self._wanted: dict[tuple[str, str], tuple[str, ...]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def configure(self, sections: Iterable[SourceSection]) -> None:
        """Wait for the events of these sources."""
        self._loop = asyncio.get_running_loop()
        wanted: dict[tuple[str, str], tuple[str, ...]] = {}
        for one in sections:
            if one.pubkey:
                key = nip19.decode_pubkey(one.pubkey), one.of or one.stream
                wanted[key] = (*wanted.get(key, ()), one.name)
        self._wanted = wanted

    def hook(self, conn: sqlite3.Connection, pairs: Sequence[tuple[Event, SaveOutcome]]) -> None:
        """Look through a batch, in the writer's thread."""
        wanted, loop = self._wanted, self._loop
        if not wanted or loop is None:
            return
        for event, outcome in pairs:
            if event.kind == kinds.APP_DATA and outcome.stored:
                for name in wanted.get((event.pubkey, event.first_tag("d") or ""), ()):
                    loop.call_soon_threadsafe(self._nudge, name)
