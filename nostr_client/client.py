"""`NostrClient`: count, read, sync and publish over many relays with one object."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from nostr_client.codecs.display import duration
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.kinds import METADATA
from nostr_client.codecs.relay_url import normalize
from nostr_client.count.asking import CountOptions
from nostr_client.count.claims import CLAIMS, ClaimBook, StoredExperience
from nostr_client.count.merge import TrustPolicy
from nostr_client.count.procedure import CountEngine
from nostr_client.count.queries import Query, target_of
from nostr_client.count.queries import query as make_query
from nostr_client.count.wallets.rows import WALLETS
from nostr_client.errors import InvalidInput, NoRelays, NostrTallyError
from nostr_client.network.ingest import Ingest
from nostr_client.network.outbox import PoolFetch, RelayFinder
from nostr_client.network.pool import FetchResult, PublishResult, RelayPool
from nostr_client.options import Options, ReadBudget
from nostr_client.sync.options import Direction, Mode, SyncOptions
from nostr_client.sync.sent import REPAIRS
from nostr_client.watch.clock import SystemClock
from nostr_client.watch.definition import Watch
from nostr_client.watch.engine import Engine
from nostr_client.watch.repository import WATCHES
from nostr_client.watch.scheduler import LaneLimits
from nostr_client.watch.state import WatchSet
from nostr_client.watch.watching import Watching
from nostr_client.watch.worker import LibraryLog, Worker

if TYPE_CHECKING:
    from types import TracebackType

    from nostr_client.assertions.reading import Asserted
    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import KeySigner, Signer, VerifiedEvent
    from nostr_client.codecs.nip11 import RelayInfo
    from nostr_client.codecs.web_of_trust import Root, Web
    from nostr_client.count.result import CountResult
    from nostr_client.count.wallets.asking import Wallets
    from nostr_client.network.outbox import RelayChoice
    from nostr_client.network.relay import Relay
    from nostr_client.network.subscription import Subscription
    from nostr_client.store.base import EventStore
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.sync.coverage import Coverage, Look
    from nostr_client.sync.coverage.plan import CoveragePlan
    from nostr_client.sync.coverage.relays import CoverageRelays
    from nostr_client.sync.coverage.repair import RepairReport
    from nostr_client.sync.memory import SyncMemory
    from nostr_client.sync.procedure import OnProgress, Question
    from nostr_client.sync.report import SyncReport
    from nostr_client.sync.sent import RepairAttempts
    from nostr_client.watch.repository import WatchRepository
    from nostr_client.watch.state import Merge

RelayNames = str | Iterable[str]

AT_ONCE = 8
"""Questions of watches to one relay at once; its budget limits their rate."""

TOTAL = 256
"""The same over all relays."""

NAMES_S = 3.0
"""Seconds for the profiles of people: names are a help, and nothing waits long for them."""

WATCHED = "watched"
"""Name of a watch that is only a question."""


class NostrClient:
    """Counts, watches, syncs, reads and publishes over many relays.

    Use it as an async context manager, or `close()` it. `relays` are asked if a call names none.
    `signer` answers AUTH when a request needs it. `timeout` is the time in seconds for all relays
    of one question. `read`: whether relays without registers are read by events, within `budget`
    each. `trust` says what happens to claims that cannot be true; `trusted` relays are always
    believed. `store`: a path for claims, so that later counts read only what is new, and for
    events, for `sync`; or an open ClaimBook or EventStore for one of the two, which the caller
    closes. `keep_events`: events that a count reads go into the store too. `choice` says where to
    ask queries without a named relay: on the read relays of the target's author (NIP-65). `now`
    gives Unix seconds.
    """

    def __init__(
        self,
        relays: RelayNames = (),
        *,
        signer: Signer | None = None,
        options: Options | None = None,
        timeout: float | None = None,
        read: bool = True,
        budget: ReadBudget | None = None,
        trust: TrustPolicy = TrustPolicy.EXCLUDE,
        trusted: Collection[str] = (),
        store: EventStore | ClaimBook | str | Path | None = None,
        keep_events: bool = False,
        choice: RelayChoice | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._options = _with_timeout(options or Options(), timeout)
        self._relays = _named(relays)
        if keep_events and (store is None or isinstance(store, ClaimBook)):
            raise InvalidInput("to keep events, give a store of events: a path, or an EventStore")
        self._events = None if isinstance(store, (str, Path, ClaimBook)) else store
        self._counting = CountOptions(
            timeouts=self._options.timeouts,
            budget=budget or ReadBudget(),
            read=read,
            keep=self._keep if keep_events else None,
            stored=self._events,
        )
        self._counter = CountEngine(policy=trust, trusted=_named(trusted).keys(), now=now)
        self._counter.book = store if isinstance(store, ClaimBook) else None
        self._path = store if isinstance(store, (str, Path)) else None
        self._owned: SqliteStore | None = None
        self._owned_book: ClaimBook | None = None
        self._memory: SyncMemory | None = None
        self._sent: RepairAttempts | None = None
        self._signer = signer
        self._now = now
        self._opening = asyncio.Lock()
        self._closed = False
        self.pool = RelayPool(options=self._options, signer=signer, now=now)
        """The relays, for whatever this facade does not offer."""
        self.pool.spell(self._relays.values())
        self._indexers = choice.indexers if choice is not None else ()
        self._finder: RelayFinder | None = None
        if choice is not None:
            choice = dataclasses.replace(choice, connection=self._options.connection)
            fetch = PoolFetch(self.pool, choice, self._options.timeouts.group)
            self._finder = RelayFinder(fetch, choice, now=now)
            if isinstance(store, ClaimBook):
                self._learn_from(store)
        self._choice = choice
        self._wallets: Wallets | None = None
        self._watching: set[Watching] = set()

    async def count(
        self,
        query: Query | Filter | Sequence[Filter],
        *,
        relays: RelayNames | None = None,
        timeout: float | None = None,
        read: bool | None = None,
        verify_zaps: bool = False,
        enough: float | None = None,
        within: str | Root | None = None,
    ) -> CountResult:
        """Count over relays (NIP-45): return one number, and a claim for each relay.

        Returns at the deadline at the latest (`timeout`, in seconds); a relay's failure is a status
        in the result, never an exception. `verify_zaps`, only for zaps, asks the recipients'
        wallets for the keys that sign their receipts, in as much time again: their hosts learn who
        counts. `CountResult.verified` has the result; the answers are stored for a day, if the
        store is a path. `enough`, such as 0.1, asks relays in the order of their expected
        contribution, by earlier answers, until the rest add less than that share of all people; it
        needs a store. `within`, as `me`, `npub1...` or `npub1...:2`, also counts the authors whom
        that key follows, or with `:2` also those whom they follow, by the lists in the store; `me`
        is the signer's key. `CountResult.within` has the result. Relays whose events were not read
        are asked for those people's events, in as much time again. Raises InvalidInput without a
        relay, for a bad query, and if the store lacks the follow list, NoRelays if no relay of the
        target's author was found, StoreError and its kinds if claims are stored. Safe to cancel.
        """
        asked = query if isinstance(query, Query) else make_query(query)
        await self._open_store()
        options = self._counting
        if timeout is not None or read is not None:
            options = dataclasses.replace(
                options,
                timeouts=_with_timeout(self._options, timeout).timeouts,
                read=options.read if read is None else read,
            )
        if verify_zaps and not (asked.is_zaps and options.read):
            raise InvalidInput("only zaps are verified, by reading their receipts")
        if within is not None and not options.read:
            from nostr_client.count.within import NO_LISTS

            raise InvalidInput(NO_LISTS)
        web = None if within is None else await self._web(within)
        chosen = await self._relays_for(asked, relays)
        if enough is not None:
            from nostr_client.count.asking_few import count_enough

            result = await count_enough(self._counter, asked, chosen, options, enough)
        else:
            result = await self._counter.count(asked, chosen, options)
        if verify_zaps and enough is None:
            result = await self._verified(result, [relay for _, relay in chosen], options)
        if web is None:
            return result
        from nostr_client.count.within import count_within

        found = await count_within(
            self._counter,
            result,
            chosen,
            web,
            options,
            is_named=self.pool.is_named,
            now=self._now,
        )
        return msgspec.structs.replace(result, within=found)

    async def _web(self, within: str | Root) -> Web:
        from nostr_client.codecs.web_of_trust import read_root
        from nostr_client.count.within import NO_LISTS, stored_web

        me = None if self._signer is None else self._signer.pubkey
        root = read_root(within, me) if isinstance(within, str) else within
        if self._events is None:
            raise InvalidInput(NO_LISTS)
        return await stored_web(self._events, root)

    async def _verified(
        self, result: CountResult, relays: Sequence[Relay], options: CountOptions
    ) -> CountResult:
        from nostr_client.count.result import recipients_of, verified_zaps

        people, seconds = recipients_of(result.merged), options.timeouts.group
        asked = {relay.url: relay for relay in (*relays, *map(self.pool.relay, self._indexers))}
        whom = list(asked.values())
        wallets = await self._wallet_keys().look_up(people, whom, seconds) if people else ()
        found = verified_zaps(result.merged, wallets)
        return msgspec.structs.replace(result, verified=found)

    def _wallet_keys(self) -> Wallets:
        from nostr_client.count.wallets.asking import Wallets

        if self._wallets is None:
            local = self._options.connection.local_wallets
            self._wallets = Wallets(
                self.pool.transport(stranger=not local),
                now=self._now,
                database=None if self._owned is None else self._owned.database,
                local=local,
            )
        return self._wallets

    def watch(
        self,
        query: Query | Filter | Sequence[Filter] | Watch,
        *,
        relays: RelayNames | None = None,
        interval: float | None = None,
        live: bool | None = None,
    ) -> Watching:
        """Return an async iterator of results, the first one once every relay was asked.

        A `Watch` has the question, the relays, the interval, and the policy for relays that lie;
        `relays`, `interval` (in seconds) and `live` override its own. Each relay is asked by
        itself; with `live`, new events make the watch ask it again soon. Claims are stored, or stay
        in memory for as long as this lasts. End it with its `close()`, as an async context manager,
        or by closing the client. Iterating raises as `count` does. Raises InvalidInput for a bad
        query or an interval below `watch.SHORTEST`.
        """
        changes = {
            "relays": None if relays is None else tuple(_named(relays).values()),
            "interval": None if interval is None else duration(interval),
            "live": live,
        }
        asked: Query | None = None
        if isinstance(query, Watch):
            made = query
        else:
            asked = query if isinstance(query, Query) else make_query(query)
            made = Watch(name=WATCHED, filters=tuple(one.to_dict() for one in asked.filters))
        made = msgspec.structs.replace(
            made, **{key: value for key, value in changes.items() if value is not None}
        )
        made.check()
        if made.within and (self._events is None and self._path is None):
            from nostr_client.count.within import NO_LISTS

            raise InvalidInput(NO_LISTS)
        questions = {} if asked is None else {made.name: asked}
        watching = Watching(
            made, lambda merged: self.engine(merged, self.wanted([made], questions))
        )
        self._watching = {watching, *(one for one in self._watching if not one.over)}
        return watching

    @asynccontextmanager
    async def engine(
        self,
        merged: Callable[[Merge], Awaitable[None]],
        wanted: WatchSet,
        *,
        book: WatchRepository | None = None,
    ) -> AsyncIterator[Engine]:
        """Open the engine that keeps watches fresh over this client's connections.

        Call its `refresh` and `run`; `merged` receives each number. With a `book`, claims and
        history are stored there, and turns continue where an earlier run stopped. See `wanted` for
        the relays.
        """
        await self._open_store()
        if book is not None:
            counter = self._counter.with_book(book.claims)
            self._learn_from(book.claims)
        else:
            counter = self._counter
            if counter.book is None:
                counter.book = self._owned_book = await ClaimBook.open(":memory:")
        worker = Worker(
            SystemClock(self._now),
            LibraryLog(),
            LaneLimits(per_lane=AT_ONCE, total=TOTAL, catch_up=0.0),
            fatal=(NostrTallyError,),
        )
        async with AsyncExitStack() as stack:
            ingest = None
            if self._events is not None:
                making = Ingest(self._events, verifier=self.pool.verifier)
                ingest = await stack.enter_async_context(making)
            engine = Engine(
                worker,
                LibraryLog(),
                self.pool,
                counter,
                self._counting,
                merged,
                history=None if book is None else book.database,
                ingest=ingest,
                resumes=book is not None,
                spell=self.pool.spelling,
            )
            engine.wanted = wanted
            yield engine

    def wanted(self, watches: Iterable[Watch], questions: Mapping[str, Query] = {}) -> WatchSet:
        """Return what an engine of this client keeps fresh.

        Watches without relays are asked on this client's own, or on those of their targets' authors
        (NIP-65). A client that stores events also stores those that arrive live. `questions`: by
        name, those that are not the watch's own.
        """
        keeps = {} if self._counting.keep is None else {"keep": True}
        return WatchSet(
            watches={one.name: msgspec.structs.replace(one, **keeps) for one in watches},
            questions=questions,
            default=tuple(self._relays.values()),
            finder=None if self._relays else self._finder,
        )

    async def _relays_for(self, query: Query, relays: RelayNames | None) -> list[tuple[str, Relay]]:
        """Return the relays to ask: those named, the client's own, or the target author's."""
        await self._open_store()
        if relays is not None or self._relays or self._finder is None:
            return self._chosen(relays)
        chosen = await self._finder.relays_for(target_of(query))
        if not chosen.relays:
            raise NoRelays(chosen.lack)
        return [
            (url, self.pool.relay(url, stranger=url in chosen.strangers)) for url in chosen.relays
        ]

    async def assertions(
        self,
        query: Query,
        providers: Sequence[str] = (),
        *,
        trusted_by: str | KeySigner | None = None,
        relays: RelayNames | None = None,
    ) -> list[Asserted]:
        """Return what providers (NIP-85) assert about the target of a canonical query, in order.

        An assertion is a number that somebody else counted: `count` never uses it. `providers` are
        npubs or hex pubkeys; without any, those that the user `trusted_by` declares (kind 10040),
        which the relays then see asked for: none, if there is no declaration. The part that is
        encrypted to the user is read with a KeySigner, and not with a pubkey. Takes twice the
        group's deadline at most. Raises InvalidInput for a query that no card answers, without
        either, and for an encrypted part that cannot be read; MissingExtra, NoRelays, StoreError.
        Safe to cancel.
        """
        from nostr_client.assertions import reading
        from nostr_client.codecs import nip19

        if not providers and trusted_by is None:
            raise InvalidInput("no provider: name one, or who declares some (kind 10040)")
        subject = reading.subject_of_query(query)
        whom = tuple(map(nip19.decode_pubkey, providers))
        urls = [relay.url for _, relay in await self._relays_for(query, relays)]
        if not whom and trusted_by is not None:
            whom, places = await reading.read_declared(self.pool, urls, trusted_by, subject)
            for url in places:  # the declaration names these, not the user
                self.pool.relay(url, stranger=True)
            urls = list(dict.fromkeys([*urls, *map(normalize, places)]))
        if not whom:
            return []
        return await reading.read_assertions(self.pool, urls, whom, query, now=self._now())

    async def explain(
        self, query: Query | Filter | Sequence[Filter], *, relays: RelayNames | None = None
    ) -> CountResult:
        """Explain a number: `merged.parts` say which claims were used, and why others were not.

        With a store nobody is asked: the stored claims of `relays` are merged as they stand now, by
        default those of all relays that were ever asked. Without a store, or without stored claims,
        this counts. Raises as `count` does.
        """
        asked = query if isinstance(query, Query) else make_query(query)
        await self._open_store()
        if self._counter.book is not None:
            names = None if relays is None else _named(relays)
            result = await self._counter.explain(asked, names)
            if result.relays:
                return result
        return await self.count(asked, relays=relays)

    async def _keep(self, relay: str, events: Sequence[VerifiedEvent]) -> None:
        await self._open_store()
        if self._events is not None:
            await self._events.save(events)

    async def _open_store(self) -> None:
        if self._closed:
            raise InvalidInput("this client was closed")
        async with self._opening:
            if self._path is not None and self._owned is None:
                from nostr_client.store.sqlite import SqliteStore

                sets = [CLAIMS, WATCHES, WALLETS, REPAIRS]
                self._owned = await SqliteStore.open(self._path, migrations=sets)
                self._events = self._owned
                self._counting = dataclasses.replace(self._counting, stored=self._owned)
                self._counter.book = ClaimBook(self._owned.database)
                self._learn_from(self._counter.book)

    def _learn_from(self, book: ClaimBook) -> None:
        """Order the relays of lists by what these claims show of them."""
        if self._finder is not None:
            found = StoredExperience(book.database, self._events, self._now)
            self._finder.experience = found

    def subscribe(
        self,
        filters: Filter | Sequence[Filter],
        *,
        relays: RelayNames | None = None,
        live: bool = True,
    ) -> Subscription:
        """Open an async iterator of verified events from all relays, each event once.

        Without `live`: only the stored events. Raises InvalidInput without a relay.
        """
        urls = [url for url, _ in self._urls(relays)]
        return self.pool.subscribe(filters, urls, live=live)

    async def fetch_events(
        self,
        filters: Filter | Sequence[Filter],
        *,
        relays: RelayNames | None = None,
        timeout: float | None = None,
    ) -> FetchResult:
        """Read stored events from every relay and return each event once, newest first.

        `timeout` in seconds, for all relays. A relay that fails is in `errors`, never an exception.
        Raises InvalidInput without a relay. Safe to cancel.
        """
        urls = [url for url, _ in self._urls(relays)]
        return await self.pool.fetch_events(filters, urls, timeout)

    async def names(
        self,
        people: Sequence[str],
        *,
        relays: RelayNames | None = None,
        timeout: float | None = None,
    ) -> dict[str, str]:
        """Return the names of people (pubkeys in hex) by their newest profile, safe to show.

        Profiles in the store come first; for the others each relay gets one REQ and `timeout`
        seconds, by default 3. A client that stores events stores these profiles, too. Anybody may
        take any name: show the key behind it (`codecs.profiles.person`). A person without a profile
        is missing. Raises StoreError. Safe to cancel.
        """
        from nostr_client.codecs.profiles import names_of
        from nostr_client.network.profiles import newest_profiles

        await self._open_store()
        found = await self._stored_profiles(people)
        missing = [one for one in people if one not in {event.pubkey for event in found}]
        chosen = self._chosen(relays) if relays or self._relays else []
        asked = [relay for _, relay in chosen]
        fresh = await newest_profiles(asked, missing, timeout or NAMES_S)
        if self._counting.keep is not None and self._events is not None and fresh:
            await self._events.save(list(fresh.values()))
        return names_of([*found, *(one.event for one in fresh.values())])

    async def _stored_profiles(self, people: Sequence[str]) -> list[Event]:
        if self._events is None or not people:
            return []
        return await self._events.query([Filter(kinds=[METADATA], authors=people)])

    async def publish(
        self,
        event: VerifiedEvent,
        *,
        relays: RelayNames | None = None,
        timeout: float | None = None,
    ) -> Mapping[str, PublishResult]:
        """Send an event to every relay; return a status for each, by the relay's name as given.

        `timeout` in seconds, for each. Raises InvalidInput without a relay.
        """
        urls = self._urls(relays)
        results = await self.pool.publish(event, [url for url, _ in urls], timeout)
        return {name: results[url] for url, name in urls}

    async def sync(
        self,
        question: Question,
        relays: RelayNames | None = None,
        *,
        direction: Direction | str = Direction.DOWN,
        options: SyncOptions | None = None,
        dry_run: bool = False,
        ids_only: bool = False,
        keep_ids: bool = False,
        include_private: bool = False,
        include_others: bool = False,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> SyncReport:
        """Move events from the relays into the store (NIP-77), the other way, or both.

        Nothing leaves the store unless `direction` is up or both. Even then events of private kinds
        (`private_kinds`) and by other keys than the signer's stay here, unless a filter names their
        kind (or author, for others' events) or `include_private` and `include_others` allow them.
        Other people's protected events (NIP-70) are never sent; `held_back` counts what stayed.
        `question`: filters, or the id of an event whose content has them. `dry_run` only compares.
        `ids_only` compares too, including settled ids, and works without a store: then `events` is
        the exact number of distinct events over all relays. `keep_ids` lists the differences.
        `timeout`, in seconds, limits the whole; by default every step has its deadline. A relay's
        failure is a status in the report, never an exception. Raises InvalidInput, StoreError. Safe
        to cancel: what was stored stays, and the next sync continues.
        """
        from nostr_client.sync.procedure import Syncer

        memory = await self._memory_of_syncs()
        syncer = Syncer(self._events, options=options, memory=memory, now=self._now)
        mode = Mode(
            Direction(direction),
            dry_run=dry_run,
            ids_only=ids_only,
            keep_ids=keep_ids,
            include_private=include_private,
            include_others=include_others,
        )
        return await syncer.sync(
            question, self._chosen(relays), mode, timeout=timeout, on_progress=on_progress
        )

    async def mirror(
        self,
        question: Question,
        first: str,
        second: str,
        *,
        direction: Direction | str = Direction.DOWN,
        options: SyncOptions | None = None,
        dry_run: bool = False,
        include_private: bool = False,
        include_others: bool = False,
        on_progress: OnProgress | None = None,
    ) -> SyncReport:
        """Copy to `second` what it lacks from `first`, without a store; `up` copies the other way.

        What is sent, what a status means and what it raises is as in `sync`. A client
        with a store remembers there what was refused and withheld, and stores no event.
        """
        from nostr_client.sync.mirror import mirror

        memory = await self._memory_of_syncs()
        relays = self._chosen([first, second])
        if len(relays) != 2:
            raise InvalidInput("a mirror needs two relays")
        return await mirror(
            question,
            (relays[0], relays[1]),
            mode=Mode(
                Direction(direction),
                dry_run=dry_run,
                include_private=include_private,
                include_others=include_others,
            ),
            options=options,
            on_progress=on_progress,
            memory=memory,
            now=self._now,
        )

    async def coverage(
        self,
        question: Look,
        relays: RelayNames = (),
        *,
        written: bool = False,
        budget: ReadBudget | None = None,
        options: SyncOptions | None = None,
    ) -> Coverage:
        """Return which of an author's events each relay has, by kinds; see `sync.coverage`.

        `relays`: those to compare, by default the client's own; `written`: also those where the
        author writes (NIP-65). `budget`: the most that is read of one relay and kind, if it cannot
        compare by ids. The store's events count as known, too. A relay's failure is a reason in its
        cell. Raises InvalidInput without a relay, NoRelays if no list was found, StoreError. Safe
        to cancel.
        """
        coverage = await self._coverages()
        named = self._chosen(relays or None) if relays or not written else []
        return await coverage.look(question, named, written=written, budget=budget, options=options)

    async def plan_repair(self, coverage: Coverage) -> CoveragePlan:
        """Return what a repair of a coverage of this client would send to which relay, and what
        not.

        Events that relays and the store lack are downloaded. If the client has indexers, the plan
        also has the user's own events of the last 30 days for relays where mentioned people read
        (NIP-65). Private and protected events are never sent; relays that the user did not name get
        only own recent events, 200 at most. Raises StoreError. Safe to cancel.
        """
        return await (await self._coverages()).plan(coverage)

    async def repair(
        self, plan: CoveragePlan, *, options: SyncOptions | None = None
    ) -> RepairReport:
        """Execute a plan: deletions first. A relay's failure is in the report.

        An event that a relay accepted twice and lost again is not planned a third time; a client
        with a store remembers that. Raises StoreError. Safe to cancel.
        """
        return await (await self._coverages()).carry_out(plan, options)

    async def _coverages(self) -> CoverageRelays:
        from nostr_client.sync.coverage.relays import CoverageRelays
        from nostr_client.sync.sent import LocalAttempts, StoredAttempts

        memory = await self._memory_of_syncs()
        if self._sent is None:
            stored = self._owned
            self._sent = LocalAttempts() if stored is None else StoredAttempts(stored.database)
        return CoverageRelays(
            self.pool,
            memory,
            self._sent,
            store=self._events,
            finder=self._finder,
            choice=self._choice,
            pubkey=None if self._signer is None else self._signer.pubkey,
            now=self._now,
        )

    async def _memory_of_syncs(self) -> SyncMemory:
        from nostr_client.sync.memory import memory_of

        await self._open_store()
        self._memory = self._memory or memory_of(self._events, self._now)
        return self._memory

    async def relay_info(self, url: str) -> RelayInfo:
        """Return a relay's description of itself (NIP-11). Raises NetworkError, ProtocolError."""
        return await self.pool.relay(url).info()

    def _urls(self, relays: RelayNames | None) -> list[tuple[str, str]]:
        chosen = self._relays if relays is None else _named(relays)
        if not chosen:
            raise InvalidInput("no relay to ask")
        self.pool.name(chosen.values())
        return [(url, name) for url, name in chosen.items()]

    def _chosen(self, relays: RelayNames | None) -> list[tuple[str, Relay]]:
        return [(name, self.pool.relay(url)) for url, name in self._urls(relays)]

    async def close(self) -> None:
        """Close every connection, and the store if it was opened here; nothing is left running.

        Any later call raises InvalidInput.
        """
        self._closed = True
        try:
            for watching in self._watching:
                await watching.close()
            await self.pool.close()
        finally:
            for owned in (self._owned, self._owned_book):
                if owned is not None:
                    await owned.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _named(relays: RelayNames) -> dict[str, str]:
    """Return normalised URL to the user's spelling, each relay once."""
    names: dict[str, str] = {}
    for name in [relays] if isinstance(relays, str) else relays:
        names.setdefault(normalize(name), name)
    return names


def _with_timeout(options: Options, group: float | None) -> Options:
    """Return options with `group` seconds for all relays, and no more for each step."""
    if group is None:
        return options
    old = options.timeouts
    steps = {name: min(getattr(old, name), group) for name in ("connect", "http", "publish")}
    timeouts = dataclasses.replace(old, group=group, count=group, **steps)
    return dataclasses.replace(options, timeouts=timeouts)
