"""What the agent has reported: the state that pages show. Knows no Textual, does no I/O."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Literal

from agent.api.schema import Delta, StateSnapshot, StreamEnd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.api import schema

LOG_LINES: Final = 2000
MOVED_S: Final = 2.0
"""How long a number that has moved stands out."""

Link = Literal["connecting", "live", "away"]

LATENCIES: Final = 24
"""The newest latencies of a relay that are remembered for its line."""


class Pace:
    """How fast a sync gets on with a relay: events and seconds since it was first seen."""

    def __init__(self, at: float, done: int) -> None:
        self.began, self.first = at, done
        self.at, self.done = at, done

    def seen(self, at: float, done: int) -> None:
        """It has got so far."""
        if done < self.done:  # another run
            self.began, self.first = at, done
        self.at, self.done = at, done

    @property
    def rate(self) -> float | None:
        """Events a second; None where nothing shows it."""
        moved, took = self.done - self.first, self.at - self.began
        return moved / took if moved > 0 and took > 0 else None

    def left(self, more: int) -> float | None:
        """Seconds until so many more are done; None where nothing shows it."""
        rate = self.rate
        return None if rate is None else more / rate


class Model:
    """Watches, relays, syncs and log lines by name, and how the agent can be reached."""

    def __init__(self) -> None:
        self.status: schema.AgentStatus | None = None
        self.watches: dict[str, schema.WatchState] = {}
        self.relays: dict[str, schema.RelayState] = {}
        self.syncs: dict[str, schema.Sync] = {}
        self.links: dict[str, schema.CounterLink] = {}
        self.coverages: dict[str, schema.CoverageState] = {}
        self.log: deque[schema.LogLine] = deque(maxlen=LOG_LINES)
        self.snapshots = 0
        """How many snapshots of the whole state came; the log of each is read again."""
        self.has_log = False
        """Whether the log of this run was read, and not its new lines alone."""
        self.counters_version = 0
        """Counts up when the agent reports a counter."""
        self.moved: dict[str, float] = {}
        """When the number of a watch moved last."""
        self.paces: dict[tuple[str, str], Pace] = {}
        self.latencies: dict[str, deque[int]] = {}
        """The newest latencies of each relay since this program began, in milliseconds."""
        self.link: Link = "connecting"
        self.found = False
        """Whether the last try found where an agent listens."""
        self.since: float | None = None
        """When the agent went away."""
        self.received_at: float | None = None
        self.received = 0
        """Messages of the stream so far."""
        self.why = ""
        self.api = ""
        self.last = ""
        """The id of the newest message, to go on from."""

    @property
    def stale(self) -> bool:
        """Whether what is shown may be out of date."""
        return self.link != "live"

    def reached(self, api: str, now: float) -> None:
        """The agent answers."""
        self.link, self.why, self.since, self.api = "live", "", None, api
        if self.received:  # what was received then is frozen
            self.received_at = now

    def lost(self, why: str, now: float) -> None:
        """The agent does not answer."""
        if self.since is None:
            self.since = now
        self.link, self.why = "away", why

    def apply(self, id: str, message: schema.Message, now: float) -> set[str]:
        """Take a message in; the kinds of things that it changed."""
        self.last, self.received_at = id, now
        self.received += 1
        if isinstance(message, StateSnapshot):
            return self._start(message, now)
        if isinstance(message, Delta):
            return self._change(message, now)
        assert isinstance(message, StreamEnd)
        self.why = message.reason
        return set()

    def _start(self, update: StateSnapshot, now: float) -> set[str]:
        self.status = update.status
        watches = {one.spec.name: one for one in update.watches}
        for name, one in watches.items():
            self._note_move(name, one, now)
        self.watches = watches
        for relay in update.relays:
            self._note_latency(relay)
        self.relays = {one.url: one for one in update.relays}
        self.syncs = {one.spec.name: one for one in update.syncs}
        self.links = {one.name: one for one in update.links}
        self.coverages = {one.spec.name: one for one in update.coverages}
        self.counters_version += 1
        self.has_log = False
        self.snapshots += 1
        self.log.clear()  # another run counts its lines from zero; the log page asks for them
        return {
            "status", "watches", "relays", "syncs", "counters", "links", "coverages", "log"
        }  # fmt: skip

    def _change(self, update: Delta, now: float) -> set[str]:
        changed: set[str] = set()
        if update.watch is not None:
            self._note_move(update.watch.spec.name, update.watch, now)
            self.watches[update.watch.spec.name] = update.watch
            changed.add("watches")
        if update.relay is not None:
            self._note_latency(update.relay)
            self.relays[update.relay.url] = update.relay
            changed.add("relays")
        if update.sync is not None:
            self._note_pace(update.sync, now)
            self.syncs[update.sync.spec.name] = update.sync
            changed.add("syncs")
        return changed | self._change_rest(update)

    def _change_rest(self, update: Delta) -> set[str]:
        changed: set[str] = set()
        if update.log is not None:
            self.log.append(update.log)
            changed.add("log")
        if update.status is not None:
            self.status = update.status
            changed.add("status")
        if update.counter is not None or update.stream is not None:
            self.counters_version += 1
            changed.add("counters")
        if update.link is not None:
            self.links[update.link.name] = update.link
            changed.add("links")
        if update.coverage is not None:
            self.coverages[update.coverage.spec.name] = update.coverage
            changed.add("coverages")
        if self.coverages.pop(update.removed_coverage or "", None) is not None:
            changed.add("coverages")
        if update.removed_link is not None and update.removed_link in self.links:
            del self.links[update.removed_link]
            changed.add("links")
        if update.removed_watch is not None and update.removed_watch in self.watches:
            del self.watches[update.removed_watch]
            changed.add("watches")
        if update.removed_sync is not None and update.removed_sync in self.syncs:
            del self.syncs[update.removed_sync]
            changed.add("syncs")
        return changed

    def take_log(self, lines: Sequence[schema.LogLine]) -> None:
        """The whole log again; what came over the stream since stays behind it."""
        self.has_log = True
        last = lines[-1].n if lines else 0
        later = [line for line in self.log if line.n > last] if lines else list(self.log)
        self.log.clear()
        self.log.extend([*lines, *later])

    def _note_move(self, name: str, fresh: schema.WatchState, now: float) -> None:
        old = self.watches.get(name)
        if old and old.figure and fresh.figure and old.figure.value != fresh.figure.value:
            self.moved[name] = now

    def _note_latency(self, fresh: schema.RelayState) -> None:
        """Remember a latency that was measured: one that has not changed is no measurement."""
        old = self.relays.get(fresh.url)
        if fresh.latency_ms is not None and (old is None or old.latency_ms != fresh.latency_ms):
            held = self.latencies.setdefault(fresh.url, deque(maxlen=LATENCIES))
            held.append(round(fresh.latency_ms))

    def rate(self, sync: schema.Sync) -> float | None:
        """Events a second that a sync moves with all its relays; None where nothing shows it."""
        paces = [self.paces.get((sync.spec.name, one.relay)) for one in sync.relays]
        rates = [pace.rate for pace in paces if pace is not None and pace.rate is not None]
        return sum(rates) if rates else None

    def _note_pace(self, sync: schema.Sync, now: float) -> None:
        for one in sync.relays:
            key, done = (sync.spec.name, one.relay), one.downloaded + one.uploaded
            pace = self.paces.get(key)
            if pace is None or not sync.running:
                self.paces[key] = Pace(now, done)
            else:
                pace.seen(now, done)
