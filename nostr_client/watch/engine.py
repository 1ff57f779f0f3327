"""Keep watches fresh: one task for each relay of each watch, and one merge of their answers.

A slow, mute or missing relay delays nobody: its claim is late, and the others are counted. An
answer changes only the claim of its relay. Once a tick, the number is merged from the claims of all
relays, and both go into the store.

`NostrClient.watch` is this engine with one watch, `nostr-client watch run` with those of a store,
and the agent with many. Start reading at `Engine.refresh`, then `_ask` and `_merge`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client.codecs.relay_url import normalize
from nostr_client.count.claiming import merged_elsewhere, not_asked
from nostr_client.count.claims import is_answer
from nostr_client.count.claims.rows import ROUND_S
from nostr_client.count.queries import target_of
from nostr_client.count.reading.unfollowed import is_compared
from nostr_client.count.remembering import KEEP, asked_of
from nostr_client.count.within import NO_LISTS, count_within, stored_web
from nostr_client.errors import InvalidInput
from nostr_client.network.waiting import task_group
from nostr_client.watch import repository
from nostr_client.watch.departures import find_departures
from nostr_client.watch.live import LiveListeners, LivePace
from nostr_client.watch.points import point_of
from nostr_client.watch.recording import Recorder
from nostr_client.watch.scheduler import Task
from nostr_client.watch.state import DENIED, NO_RELAY, Merge, Watched, WatchSet

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.web_of_trust import Root, Web
    from nostr_client.count.asking import CountOptions
    from nostr_client.count.beside import FirstRound
    from nostr_client.count.claims import ClaimBook
    from nostr_client.count.figures import Within
    from nostr_client.count.merge import Claim
    from nostr_client.count.procedure import CountEngine
    from nostr_client.count.result import CountResult
    from nostr_client.network.ingest import Ingest
    from nostr_client.network.outbox import ChosenRelays
    from nostr_client.network.pool import RelayPool
    from nostr_client.network.relay import Relay
    from nostr_client.store.file.database import Database
    from nostr_client.watch.definition import Watch
    from nostr_client.watch.worker import Worker, WorkerLog

NAMES: Final = "names"
"""Kind of the tasks that look for the names of a watch's people, if any do (`naming`)."""

ASK: Final = "watch"
"""Kind of the tasks that ask one relay for one watch: `watch NAME URL`."""

MERGE: Final = "merge"
MERGE_LANE: Final = "merging"
MERGE_EVERY_S: Final = 86_400.0
"""Claims trigger a merge. Without claims it only shows again what is known."""

MERGE_DELAY_S: Final = 0.3
"""While other relays of a watch are being asked, a merge waits this long for their claims."""

FIND: Final = "find"
FIND_LANE: Final = "finding"
FIND_EVERY_S: Final = 6 * 3600.0
"""People change their relay lists a few times a year."""

FIND_LOST_S: Final = 600.0
"""The same while a watch has no relay to ask."""


NEAR: Final = "near"
NEAR_LANE: Final = "near"
NEAR_EVERY_S: Final = 3600.0
"""People within a web of trust are counted no more often: relays are asked 200 of them in a REQ."""


class Engine:
    """Keeps watches fresh over the relays of one pool.

    `merged` receives every merge; `refreshed` is called with the names of watches whose question
    changed. `history`: where complete numbers are stored for the watches of its table. `resumes`:
    turns continue where an earlier run stopped; otherwise each watch is asked at once. `spell`
    returns the names under which results list relays. The claims are those of the counter's book.
    Live events that are stored go through `ingest`, which the caller runs.
    """

    def __init__(
        self,
        worker: Worker,
        log: WorkerLog,
        pool: RelayPool,
        counter: CountEngine,
        options: CountOptions,
        merged: Callable[[Merge], Awaitable[None]],
        *,
        refreshed: Callable[[list[str]], None] = lambda _: None,
        history: Database | None = None,
        ingest: Ingest | None = None,
        resumes: bool = True,
        spell: Callable[[str], str] = str,
    ) -> None:
        self.worker = worker
        self.counter = counter
        self.options = options
        self.watches: Mapping[str, Watched] = {}
        self.wanted = WatchSet({})
        self.found: Mapping[str, ChosenRelays] = {}
        """Relays of watches that name none, from a relay list."""
        self.live = LiveListeners(worker.clock, log, self, ingest)
        self.clock = worker.clock
        self._log = log
        self._pool = pool
        self._merged = merged
        self._refreshed = refreshed
        self._claims = Recorder(self._book.database)
        self._numbers = history
        self._history = None if history is None else Recorder(history)
        self._resumes = resumes
        self._spell = spell
        self._pace = LivePace()
        self._strangers: frozenset[str] = frozenset()
        self._looked_at: float | None = None
        worker.runners |= {ASK: self._ask, MERGE: self._merge, FIND: self._find, NEAR: self._near}
        worker.sources.append(self)

    @property
    def _book(self) -> ClaimBook:
        assert self.counter.book is not None
        return self.counter.book

    async def run(self) -> None:
        """Listen to relays and run what is due, until cancelled."""
        async with task_group() as group:
            group.create_task(self.worker.run())
            group.create_task(self.live.run())

    async def refresh(self) -> None:
        """Update tasks and listeners to `wanted` and `found`."""
        if self.wanted.finder is None:
            self.found = {}
        before = self.watches
        self._strangers = frozenset(url for one in self.found.values() for url in one.strangers)
        self.watches = {
            name: self._watched(watch, before.get(name))
            for name, watch in self.wanted.watches.items()
        }
        self._pace.keep({(name, url) for name, one in self.watches.items() for url in one.relays})
        others = [
            name
            for name, one in self.watches.items()
            if name in before and before[name].question != one.question
        ]
        self._refreshed(others)
        await self.worker.refresh()
        for name in others:  # their turns belong to the previous questions
            self.ask_now(name)
        self.live.refresh()

    def _watched(self, watch: Watch, before: Watched | None) -> Watched:
        chosen = self.found.get(watch.name)
        urls = watch.relays or (chosen.relays if chosen else self.wanted.default)
        self._pool.spell(urls)
        own = frozenset(map(normalize, self.wanted.merged_here))
        out = frozenset(map(normalize, self.wanted.denied)) - own
        relays = {url: self._spell(url) for url in map(normalize, urls) if url not in own | out}
        launders, denied = (
            {url: self._spell(url) for url in map(normalize, watch.relays) if url in never}
            for never in (own, out)
        )
        lack = "" if relays else (chosen.lack if chosen and chosen.lack else NO_RELAY)
        if before and before.watch == watch and before.relays == relays:
            before.lack, before.launders, before.denied = lack, launders, denied
            return before
        query = self.wanted.questions.get(watch.name) or watch.question
        fresh = Watched(watch, query, relays, lack)
        fresh.launders, fresh.denied = launders, denied
        if before is not None and before.question == fresh.question:
            fresh.go_on_from(before)
        return fresh

    def ask_now(self, name: str) -> None:
        """Ask every relay of a watch again soon."""
        for url in self.watches[name].relays:
            self.worker.nudge(f"{ASK} {name} {url}")

    async def asked(self, name: str) -> None:
        """Ask every relay of a watch again; wait until each was asked and the number is merged."""
        self.ask_now(name)
        keys = [f"{ASK} {name} {url}" for url in self.watches[name].relays]
        await self.worker.settled({*keys, f"{MERGE} {name}"})

    # Tasks.

    def tasks(self) -> list[Task]:
        """Return one task for each relay of each watch, one that merges it, and one that finds
        relays."""
        found = []
        for name, one in self.watches.items():
            every = one.watch.every
            found += [Task(f"{ASK} {name} {url}", url, every) for url in one.relays]
            found.append(Task(f"{MERGE} {name}", MERGE_LANE, MERGE_EVERY_S, backs_off=False))
            if one.watch.within:
                found.append(Task(f"{NEAR} {name}", NEAR_LANE, max(every, NEAR_EVERY_S)))
        if self.wanted.finder is not None:
            every = FIND_LOST_S if any(one.lack for one in self.watches.values()) else FIND_EVERY_S
            found.append(Task(f"{FIND} relays", FIND_LANE, every, backs_off=False))
        return found

    async def last(self) -> dict[str, float]:
        """Return when each task was last done, from the store; each watch learns of its answers."""
        found = {} if self._looked_at is None else {f"{FIND} relays": self._looked_at}
        if not self._resumes:
            return found
        known = await self._book.last_asked()
        oldest = self.clock.wall() - KEEP
        for name, one in self.watches.items():
            for url in one.relays:
                last = known.get((one.key, url))
                if last is None:
                    continue
                found[f"{ASK} {name} {url}"] = last.asked
                if last.asked > oldest:  # older answers are not counted
                    one.tried.add(url)
                if last.answered is not None:
                    one.answered.setdefault(url, last.answered)
            if one.was_asked:
                one.first = None
        await self._date_numbers()
        return found

    async def _date_numbers(self) -> None:
        """Set the time of each watch's number from the store."""
        if self._numbers is None:
            return
        times = await self._numbers.read(repository.asked_times)
        for name, one in self.watches.items():
            if one.merged_at is None and name in times:
                one.merged_at = float(times[name])

    async def _ask(self, rest: str) -> bool:
        """Ask one relay for one watch, and store its claim; return whether it answered."""
        name, _, url = rest.partition(" ")
        one = self.watches.get(name)
        if one is None or url not in one.relays:  # removed after its turn came
            return True
        one.asking += 1
        try:
            claim = await self._claim(one, url)
            if one.first is not None and one.was_asked:
                await self._complete(one, one.first)
                await self._look_for_departures(one, one.claims)
            elif one.first is None:
                await self._look_for_departures(one, {url: claim})
        finally:
            one.asking -= 1
        self.worker.nudge(f"{MERGE} {name}", MERGE_DELAY_S if one.asking else 0.0)
        return claim.answered

    async def _complete(self, one: Watched, first: FirstRound) -> None:
        """Judge the answers of the first round beside each other, as one count does."""
        one.first, one.completing, claims = None, True, dict(one.claims)
        try:
            relays = {url: self.relay(url) for url in claims}
            others = self._beside(one, claims)
            done = await self.counter.completed(
                one.query, claims, relays, first, self.options, beside=others
            )
            for url, claim in done.items():
                if one.claims.get(url) is claims[url]:
                    one.claims[url] = claim
                    one.unsaved.append((url, claim))
            await self._save(one)
        finally:
            one.completing, one.has_news = False, True

    def _beside(self, one: Watched, but: Collection[str]) -> list[Relay]:
        """Return the other relays of a watch, if answers are judged beside theirs."""
        if not one.needs_others:
            return []
        return [
            self.relay(url)
            for url in one.relays
            if url not in but and url not in one.watch.left_out
        ]

    async def _claim(self, one: Watched, url: str) -> Claim:
        began = self.clock.moment()
        asked = [(one.relays[url], self.relay(url))]
        claims = await self.counter.claims(
            one.query, asked, self.options, beside=self._beside(one, (url,)), first=one.first
        )
        one.unsaved += claims
        if one.needs_others or self.worker.is_stopping:
            await self._save(one)
        ((_, claim),) = claims
        one.tried.add(url)
        one.has_news = True
        one.claims.pop(url, None)
        if is_answer(claim):
            one.claims[url] = claim
        one.people.answered(url, claim)
        if claim.answered:
            one.failing.pop(url, None)
            one.answered[url] = began.wall
            one.took[url] = self.clock.moment().mono - began.mono
        else:
            one.failing[url] = str(claim.status)
            self._no_answer(one, url, claim)
        return claim

    async def _look_for_departures(self, one: Watched, claims: Mapping[str, Claim]) -> None:
        """Ask for the newest lists of those whom relays give no longer, if lists are counted."""
        if not is_compared(one.query) or self.worker.is_stopping:
            return
        asked, people, believed = asked_of(one.query), one.people, one.believed
        lost = [
            claim
            for url, claim in claims.items()
            if url in believed and people.has_lost(url, claim, self._book.gone(asked, url))
        ]
        if lost:
            relays = {url: self.relay(url) for url in believed if url not in one.failing}
            now = self.clock.moment()
            await find_departures(
                one.query, self._book, relays, self.options, people, lost, believed, now
            )

    def received(self, one: Watched, url: str, event: Event) -> None:
        """Note who a live event is by; it is stored with the next claims."""
        if url in one.counted:
            one.people.receive(one.query, url, event, self.clock.wall(), one.counted)

    def _saving(self, one: Watched) -> Callable[[sqlite3.Connection], None]:
        """Return the writes of claims, and of events received live, that are not stored yet."""
        claims, one.unsaved = one.unsaved, []
        received, one.people.received = one.people.received, []
        return self._book.keeping(asked_of(one.query), claims, received)

    async def store_now(self, name: str) -> None:
        """Store what came for a watch and waits for its next merge. Raises StoreError."""
        await self._save(self.watches[name])

    async def _save(self, one: Watched) -> None:
        if one.unsaved or one.people.received:
            await self._claims.write(self._saving(one))

    def _no_answer(self, one: Watched, url: str, claim: Claim) -> None:
        why = claim.warnings[-1] if claim.warnings else None
        status = str(claim.status)
        self._log.warning("no_answer", relay=url, watch=one.watch.name, status=status, why=why)

    def relay(self, url: str) -> Relay:
        """Return a relay; one that only strangers name connects only to public addresses."""
        return self._pool.relay(url, stranger=url in self._strangers)

    async def explain(self, name: str, instead: Watch | None = None) -> CountResult:
        """Return the number of a watch from the claims of its relays. Raises StoreError.

        `instead`: with the excluded and trusted relays of this watch of the same question.

        It is the number of the newest merge, so all who ask get the same. Answers of its round
        count as they came. Of older ones it includes what may have changed until then.
        """
        one = self.watches[name]
        at = self.clock.wall() if one.merged_at is None else one.merged_at
        watch, since = instead or one.watch, at - ROUND_S
        fresh = {url: claim for url, claim in one.claims.items() if (claim.asked_at or 0) >= since}
        if one.relays.keys() - fresh.keys():
            await self._save(one)
        result = await self.counter.explain(
            one.query,
            one.relays,
            policy=watch.trust,
            trusted=[*self.counter.trusted, *watch.trusted] if watch.trusted else None,
            left_out=watch.left_out,
            fresh=fresh,
            at=at,
        )
        if one.launders or one.denied:
            now = self.clock.wall()
            never = [merged_elsewhere(url, now) for url in one.launders.values()]
            never += [not_asked(url, DENIED) for url in one.denied.values()]
            result = msgspec.structs.replace(result, relays=(*result.relays, *never))
        if one.within is None or instead is not None:  # that figure is of the watch's own relays
            return result
        return msgspec.structs.replace(result, within=one.within)

    async def _merge(self, name: str) -> bool:
        """Update the number of a watch; store a complete one."""
        one = self.watches.get(name)
        if one is None:  # removed after its turn came
            return True
        # before the read: a claim that comes meanwhile may be left out
        is_whole, is_news, one.has_news = one.is_whole, one.has_news, False
        is_near, one.is_near = one.is_near, False
        if is_news or one.merged_at is None:
            one.merged_at = float(int(self.clock.wall()))  # as the history has it
        result, now = await self.explain(name), one.merged_at
        one.disbelieved = frozenset(map(normalize, result.merged.excluded))
        if is_whole and not one.asking:
            one.claims.clear()
        if is_whole and is_news and self._history is not None:
            await self._record(self._history, one, result, now)
        elif is_near and one.within is not None and self._history is not None:
            await self._record_within(self._history, one, one.within)
        await self._save(one)
        current = self.watches.get(name)
        if current is not None and current.question == one.question:
            await self._merged(Merge(current, result, now, is_whole, is_news, is_near))
        if is_whole and is_news:
            self.worker.nudge(f"{NAMES} {name}")
            if one.watch.within and one.within is None:
                self.worker.nudge(f"{NEAR} {name}")
        return True

    async def _near(self, name: str) -> bool:
        """Count the authors of a watch who are within its web of trust; the claims come first."""
        one = self.watches.get(name)
        root = None if one is None else one.watch.root
        if one is None or root is None or not one.is_whole:
            return True
        try:
            web = await self._web(root)
        except InvalidInput as error:
            one.within, one.no_web = None, str(error)
            self._log.warning("no_web", watch=name, why=one.no_web)
            return False
        relays = [(one.relays[url], self.relay(url)) for url in one.relays]
        result = await self.explain(name)
        one.within = await count_within(
            self.counter,
            result,
            relays,
            web,
            self.options,
            is_named=self._pool.is_named,
            now=self.clock.wall,
        )
        one.no_web, one.is_near = "", True
        self.worker.nudge(f"{MERGE} {name}")
        return True

    async def _web(self, root: Root) -> Web:
        if self.options.stored is None or not self.options.read:
            raise InvalidInput(NO_LISTS)
        return await stored_web(self.options.stored, root)

    async def _record(
        self, history: Recorder, one: Watched, result: CountResult, now: float
    ) -> None:
        name, at, relays = one.watch.name, int(now), list(one.relays.values())
        point, save = point_of(at, result), self._saving(one)

        def work(conn: sqlite3.Connection) -> None:
            save(conn)
            repository.asked(conn, name, at, point, query=one.query, relays=relays)

        await history.write(work)

    async def _record_within(self, history: Recorder, one: Watched, found: Within) -> None:
        """Add the figure to the newest number: it was counted after that one."""
        name, query = one.watch.name, one.query
        await history.write(lambda conn: repository.counted_within(conn, name, found, query=query))

    # Relays of watches that name none.

    async def look(self) -> bool:
        """Find the relays of watches that name none; return whether they changed."""
        finder = self.wanted.finder
        if finder is None:
            return False
        lost = {name: one for name, one in self.wanted.watches.items() if not one.relays}
        targets = {name: target_of(one.question) for name, one in lost.items()}
        current = {name: one.relays for name, one in self.found.items()}
        found = await finder.relays_for_many(targets, current=current) if targets else {}
        changed, self.found = found != self.found, found
        self._looked_at = self.clock.wall()
        return changed

    async def _find(self, _: str) -> bool:
        if await self.look():
            await self.refresh()
            for name, one in self.watches.items():
                if one.lack:  # its number stays, its details do not
                    self.worker.nudge(f"{MERGE} {name}")
        return True

    # What live events ask.

    def matching(self, url: str, event: Any) -> list[Watched]:
        """Return the live watches of a relay that an event belongs to."""
        return [
            one
            for one in self.watches.values()
            if one.watch.live
            and url in one.relays
            and any(filter.matches(event) for filter in one.query.filters)
        ]

    def missed_since(self, url: str, skew: float) -> int:
        """Return the time from which a relay may have events that are in none of its answers; Unix
        seconds."""
        now = self.clock.wall()
        lives = [one for one in self.watches.values() if one.watch.live and url in one.relays]
        oldest = min((one.answered.get(url, now) for one in lives), default=now)
        return max(0, int(min(oldest, now) - skew))

    def ask_soon(self, one: Watched, url: str) -> None:
        """Ask a relay for a watch, as soon as its pace allows."""
        name = one.watch.name
        delay = self._pace.delay(name, url, self.clock.moment().mono, one.took.get(url))
        self.worker.nudge(f"{ASK} {name} {url}", delay)
