"""Run one query over many relays: ask all at once, and wait for none beyond the common deadline."""

from __future__ import annotations

import asyncio
import math
import random
import time
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from nostr_client.codecs.relay_url import normalize
from nostr_client.count.asking import LEAST, CountOptions, CountRequest
from nostr_client.count.beside import FirstRound, judge_beside
from nostr_client.count.enough.bounds import MONTH, MOST_QUESTIONS, EarlierQuestions
from nostr_client.count.judging import SharedIds
from nostr_client.count.merge import CountUnit, TrustPolicy
from nostr_client.count.merge.repeated import RepeatedMerges
from nostr_client.count.queries import CANONICAL, is_regular
from nostr_client.count.reading.unfollowed import (
    compare_lists,
    is_compared,
    readings,
    without_deleted,
    without_unfollowed,
)
from nostr_client.count.recipients import Recipients
from nostr_client.count.remembering import KEEP, asked_of, merge_input, remembered
from nostr_client.count.result import CountResult
from nostr_client.network.outbox.evidence import rank
from nostr_client.network.waiting import task_group

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence

    from nostr_client.count.claims import ClaimBook
    from nostr_client.count.merge import Claim, Merged, Retracted
    from nostr_client.count.queries import Query
    from nostr_client.count.reading.events import LookUp
    from nostr_client.count.reading.seen import SeenEvents
    from nostr_client.network.relay import Relay


class CountEngine:
    """Counts over relays, and remembers for its lifetime which of them never answer a COUNT."""

    def __init__(
        self,
        options: CountOptions | None = None,
        *,
        policy: TrustPolicy = TrustPolicy.EXCLUDE,
        trusted: Collection[str] = (),
        book: ClaimBook | None = None,
        now: Callable[[], float] = time.time,
        rand: random.Random | None = None,
    ) -> None:
        """Create it; `trusted` relays are believed whatever the tests say. Raises InvalidRelayURL.

        `book`: where claims are stored, so that later counts read only what is new. `rand` draws
        the samples by which ids are judged; by default nobody can foresee them.
        """
        self._options = options or CountOptions()
        self._policy = policy
        self._trusted = frozenset(map(normalize, trusted))
        self.book = book
        self._now = now
        self._rand = rand or random.SystemRandom()
        self._silent: set[str] = set()
        self._recipients = Recipients()
        self._merges = RepeatedMerges()

    @property
    def trusted(self) -> frozenset[str]:
        """Normalised URLs of the relays that are always believed."""
        return self._trusted

    def with_book(self, book: ClaimBook) -> CountEngine:
        """Return the same counter with other claims; it knows the same relays to be silent."""
        other = CountEngine(
            self._options, policy=self._policy, book=book, now=self._now, rand=self._rand
        )
        other._trusted, other._silent = self._trusted, self._silent
        other._recipients, other._merges = self._recipients, self._merges
        return other

    async def count(
        self,
        query: Query,
        relays: Sequence[tuple[str, Relay]],
        options: CountOptions | None = None,
        *,
        policy: TrustPolicy | None = None,
        trusted: Collection[str] | None = None,
        beside: Sequence[Relay] = (),
    ) -> CountResult:
        """Ask every relay, given as (the user's spelling, relay), and merge their claims.

        Returns at the deadline of the group at the latest, with a status for each relay; a relay's
        failure is not raised. Raises StoreError if claims are stored. Cancelling gives up the
        requests. `policy` and `trusted` (any spelling) replace those of the counter. `beside`:
        other relays of the question, whose stored claims `explain` merges with these; single events
        are then judged beside those claims. It needs a book.
        """
        shown, used = merge_input(*await self.ask(query, relays, options, beside=beside))
        return self.result(query, shown, used, policy=policy, trusted=trusted)

    async def ask(
        self,
        query: Query,
        relays: Sequence[tuple[str, Relay]],
        options: CountOptions | None = None,
        *,
        beside: Sequence[Relay] = (),
    ) -> tuple[list[tuple[str, Claim]], dict[str, Claim]]:
        """Return the claims by normalised URL, in order, and the earlier ones that replace
        failures.

        As `count`, without merging.
        """
        claims = await self.claims(query, relays, options, beside=beside)
        if self.book is None:
            return claims, {}
        return claims, await remembered(self.book, query, dict(claims), self._now())

    async def claims(
        self,
        query: Query,
        relays: Sequence[tuple[str, Relay]],
        options: CountOptions | None = None,
        *,
        beside: Sequence[Relay] = (),
        first: FirstRound | None = None,
    ) -> list[tuple[str, Claim]]:
        """Return only the claims, by normalised URL, in order; readings are stored, claims are not.

        `first`: the relays of the question are asked one by one, and `completed` judges their
        answers when all are there.
        """
        loop, chosen = asyncio.get_running_loop(), options or self._options
        end = loop.time() + chosen.timeouts.group
        if query.needs_target:
            query = await self.resolved(query, relays, chosen)
            chosen = chosen.within(end - loop.time())
        several = len(relays) + len(beside) > 1
        urls = [relay.url for _, relay in relays]
        earlier: dict[str, Claim] = {}
        shared = None
        if chosen.read and not query.searches:
            now_too = [] if first is None else urls
            others = [*now_too, *(other.url for other in beside)]
            earlier = await self.earlier_claims(query, others) if others else {}
            by_ids = several and _wants_members(query)
            seen = None if first is None else first.seen
            shared = SharedIds(urls, self._rand, by_ids=by_ids, seen=seen, stored=chosen.stored)
            self._recall(shared, beside, earlier)
        look_up = None
        if query.pays_person:
            asked_for = [relay for _, relay in relays]
            look_up = self._recipients.within(asked_for, chosen.patience, chosen.budget)
        said = None if first is None else earlier
        askings = [
            self._ask(name, relay, query, chosen, shared, said, look_up) for name, relay in relays
        ]
        claims = list(zip(urls, await _all(askings), strict=True))
        if first is not None:
            return [(url, first.unjudged(url, claim, earlier.get(url))) for url, claim in claims]
        if not (several and is_compared(query) and readings(dict(claims))):
            return claims
        earlier = await self.earlier_claims(query, [*urls, *(other.url for other in beside)])
        asked_now = {relay.url: relay for _, relay in relays}
        left = end - loop.time()
        proven = await self._compare(
            query, dict(claims), asked_now, chosen, earlier, beside=beside, seconds=left
        )
        return [(url, _with(claim, proven.get(url))) for url, claim in claims]

    async def completed(
        self,
        query: Query,
        claims: Mapping[str, Claim],
        relays: Mapping[str, Relay],
        first: FirstRound,
        options: CountOptions | None = None,
        *,
        beside: Sequence[Relay] = (),
    ) -> dict[str, Claim]:
        """Return the claims of a first round, by normalised URL, judged as those of one count.

        `beside` as for `count`. Takes no longer than a count may. Raises StoreError. Safe to
        cancel.
        """
        chosen, found = options or self._options, dict(claims)
        if not chosen.read or query.searches:
            return found
        earlier = await self.earlier_claims(query, [other.url for other in beside])
        several = len(relays) + len(beside) > 1
        by_ids = several and _wants_members(query)
        shared = SharedIds(
            list(claims), self._rand, by_ids=by_ids, seen=first.seen, stored=chosen.stored
        )
        self._recall(shared, beside, earlier)
        found = await judge_beside(
            query,
            found,
            relays,
            shared,
            first,
            seconds=chosen.timeouts.group,
            patience=chosen.patience,
        )
        if several and is_compared(query) and readings(found):
            earlier |= {url: one for url, one in first.earlier.items() if one is not None}
            proven = await self._compare(query, found, relays, chosen, earlier, beside=beside)
            found = {url: _with(claim, proven.get(url)) for url, claim in found.items()}
        return found

    async def judged(
        self,
        query: Query,
        asked: Mapping[str, Claim],
        known: Mapping[str, Claim],
        relays: Mapping[str, Relay],
        seen: SeenEvents,
        options: CountOptions,
        *,
        seconds: float,
    ) -> dict[str, Claim]:
        """Return claims by normalised URL: `asked` ones judged by deletions, all by newer lists.

        `seen`: the events behind `asked`. `known` claims were judged when they were made. `relays`:
        those that may be asked; lists of the others are not compared, so their authors may be gone.
        Raises StoreError. Safe to cancel.
        """
        first = FirstRound()
        shared = SharedIds(list(asked), self._rand, by_ids=False, seen=seen, stored=options.stored)
        found = dict(known) | await judge_beside(
            query, asked, relays, shared, first, seconds=seconds, patience=options.patience
        )
        if not (is_compared(query) and len(readings(found)) > 1):
            return found
        proven = await self._compare(query, found, relays, options, {}, beside=(), seconds=seconds)
        return {url: _with(claim, proven.get(url)) for url, claim in found.items()}

    async def _compare(
        self,
        query: Query,
        claims: Mapping[str, Claim],
        relays: Mapping[str, Relay],
        options: CountOptions,
        earlier: Mapping[str, Claim],
        *,
        beside: Sequence[Relay],
        seconds: float = math.inf,
    ) -> dict[str, Retracted]:
        """Return what the newest lists of relays prove, by URL, within so many seconds."""
        return await compare_lists(
            query,
            claims,
            {one.url: earlier[one.url] for one in beside if one.url in earlier},
            {**relays, **{one.url: one for one in beside}},
            earlier={url: earlier[url] for url in claims if url in earlier},
            seconds=min(max(seconds / 2, LEAST), options.patience),
            budget=options.budget,
        )

    @staticmethod
    def _recall(shared: SharedIds, beside: Sequence[Relay], earlier: Mapping[str, Claim]) -> None:
        """Return the earlier answers of the relays that are not asked now."""
        for other in beside:
            if other.url in earlier:
                shared.recall(other, earlier[other.url])

    async def earlier_claims(self, query: Query, urls: Sequence[str]) -> dict[str, Claim]:
        """Return the earlier answers of relays, by normalised URL; nothing without a book."""
        if self.book is None or not urls:
            return {}
        now = self._now()
        found = await self.book.recall(asked_of(query), now, urls)
        usable = {one.url: one.usable(now, KEEP) for one in found}
        return {url: claim for url, claim in usable.items() if claim is not None}

    async def other_questions(self, query: Query) -> EarlierQuestions:
        """Return what relays answered to other questions of the same name in the last month."""
        if self.book is None or query.name not in CANONICAL:
            return EarlierQuestions([])
        since = self._now() - MONTH
        return EarlierQuestions(
            await self.book.registers_of(asked_of(query), since, MOST_QUESTIONS)
        )

    async def ranked(self, query: Query, urls: Sequence[str]) -> list[str]:
        """Return relays by normalised URL, those first that served well; needs a book.

        Raises StoreError.
        """
        from nostr_client.count.claims import StoredExperience

        assert self.book is not None
        found = await StoredExperience(self.book.database, None, self._now).evidence(
            urls, query.name
        )
        return [one.relay for one in rank(urls, found)]

    def has_turn(self, one_in: int) -> bool:
        """Draw whether something that happens in one of so many counts happens in this one."""
        return self._rand.randrange(one_in) == 0

    async def resolved(
        self,
        query: Query,
        relays: Sequence[tuple[str, Relay]],
        options: CountOptions | None = None,
    ) -> Query:
        """Return the query; of zaps with the receivers that they may pay, if a relay has their
        target."""
        seconds = (options or self._options).patience
        return await self._recipients.resolve(query, [relay for _, relay in relays], seconds)

    async def explain(
        self,
        query: Query,
        names: Mapping[str, str] | None = None,
        *,
        policy: TrustPolicy | None = None,
        trusted: Collection[str] | None = None,
        left_out: Collection[str] = (),
        fresh: Mapping[str, Claim] = MappingProxyType({}),
        at: float | None = None,
    ) -> CountResult:
        """Return the result from earlier answers, asking nobody; needs a book.

        `names`: normalised URL to the user's spelling, in the order of the result; by default all
        that were ever asked. `left_out`: normalised URLs whose claims are shown and not counted.
        `fresh`: answers by normalised URL that replace those in the book. `at`: the time of the
        number, Unix seconds; by default now. Raises StoreError.
        """
        assert self.book is not None
        now = self._now() if at is None else at
        wanted = None if names is None else names.keys() - fresh.keys()
        recalled = wanted is None or wanted
        found = await self.book.recall(asked_of(query), now, wanted) if recalled else []
        kept = {one.url: one for one in found}
        claims: list[tuple[str, Claim]] = []
        earlier: dict[str, Claim] = {}
        for url in names or kept:
            one = kept.get(url)
            answer = fresh.get(url) or (one.usable(now, KEEP) if one is not None else None)
            failure = None if one is None else one.failure
            newest = failure or answer
            if newest is None:
                continue
            name = names[url] if names else newest.relay
            if newest.relay != name:
                newest = msgspec.structs.replace(newest, relay=name)
            claims.append((url, newest))
            if answer is not None and failure is not None:
                earlier[url] = answer
        shown, used = merge_input(claims, earlier)
        counted = [one for (url, _), one in zip(claims, used, strict=True) if url not in left_out]
        return self.result(query, shown, counted, policy=policy, trusted=trusted)

    def result(
        self,
        query: Query,
        claims: Sequence[Claim],
        used: Sequence[Claim] | None = None,
        *,
        policy: TrustPolicy | None = None,
        trusted: Collection[str] | None = None,
    ) -> CountResult:
        """Merge claims into a result that lists them in the order given.

        `used`: the claims to count with, if they are not those that are shown.
        """
        used = claims if used is None else used
        if query.one_per_author:
            without = without_unfollowed if is_compared(query) else without_deleted
            left = without(query, used)
            claims, used = _in_place(claims, left), _in_place(used, left)
        believed = self._trusted if trusted is None else set(map(normalize, trusted))
        merged = self._merges.merge(
            used,
            one_per_author=query.one_per_author,
            unit=query.unit,
            policy=policy or self._policy,
            trusted=[c.relay for c in claims if believed and normalize(c.relay) in believed],
        )
        warned = {claim.relay: claim.warnings for claim in merged.claims}
        shown = tuple(claim.warned(*warned.get(claim.relay, ())) for claim in claims)
        return CountResult(query=query, merged=_noted(query, merged), relays=shown)

    async def _ask(
        self,
        name: str,
        relay: Relay,
        query: Query,
        options: CountOptions,
        shared: SharedIds | None,
        earlier: Mapping[str, Claim] | None,
        look_up: LookUp | None,
    ) -> Claim:
        """Ask one relay; `earlier`: its earlier answer, if a caller judges the claim."""
        silent = relay.url in self._silent
        kept = not (query.needs_target or query.by_content or _has_versions(query))
        place = await self.book.place(asked_of(query), relay.url) if self.book and kept else None

        async def recall() -> Claim | None:
            known = await self.earlier_claims(query, [relay.url]) if earlier is None else earlier
            return known.get(relay.url)

        asking = CountRequest(
            relay,
            query,
            options,
            now=self._now,
            place=place,
            silent=silent,
            shared=shared,
            recall=recall if shared else None,
            look_up=look_up,
            judges=earlier is None,
        )
        claim = await asking.run(name)
        if asking.silent:
            self._silent.add(relay.url)
        return claim


async def _all(askings: Sequence[Coroutine[None, None, Claim]]) -> list[Claim]:
    """Return the results of all, in order; a single one, as in watches, needs no task."""
    if len(askings) == 1:
        return [await askings[0]]
    async with task_group() as group:
        tasks = [group.create_task(one) for one in askings]
    return [task.result() for task in tasks]


def _in_place(claims: Sequence[Claim], others: Mapping[str, Claim]) -> list[Claim]:
    """Return the claims with those of `others`, by relay, in place of equal answers."""
    return [
        other
        if (other := others.get(one.relay)) is not None and other.asked_at == one.asked_at
        else one
        for one in claims
    ]


def _with(claim: Claim, proven: Retracted | None) -> Claim:
    """Return a claim with what newest lists prove, beside deletions."""
    if proven is None:
        return claim
    known = claim.retracted
    lists = {**known.lists, **proven.lists}
    both = msgspec.structs.replace(proven, lists=lists, looked_for=known.looked_for)
    return msgspec.structs.replace(claim, retracted=both)


def _noted(query: Query, merged: Merged) -> Merged:
    """Return each part that does not come from events, with its limits for this question."""
    if query.note is None:
        return merged
    reporting = {c.relay for c in merged.claims if c.answered and c.reading is None}
    parts = (
        msgspec.structs.replace(one, reasons=(*one.reasons, query.note))
        if one.relay in reporting
        else one
        for one in merged.parts
    )
    return msgspec.structs.replace(merged, parts=tuple(parts))


def needs_others(query: Query) -> bool:
    """Whether one relay's ids are judged beside those that others named."""
    return _wants_members(query) or _has_versions(query) or is_compared(query)


def _wants_members(query: Query) -> bool:
    """Whether relays are asked for single events: their numbers alone cannot be merged."""
    return not (query.by_registers or query.reads or query.judges or query.searches)


def _has_versions(query: Query) -> bool:
    """Whether a question counts events of which one may replace another.

    Which of two versions wins (all but regular kinds) shows only while they are read, so nothing of
    them is stored for later rounds.
    """
    return query.unit is CountUnit.EVENTS and not (
        query.is_zaps or query.one_per_author or is_regular(query)
    )
