"""Watches at work: each relay of each watch is asked by itself, and the number is merged on read.

So a relay that is slow, mute or gone delays nobody: its claim is late, the others are counted with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from agent import scheduler, stored, watchbook
from agent.api import schema, views
from agent.pacing import EVERY_S, LivePace
from agent.specs import WatchSpec, shown
from agent.watches import chosen, query_of
from nostr_client.count.remembering import KEEP, asked_of
from nostr_client.display import seconds
from nostr_client.relayurl import normalize
from nostr_client.watch.rows import question_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agent.clock import Clock
    from agent.config.model import RelaysSection
    from agent.journal import Journal
    from agent.specs import WatchSpec
    from nostr_client.count.asking import CountOptions
    from nostr_client.count.procedure import Counter
    from nostr_client.count.queries import Query
    from nostr_client.count.result import CountResult
    from nostr_client.event import Event
    from nostr_client.outbox import Chosen
    from nostr_client.pool import RelayPool
    from nostr_client.relay import Relay
    from nostr_client.store.database import Database

KIND: Final = "watch"
NO_RELAY: Final = "no relay to ask"

MERGE: Final = "merge"

MERGE_LANE: Final = "merging"
MERGE_EVERY_S: Final = 86_400.0
"""A merge is nudged by claims; once a day without any, so that drift of old claims shows."""

MERGE_DELAY_S: Final = 0.3
"""Claims that come together are merged together."""


SKEW_S: Final = 10.0
"""An event may be dated so long before it came to the relay: clocks differ, and ways are long."""


class Watched:
    """One watch at work."""

    def __init__(self, spec: WatchSpec, origin: str, relays: list[str]) -> None:
        self.spec = spec
        self.origin = origin
        self.query: Query = query_of(spec)
        self.key = asked_of(self.query).key
        """Of the claims."""
        self.question = question_key(self.query)
        self.relays = relays
        self.tried: set[str] = set()
        """Relays that were asked for it, whether they answered or not."""
        self.failing: dict[str, str] = {}
        """Relays whose newest answer was none, and what it was."""
        self.answered: dict[str, float] = {}
        """When each relay was last asked with an answer, Unix seconds."""
        self.took: dict[str, float] = {}
        """How long that answer took, in seconds."""
        self.lack = ""
        """Why there is no relay to ask, as far as that is known."""
        self.shown = schema.Watch(spec=shown(spec), origin=_origin(origin), asked=len(relays))

    def lacks(self, why: str) -> None:
        """Say why there is no relay to ask, in the place of what was said before."""
        said = [text for text in self.shown.warnings if text != self.lack]
        self.lack = why
        warnings = (*said, why) if why else tuple(said)
        self.shown = msgspec.structs.replace(self.shown, warnings=warnings)

    @property
    def is_whole(self) -> bool:
        """Whether each relay was asked once; before, a number may lack what one of them has."""
        return self.tried.issuperset(self.relays)


def _lack(urls: list[str], found: Chosen | None) -> str:
    """Why a watch has no relay to ask; empty where it has one."""
    if urls:
        return ""
    return found.lack if found is not None and found.lack else NO_RELAY


def _origin(text: str) -> schema.Origin:
    return "file" if text == "file" else "api"


class Merge(NamedTuple):
    """A watch brought up to date; `liars` relays' claims are left out since they cannot be true.

    `whole`: every relay was asked once; no other number is kept, or compared with lines.
    """

    spec: WatchSpec
    shown: schema.Watch
    liars: int
    whole: bool


class Watching:
    """All watches: their tasks, their numbers, and what is told about them."""

    def __init__(
        self,
        clock: Clock,
        journal: Journal,
        database: Database,
        pool: RelayPool,
        counter: Counter,
        options: CountOptions,
    ) -> None:
        self.watches: dict[str, Watched] = {}
        self.counter = counter
        self.options = options
        self._clock = clock
        self._journal = journal
        self._database = database
        self._pool = pool
        self._pace = LivePace()
        self._strangers: frozenset[str] = frozenset()

    def configure(
        self,
        specs: Mapping[str, tuple[WatchSpec, str]],
        relays: RelaysSection,
        found: Mapping[str, Chosen],
    ) -> list[str]:
        """Take these watches, by name with their origin, in the place of all.

        `found`: relays of those that name none, where a relay list told them. Gives the names of
        those that ask another question than before.
        """
        self._strangers = frozenset(url for one in found.values() for url in one.strangers)
        before = self.watches
        self.watches = {}
        for name, (spec, origin) in specs.items():
            default = found[name].relays if name in found else relays.default
            urls = chosen(spec.relays, default, relays.denied)
            self._pool.spell(spec.relays or relays.default)
            old = before.get(name)
            if old and old.spec == spec and old.relays == urls and old.origin == origin:
                self.watches[name] = old
                old.lacks(_lack(urls, found.get(name)))
                continue
            fresh = Watched(spec, origin, urls)
            if old is not None and old.question == fresh.question:
                fresh.shown = msgspec.structs.replace(
                    old.shown, spec=fresh.shown.spec, asked=len(urls)
                )
                fresh.tried, fresh.answered, fresh.took = old.tried, old.answered, old.took
            fresh.lacks(_lack(urls, found.get(name)))
            self.watches[name] = fresh
        self._pace.keep({(name, url) for name, one in self.watches.items() for url in one.relays})
        return [
            name
            for name, one in self.watches.items()
            if name in before and before[name].question != one.question
        ]

    def tasks(self) -> list[scheduler.Task]:
        """One task for each relay of each watch, and one that merges."""
        found = []
        for name, watch in self.watches.items():
            every = seconds(watch.spec.interval)
            found += [scheduler.Task(f"{KIND} {name} {url}", url, every) for url in watch.relays]
            merge = scheduler.Task(f"{MERGE} {name}", MERGE_LANE, MERGE_EVERY_S, backs_off=False)
            found.append(merge)
        return found

    async def last(self) -> dict[str, float]:
        """When each task was done last, as the store knows it; each watch learns of its answers."""
        known = await self._database.read(stored.last_asked)
        oldest = self._clock.wall() - KEEP
        found: dict[str, float] = {}
        for name, watch in self.watches.items():
            for url in watch.relays:
                last = known.get((watch.key, url))
                if last is not None:
                    found[f"{KIND} {name} {url}"] = last.asked
                    if last.asked > oldest:  # older answers are not counted with
                        watch.tried.add(url)
                    if last.answered is not None:
                        watch.answered.setdefault(url, last.answered)
        return found

    async def ask(self, rest: str) -> bool:
        """Ask one relay for one watch, and keep its claim; whether it answered."""
        name, _, url = rest.partition(" ")
        watch = self.watches.get(name)
        if watch is None:  # removed after its turn had come
            return True
        relay, began = self.relay(url), self._clock.moment()
        result = await self.counter.count(
            watch.query, [(url, relay)], self.options, beside=self._beside(watch, url)
        )
        claim = result.relays[0]
        watch.tried.add(url)
        if claim.answered:
            watch.failing.pop(url, None)
            watch.answered[url] = began.wall
            watch.took[url] = self._clock.moment().mono - began.mono
        else:
            watch.failing[url] = str(claim.status)
            why = claim.warnings[-1] if claim.warnings else None
            self._journal.warning(
                "no_answer", relay=url, watch=name, status=str(claim.status), why=why
            )
        return claim.answered

    def _beside(self, watch: Watched, url: str) -> list[Relay]:
        """The other relays that count for a watch."""
        left_out = set(map(normalize, watch.spec.excluded))
        return [self.relay(one) for one in watch.relays if one != url and one not in left_out]

    def relay(self, url: str) -> Relay:
        """A relay; one that only strangers name connects to public addresses alone."""
        return self._pool.relay(url, stranger=url in self._strangers)

    async def explain(self, name: str) -> CountResult:
        """The number of a watch from the claims of its relays, as they stand."""
        watch = self.watches[name]
        spec = watch.spec
        return await self.counter.explain(
            watch.query,
            {url: url for url in watch.relays},
            trusted=[*self.counter.trusted, *spec.trusted] if spec.trusted else None,
            left_out=frozenset(map(normalize, spec.excluded)),
        )

    async def merge(self, name: str) -> Merge | None:
        """Bring the number of a watch up to date; keep one that is whole. None if it is gone."""
        watch = self.watches.get(name)
        if watch is None:  # removed after its turn had come
            return None
        whole = watch.is_whole  # before reading: what comes meanwhile may be left out
        result = await self.explain(name)
        now = self._clock.wall()
        merged = views.figure(result.merged.figure)
        moved = watchbook.Moved({}, ())
        if merged is not None:
            if whole:
                await self._keep(watch, merged, str(result.unit), now)
            value = merged.value
            moved = await self._database.read(lambda c: watchbook.moved(c, name, value, now))
        now_asked = self.watches.get(name)
        if now_asked is None or now_asked.question != watch.question:  # another question since
            return None
        watch = now_asked
        watch.shown = msgspec.structs.replace(
            watch.shown,
            unit=str(result.unit),
            figure=merged,
            updated_at=now,
            answered=result.answered,
            warnings=(*([watch.lack] if watch.lack else []), *_warnings(result)),
            changes=moved.changes,
            spark=moved.spark,
            failing=tuple(sorted(watch.failing)),
        )
        return Merge(watch.spec, watch.shown, len(result.merged.excluded), whole)

    async def _keep(self, watch: Watched, figure: schema.Figure, unit: str, now: float) -> None:
        """Put a number into the history of its watch."""
        point = schema.Point(
            at=now, value=figure.value, low=figure.low, high=figure.high, exact=figure.exact
        )
        name, query, whom = watch.spec.name, watch.query, watch.relays
        await self._database.write(lambda c: watchbook.add_point(c, name, point, unit, query, whom))

    def matching(self, url: str, event: Event) -> Iterable[str]:
        """The watches of a relay that an event belongs to."""
        for name, watch in self.watches.items():
            if watch.spec.live and url in watch.relays and _matches(watch.query, event):
                yield name

    def missed_since(self, url: str) -> int:
        """From when on a relay may hold events that no answer of it has in it yet; Unix seconds."""
        now = self._clock.wall()
        lives = [one for one in self.watches.values() if one.spec.live and url in one.relays]
        oldest = min((one.answered.get(url, now) for one in lives), default=now)
        return max(0, int(min(oldest, now) - SKEW_S))

    def has_in_it(self, name: str, url: str, event: Event) -> bool:
        """Whether a relay's answer to a watch is surely newer than an event that it has stored."""
        return event.created_at < self.watches[name].answered.get(url, 0.0) - SKEW_S

    def live_delay(self, name: str, url: str) -> float:
        """After how long a live event may have a relay asked again for a watch."""
        took = self.watches[name].took.get(url, EVERY_S)
        return self._pace.delay(name, url, self._clock.moment().mono, took)


def _matches(query: Query, event: Event) -> bool:
    return any(one.matches(event) for one in query.filters)


def _warnings(result: CountResult) -> tuple[str, ...]:
    """What every relay of a watch has to say, each once, the first twenty."""
    found = [f"{c.relay}: {text}" for c in result.relays for text in c.warnings]
    return tuple(dict.fromkeys(found))[:20]
