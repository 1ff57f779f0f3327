"""`NostrClient`: count, read, sync and publish over many relays with one object."""

from __future__ import annotations

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
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self

import msgspec

from nostr_client.client.storage import ClientStore
from nostr_client.codecs.relay_url import normalize
from nostr_client.count.asking import CountOptions
from nostr_client.count.merge import TrustPolicy
from nostr_client.count.procedure import CountEngine
from nostr_client.count.queries import Query, target_of
from nostr_client.count.queries import query as make_query
from nostr_client.errors import InvalidInput, NoRelays
from nostr_client.network.outbox import PoolFetch, RelayFinder
from nostr_client.network.pool import FetchResult, PublishResult, RelayPool
from nostr_client.options import Options, ReadBudget
from nostr_client.sync.direction import Direction

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from nostr_client.assertions.reading import Asserted
    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import KeySigner, Signer, VerifiedEvent
    from nostr_client.codecs.nip11 import RelayInfo
    from nostr_client.codecs.web_of_trust import Root, Web
    from nostr_client.count.claims import ClaimBook
    from nostr_client.count.result import CountResult
    from nostr_client.count.wallets.asking import Wallets
    from nostr_client.network.outbox import RelayChoice
    from nostr_client.network.relay import Relay
    from nostr_client.network.subscription import Subscription
    from nostr_client.store.base import EventStore
    from nostr_client.sync.coverage import Coverage, Look
    from nostr_client.sync.coverage.plan import CoveragePlan
    from nostr_client.sync.coverage.relays import CoverageRelays
    from nostr_client.sync.coverage.repair import RepairReport
    from nostr_client.sync.options import SyncOptions
    from nostr_client.sync.procedure import OnProgress, Question
    from nostr_client.sync.report import SyncReport
    from nostr_client.watch.definition import Watch
    from nostr_client.watch.engine import Engine
    from nostr_client.watch.repository import WatchRepository
    from nostr_client.watch.state import Merge, WatchSet
    from nostr_client.watch.watching import Watching

RelayNames = str | Iterable[str]


class NostrClient:
    """Counts, watches, syncs, reads and publishes over many relays.

    Use the client as an async context manager, or call `close()` at the end.

    - `relays`: relays to ask if a call names none.
    - `signer`: signs AUTH events when a request needs AUTH.
    - `timeout`: seconds for all relays of one question.
    - `read`: True to count by events on a relay that sends no registers.
    - `budget`: the most that a count reads from one relay.
    - `trust`: what happens to a claim that cannot be true.
    - `trusted`: relays whose claims are always believed.
    - `store`: a path, an open EventStore or an open ClaimBook. With a path, the client opens a
      store for claims and events, and closes the store at the end. The caller closes an open
      object.
    - `keep_events`: True to store the events that a count reads.
    - `choice`: how to find relays for a query if neither the client nor the call names relays. The
      client then asks the read relays of the target's author (NIP-65).
    - `now`: a function that returns Unix seconds.

    With stored claims, a later count reads only new events. With stored events, the client can
    sync.
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
        self._store = ClientStore(store, now)
        if keep_events and not self._store.takes_events:
            raise InvalidInput("to keep events, give a store of events: a path, or an EventStore")
        self._counting = CountOptions(
            timeouts=self._options.timeouts,
            budget=budget or ReadBudget(),
            read=read,
            keep=self._keep if keep_events else None,
            stored=self._store.events,
        )
        self._counter = CountEngine(policy=trust, trusted=_named(trusted).keys(), now=now)
        self._counter.book = self._store.book
        self._signer = signer
        self._now = now
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
            if self._store.book is not None:
                self._learn_from(self._store.book)
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
        """Count over many relays (NIP-45) and return one number, with a claim for each relay.

        The method returns at the deadline at the latest. If a relay fails, the status in its claim
        says why.

        - `timeout`: seconds for all relays.
        - `read`: overrides the client's `read`.
        - `verify_zaps`: True to ask the recipients' wallets which keys sign their zap receipts.
          Only zaps allow this option. The wallets' servers see the request. `CountResult.verified`
          has the result.
        - `enough`: a share of all people, such as 0.1. The client asks relays in the order of their
          expected contribution. The client stops when the remaining relays together can add less
          than this share. This option needs stored claims of earlier counts.
        - `within`: a web of trust, written as `me`, `npub1...` or `npub1...:2`.
          `CountResult.within` then has the number of authors in this web. The web of `npub1...` has
          the people whom this key follows. With `:2`, the web also has the people whom they follow.
          `me` is the signer's key. The follow lists come from the store.

        `verify_zaps` and `within` can each add `timeout` seconds to the time of the call. If the
        store is a path, the client keeps the wallets' answers for a day.

        Raises InvalidInput without a relay, for a bad query, or if the store lacks the follow list.
        Raises NoRelays if no relay of the target's author was found. Raises StoreError or one of
        its subclasses if the store of claims fails. Safe to cancel.
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
            from nostr_client.count.enough.batches import count_enough

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
        if self._store.events is None:
            raise InvalidInput(NO_LISTS)
        return await stored_web(self._store.events, root)

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
                database=self._store.database,
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
        """Return an async iterator that yields each new result of a query.

        The first result comes when the client has asked every relay once. The client asks each
        relay separately, once in each interval. If `live` is True, new events make the client ask
        again soon.

        A `Watch` has the query, the relays, the interval and the trust policy. `relays`, `interval`
        (in seconds) and `live` override the values of the watch. Without a store, claims stay in
        memory until the watch ends. To end the watch, call its `close()`, leave its async context,
        or close the client.

        Raises InvalidInput for a bad query or an interval below `watch.SHORTEST`. Iterating raises
        the errors of `count`.
        """
        from nostr_client.client.watches import as_watch
        from nostr_client.watch.watching import Watching

        urls = None if relays is None else tuple(_named(relays).values())
        made, questions = as_watch(query, urls, interval, live)
        if made.within and not self._store.takes_events:
            from nostr_client.count.within import NO_LISTS

            raise InvalidInput(NO_LISTS)
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
        """Open the engine that keeps watches fresh over the connections of this client.

        Use the engine as an async context manager, and call its `refresh` and `run`.

        - `merged`: a function that receives each new number.
        - `wanted`: the watches, as the method `wanted` returns them.
        - `book`: a repository for claims and history. The engine then continues where an earlier
          run stopped. If the repository is in the client's store, and the client reads events, the
          engine also stores the profiles of people whom the watches show.
        """
        from nostr_client.client.watches import open_engine

        await self._open_store()
        counter = self._counter if book is None else self._counter.with_book(book.claims)
        if book is not None:
            self._learn_from(book.claims)
        elif counter.book is None:
            counter.book = await self._store.book_in_memory()
        async with open_engine(
            self.pool,
            counter,
            self._counting,
            merged,
            events=self._store.events,
            book=book,
            now=self._now,
            keep=self._keep,
        ) as engine:
            engine.wanted = wanted
            yield engine

    def wanted(self, watches: Iterable[Watch], questions: Mapping[str, Query] = {}) -> WatchSet:
        """Return the watches that an engine of this client keeps fresh.

        If a watch names no relays, the engine asks the client's relays. If the client has no
        relays, the engine asks the relays of the target's author (NIP-65). If the client keeps
        events, the engine also stores live events.

        - `questions`: queries by the name of their watch. Such a query replaces the watch's own
          query.
        """
        from nostr_client.watch.state import WatchSet

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
        """Return what providers assert about the target of a canonical query (NIP-85).

        An assertion is a number that somebody else counted. `count` never uses assertions.

        - `providers`: the providers, as npubs or hex pubkeys. The results have the same order.
        - `trusted_by`: a user whose declaration (kind 10040) names the providers, if `providers` is
          empty. A KeySigner also decrypts the private part of its own declaration. Without a
          declaration, the result is empty. The relays can see whom the user trusts.

        The method takes at most two times `Timeouts.group`. Raises InvalidInput if no assertion can
        answer the query, or if neither a provider nor a user is given. Raises InvalidInput also if
        the private part cannot be decrypted. Raises MissingExtra, NoRelays or StoreError. Safe to
        cancel.
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
        """Return a number, and how each claim contributes to the number.

        `merged.parts` of the result says which claims are in the number, and why other claims are
        not. With a store, the method asks no relay. It merges the stored claims of `relays`, or of
        all relays if `relays` is None. Without stored claims, the method counts as `count` does.
        Raises the errors of `count`.
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
        if self._store.events is not None:
            await self._store.events.save(events)

    async def _open_store(self) -> None:
        if self._closed:
            raise InvalidInput("this client was closed")
        if await self._store.open():
            self._counting = dataclasses.replace(self._counting, stored=self._store.events)
            self._counter.book = self._store.book
            if self._store.book is not None:
                self._learn_from(self._store.book)

    def _learn_from(self, book: ClaimBook) -> None:
        """Order the relays of lists by what these claims show of them."""
        if self._finder is not None:
            from nostr_client.count.claims import StoredExperience

            found = StoredExperience(book.database, self._store.events, self._now)
            self._finder.experience = found

    def subscribe(
        self,
        filters: Filter | Sequence[Filter],
        *,
        relays: RelayNames | None = None,
        live: bool = True,
    ) -> Subscription:
        """Open an async iterator of verified events from all relays, each event once.

        If `live` is False, the iterator ends after the stored events. Raises InvalidInput without a
        relay.
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

        `timeout` is in seconds, for all relays. If a relay fails, `errors` of the result has its
        error. Raises InvalidInput without a relay. Safe to cancel.
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
        """Return the names of people from their newest profiles, by hex pubkey.

        The names are safe to print. A person without a profile is missing from the result. Anybody
        may use any name, so show the key beside the name (`codecs.profiles.person` does).

        The method first looks in the store. For the other people, the method sends one REQ to each
        relay and waits `timeout` seconds (default 3). If the client keeps events, it stores these
        profiles. Raises StoreError. Safe to cancel.
        """
        from nostr_client.codecs.profiles import names_of
        from nostr_client.network.profiles import PROFILES_S, newest_profiles

        await self._open_store()
        found = await self._store.profiles(people)
        missing = [one for one in people if one not in {event.pubkey for event in found}]
        chosen = self._chosen(relays) if relays or self._relays else []
        asked = [relay for _, relay in chosen]
        fresh = await newest_profiles(asked, missing, timeout or PROFILES_S)
        if self._counting.keep is not None and self._store.events is not None and fresh:
            await self._store.events.save(list(fresh.values()))
        return names_of([*found, *(one.event for one in fresh.values())])

    async def publish(
        self,
        event: VerifiedEvent,
        *,
        relays: RelayNames | None = None,
        timeout: float | None = None,
    ) -> Mapping[str, PublishResult]:
        """Send an event to every relay and return a status for each relay.

        The keys of the result are the relays' names as the caller wrote them. `timeout` is in
        seconds, for each relay. Raises InvalidInput without a relay.
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
        """Download events from relays into the store, upload events, or both (NIP-77).

        - `question`: filters, or the id of an event whose content has the filters.
        - `direction`: `down`, `up` or `both`. Events leave the store only with `up` and `both`.
        - `dry_run`: True to compare without moving events.
        - `ids_only`: True to compare without moving events, and without a store. The comparison
          also includes events that relays refused earlier. `SyncReport.events` is then the exact
          number of distinct events over all relays.
        - `keep_ids`: True to list the ids that differ.
        - `include_private`: True to upload events of private kinds (`private_kinds`). Otherwise the
          client uploads such events only if a filter names their kind.
        - `include_others`: True to upload events by other keys than the signer's. Otherwise the
          client uploads such events only if a filter names their author.
        - `timeout`: seconds for the whole sync. By default, only each step has a deadline.
        - `on_progress`: a function that receives the state of the sync several times a second.

        The client never uploads protected events (NIP-70) of other people. `held_back` in the
        report counts the events that the client did not upload for these reasons. If a relay fails,
        the status in its report says how far the sync got.

        Raises InvalidInput or StoreError. Safe to cancel: stored events stay, and the next sync
        continues.
        """
        from nostr_client.sync.options import Mode
        from nostr_client.sync.procedure import Syncer

        await self._open_store()
        memory = self._store.syncs()
        syncer = Syncer(self._store.events, options=options, memory=memory, now=self._now)
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
        """Copy events from one relay to another, without a store.

        The client copies the events of `first` that `second` lacks. With the direction `up`, the
        client copies from `second` to `first`. Uploads follow the rules of `sync`. If the client
        has a store, the store remembers which events a relay refused or withheld. The store keeps
        none of the copied events.

        Raises InvalidInput or StoreError. Safe to cancel.
        """
        from nostr_client.sync.mirror import mirror
        from nostr_client.sync.options import Mode

        await self._open_store()
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
            memory=self._store.syncs(),
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
        """Return which of an author's events each relay has, by kind.

        - `relays`: relays to compare, by default the relays of the client.
        - `written`: True to also compare the relays where the author writes (NIP-65).
        - `budget`: the most that the client reads for one relay and kind if the relay cannot
          compare ids.

        The result has a cell for each relay and kind. If a relay fails, its cells have the reason.
        The comparison includes the events in the store. Raises InvalidInput without a relay,
        NoRelays if no relay list was found, or StoreError. Safe to cancel.
        """
        coverage = await self._coverages()
        named = self._chosen(relays or None) if relays or not written else []
        return await coverage.look(question, named, written=written, budget=budget, options=options)

    async def plan_repair(self, coverage: Coverage) -> CoveragePlan:
        """Return which events a repair sends to which relay, and which events it skips.

        The client downloads events that a relay and the store lack. If the client has indexers, it
        also plans the user's own events of the last 30 days for other relays. These are the relays
        where mentioned people read (NIP-65).

        A repair never sends private or protected events. Relays that the user did not name get at
        most 200 recent events, all by the user. Raises StoreError. Safe to cancel.
        """
        return await (await self._coverages()).plan(coverage)

    async def repair(
        self, plan: CoveragePlan, *, options: SyncOptions | None = None
    ) -> RepairReport:
        """Send the events of a plan to the relays, deletions first.

        If a relay fails, the report has its error. If a relay twice accepted an event and lost it,
        later plans skip the event. The client remembers such losses in its store. Raises
        StoreError. Safe to cancel.
        """
        return await (await self._coverages()).carry_out(plan, options)

    async def _coverages(self) -> CoverageRelays:
        from nostr_client.sync.coverage.relays import CoverageRelays

        await self._open_store()
        return CoverageRelays(
            self.pool,
            self._store.syncs(),
            self._store.repairs(),
            store=self._store.events,
            finder=self._finder,
            choice=self._choice,
            pubkey=None if self._signer is None else self._signer.pubkey,
            now=self._now,
        )

    async def relay_info(self, url: str) -> RelayInfo:
        """Return the NIP-11 document of a relay. Raises NetworkError or ProtocolError."""
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
        """Close every connection, and the store if the client opened the store.

        Nothing is left running. Any later call raises InvalidInput.
        """
        self._closed = True
        try:
            for watching in self._watching:
                await watching.close()
            await self.pool.close()
        finally:
            await self._store.close()

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
