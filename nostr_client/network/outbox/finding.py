"""Find the relays of a target: the target's author and the relay list that the author published.

The caller passes the function that reads, so this module opens no connection. `fetch(relays,
filters)` returns verified events from the relays within its own deadline. It raises NoAnswer if no
relay answered, and no other error of a relay.
"""

from __future__ import annotations

import random
from collections import Counter, OrderedDict
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

import msgspec

from nostr_client.codecs import nip19
from nostr_client.codecs.event import nip01_order
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.relay_url import normalize
from nostr_client.errors import clip
from nostr_client.network.outbox.choose import ChosenRelays, choose, choose_many
from nostr_client.network.outbox.evidence import NO_EVIDENCE, TURN, rank
from nostr_client.network.outbox.relaylist import (
    RELAY_LIST,
    RelayList,
    live_relays,
    live_request,
    parse_relay_list,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.network.outbox.choose import RelayChoice
    from nostr_client.network.outbox.evidence import RankedRelay, RelayEvidence
    from nostr_client.network.pool import RelayPool


T = TypeVar("T")

KEEP: Final = 6 * 3600.0
"""Seconds for which a relay list is kept. People change their lists a few times a year."""

MOST_KEPT: Final = 10_000
"""Most relay lists in memory, about 1 kB each."""

AUTHORS_AT_ONCE: Final = 200
"""Authors in one filter. At ten times as many, the memory of a known relay grows by gigabytes."""

IDS_AT_ONCE: Final = 200
"""Event ids in one filter: 13 kB, which is below every relay's limit for a message."""

MOST_HINTS: Final = 8
"""Most relays from identifiers that are asked for one batch of events."""


MOST_ADDED: Final = 50
"""Most relays of answering people to consider for one target. Only a few of them are asked."""


class NoAnswer(Exception):
    """Raised if no relay answered a question. An event that was not found may exist."""


class Fetch(Protocol):
    """Reads stored events of several relays, newest first, each event once.

    Raises NoAnswer if no relay answered.
    """

    async def __call__(
        self, relays: Sequence[str], filters: Sequence[Filter]
    ) -> Sequence[VerifiedEvent]: ...


class Experience(Protocol):
    """Returns stored evidence about relays, and about people who answer an author. Asks no relay.

    Raises StoreError and its subclasses.
    """

    async def evidence(self, relays: Collection[str], name: str) -> Mapping[str, RelayEvidence]:
        """Return evidence about relays, by normalised URL, for questions of this name."""
        ...

    async def answerers(self, author: str, kinds: Collection[int]) -> Sequence[RelayList]:
        """Return the stored relay lists of people who usually answer an author with these kinds."""
        ...


class OutboxTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Subject of a query: a pubkey, or an event or address with its author if known.

    `hints` are relays that the identifier names, which a stranger wrote. `question` is the name of
    the query. Evidence about relays is by this name. `answers` are the kinds of the wanted events,
    if these events answer the author. People write their answers to their own relays.
    """

    author: str | None = None
    event_id: str | None = None
    hints: tuple[str, ...] = ()
    question: str = ""
    answers: tuple[int, ...] = ()


def read_target(text: str) -> OutboxTarget:
    """Return the target that a text names, as `nip19.read` reads it.

    64 hex characters are an event id here. For a pubkey use `OutboxTarget(author=...)`. An address
    in plain text (`kind:pubkey:d`) gives its author. Raises InvalidIdentifier.
    """
    if nip19.is_address(text.strip()):
        return OutboxTarget(author=text.strip().split(":")[1])
    match nip19.read(text).target:
        case nip19.PublicKey(pubkey):
            return OutboxTarget(author=pubkey)
        case nip19.Profile(pubkey, hints):
            return OutboxTarget(author=pubkey, hints=hints)
        case nip19.Note(id) | nip19.Hex(id):
            return OutboxTarget(event_id=id)
        case nip19.EventPointer(id, hints, author):
            return OutboxTarget(author=author, event_id=id, hints=hints)
        case nip19.Address(_, author, _, hints):
            return OutboxTarget(author=author, hints=hints)


class _Candidates(NamedTuple):
    """Candidates among which the relays of targets are chosen.

    `authors`, `named` (relays of the author's list) and `also` (relays of people who usually
    answer) are by target. `evidence` is by relay.
    """

    authors: Mapping[str, str | None]
    named: Mapping[str, Sequence[str]]
    also: Mapping[str, Sequence[str]]
    evidence: Mapping[str, RelayEvidence]


class RelayFinder:
    """Finds relay lists and keeps them for `keep` seconds. A missing list is kept as well.

    `now` returns Unix seconds. `rand` decides when a relay that was never asked comes first.
    `experience` orders the relays of a list, and may be set later. Without it the order of the list
    decides. The author of an event comes from the identifier, or from the event. The event is read
    from the indexers, the user's relays and the identifier's hints. Lists come from the indexers,
    or from the defaults if there are no indexers.
    """

    def __init__(
        self,
        fetch: Fetch,
        choice: RelayChoice,
        *,
        now: Callable[[], float],
        keep: float = KEEP,
        most: int = MOST_KEPT,
        experience: Experience | None = None,
        rand: random.Random | None = None,
    ) -> None:
        self.experience = experience
        self._rand = rand or random.SystemRandom()
        self._live: OrderedDict[str, tuple[float, bool]] = OrderedDict()
        self._fetch = fetch
        self._choice = choice
        self._now = now
        self._keep = keep
        self._most = most
        self._lists: OrderedDict[str, tuple[float, RelayList | None]] = OrderedDict()
        self._authors: OrderedDict[str, str] = OrderedDict()
        self._unanswered: set[str] = set()

    async def relays_for(self, target: OutboxTarget) -> ChosenRelays:
        """Return the relays of one target: the read relays of its author (NIP-65), bounded and
        checked.

        In one of ten calls a relay that was never asked comes before the others.
        """
        (chosen,) = (await self._choose({"": target}, turn=self._has_turn())).values()
        return chosen

    def _has_turn(self) -> bool:
        return self.experience is not None and self._rand.randrange(TURN) == 0

    async def written_by(self, author: str) -> ChosenRelays:
        """Return the write relays of an author (NIP-65), bounded and checked."""
        lists = await self.lists_of([author])
        chosen = choose(lists[author].write if author in lists else (), self._choice)
        if chosen.relays:
            return chosen
        why = self._why(OutboxTarget(author=author), author, chosen, "write to")
        return msgspec.structs.replace(chosen, why=why)

    async def relays_for_many(
        self,
        targets: Mapping[str, OutboxTarget],
        *,
        most_relays: int | None = None,
        current: Mapping[str, Collection[str]] | None = None,
    ) -> dict[str, ChosenRelays]:
        """Return the relays of many targets, which share relays as `choose_many` describes.

        `current`: the relays of each target that are in use. They stay while they answer.
        """
        return await self._choose(targets, most_relays=most_relays, current=current or {})

    async def _choose(
        self,
        targets: Mapping[str, OutboxTarget],
        *,
        most_relays: int | None = None,
        current: Mapping[str, Collection[str]] | None = None,
        turn: bool = False,
    ) -> dict[str, ChosenRelays]:
        found = await self._candidates(targets)
        return self._chosen(targets, found, most_relays, current or {}, turn=turn)

    def _chosen(
        self,
        targets: Mapping[str, OutboxTarget],
        found: _Candidates,
        most_relays: int | None = None,
        current: Mapping[str, Collection[str]] = MappingProxyType({}),
        *,
        turn: bool = False,
    ) -> dict[str, ChosenRelays]:
        authors, named, also, evidence = found
        if turn:
            ((key, urls),) = named.items()
            one = choose(urls, self._choice, also=also.get(key, ()), evidence=evidence, turn=True)
            chosen = {key: one}
        else:
            chosen = choose_many(
                named,
                self._choice,
                most_relays=most_relays,
                also=also,
                evidence=evidence,
                current=current,
            )
        return {
            key: one
            if one.relays
            else msgspec.structs.replace(one, why=self._why(targets[key], authors[key], one))
            for key, one in chosen.items()
        }

    async def ranked(self, target: OutboxTarget) -> tuple[ChosenRelays, list[RankedRelay]]:
        """Return the relays of a target, and all relays that were considered for it, best first.

        Relays of the author's list come first, then relays of people who usually answer. Relays
        that may not be asked (`RelayChoice.objection`) come last.
        """
        targets = {"": target}
        found = await self._candidates(targets)
        listed, added = found.named[""], found.also.get("", ())
        parts: tuple[list[str], ...] = [], [], []
        for url in dict.fromkeys((*listed, *added)):
            mine = url in self._choice.own or self._choice.objection(url) is None
            parts[(url not in listed) if mine else 2].append(url)
        ranked = [one for part in parts for one in rank(part, found.evidence)]
        return self._chosen(targets, found)[""], ranked

    async def _candidates(self, targets: Mapping[str, OutboxTarget]) -> _Candidates:
        """Find the candidates among which the relays of targets are chosen."""
        authors = await self._find_authors(targets)
        lists = await self.lists_of(author for author in authors.values() if author)
        named: dict[str, Sequence[str]] = {}
        for key, author in authors.items():
            found = lists.get(author) if author else None
            named[key] = found.read if found else ()
        also = await self._where_answers_are(targets, authors)
        return _Candidates(authors, named, also, await self._evidence(targets, named, also))

    async def _where_answers_are(
        self, targets: Mapping[str, OutboxTarget], authors: Mapping[str, str | None]
    ) -> dict[str, list[str]]:
        """Return the relays to which people who usually answer write, most frequent first."""
        if self.experience is None:
            return {}
        found: dict[str, list[str]] = {}
        for key, target in targets.items():
            author = authors[key]
            if author is None or not target.answers:
                continue
            lists = await self.experience.answerers(author, target.answers)
            times = Counter(url for one in lists for url in one.write)
            found[key] = [url for url, _ in times.most_common(MOST_ADDED)]
        return found

    async def _evidence(
        self,
        targets: Mapping[str, OutboxTarget],
        named: Mapping[str, Sequence[str]],
        also: Mapping[str, Sequence[str]],
    ) -> dict[str, RelayEvidence]:
        """Return the evidence about each relay that may be chosen.

        If the targets have questions of several names, refusals of one name do not count.
        """
        listed = [url for urls in named.values() for url in urls]
        if self.experience is None or not (listed or also):
            return {}
        added = Counter(url for urls in also.values() for url in urls)
        urls = list(dict.fromkeys([*listed, *added]))
        names = {one.question for one in targets.values()}
        name = names.pop() if len(names) == 1 else ""
        found = await self.experience.evidence(urls, name)
        live = await self._live_of(listed)
        return {
            url: msgspec.structs.replace(
                found.get(url, NO_EVIDENCE), live=url in live, answerers=added[url]
            )
            for url in urls
        }

    async def _live_of(self, relays: Iterable[str]) -> set[str]:
        """Return the relays of lists that a monitor reached.

        The relays that gave the lists also serve the events of monitors, because these relays
        already know which relays are asked about. If none answers, no relay is live.
        """
        if not self._choice.monitors:
            return set()
        now, urls = self._now(), list(dict.fromkeys(relays))
        kept = {u: one for u in urls if (one := self._live.get(u)) and now - one[0] < self._keep}
        for batch in _batches([url for url in urls if url not in kept], IDS_AT_ONCE):
            asked = live_request(batch, self._choice.monitors, now)
            try:
                events = await self._fetch(self._lists_from, [asked]) if self._lists_from else ()
            except NoAnswer:
                continue
            live = live_relays((one.event for one in events), asked, now)
            kept |= {url: (now, url in live) for url in batch}
        self._live |= kept
        while len(self._live) > self._most:
            self._live.popitem(last=False)
        return {url for url, (_, is_live) in kept.items() if is_live}

    def _why(
        self, target: OutboxTarget, author: str | None, chosen: ChosenRelays, use: str = "read from"
    ) -> str:
        """Return which step failed for a target that has no relays for this use."""
        if author is None and target.event_id is None:
            return "the question names no event or person whose relays could be found"
        if (author or target.event_id) in self._unanswered:
            return f"no indexer answered ({', '.join(self._choice.indexers) or 'none is named'})"
        if author is None:
            return "the event was not found on the indexers, so its author is not known"
        if not self._is_kept(author) or self._lists[author][1] is None:
            return "no relay list (NIP-65) of the target's author was found on the indexers"
        if chosen.refused:
            refused = "; ".join(f"{url}: {reason}" for url, reason in chosen.refused)
            return f"the author's list names only relays that are not asked ({clip(refused)})"
        return f"the author's list names no relay to {use}"

    async def lists_of(self, authors: Iterable[str]) -> dict[str, RelayList]:
        """Return the newest list of each author that has one.

        Fetches lists in batches if needed.
        """
        wanted = list(dict.fromkeys(authors))
        missing = [author for author in wanted if not self._is_kept(author)]
        for batch in _batches(missing, AUTHORS_AT_ONCE):
            await self._fetch_lists(batch)
        found = {author: kept[1] for author in wanted if (kept := self._lists.get(author))}
        return {author: one for author, one in found.items() if one is not None}

    def learn(self, event: Event) -> None:
        """Store a relay list from another source.

        Ignores a list that is older than the stored one.
        """
        found = parse_relay_list(event)
        kept = self._lists.get(found.author)
        if kept is None or kept[1] is None or kept[1].created_at < found.created_at:
            self._put(found.author, found)

    @property
    def _lists_from(self) -> tuple[str, ...]:
        return self._choice.indexers or self._choice.defaults or self._choice.own

    async def _fetch_lists(self, authors: Sequence[str]) -> None:
        where = self._lists_from
        asked = Filter(kinds=[RELAY_LIST], authors=authors)
        try:
            events = await self._fetch(where, [asked]) if where else ()
        except NoAnswer:
            self._doubt(authors)
            return
        self._unanswered.difference_update(authors)
        newest: dict[str, Event] = {}
        for verified in events:
            event = verified.event
            if asked.matches(event) and _is_newer(event, newest.get(event.pubkey)):
                newest[event.pubkey] = event
        for author in authors:
            event_or_none = newest.get(author)
            self._put(author, parse_relay_list(event_or_none) if event_or_none else None)

    async def _find_authors(self, targets: Mapping[str, OutboxTarget]) -> dict[str, str | None]:
        unknown = {
            t.event_id: t
            for t in targets.values()
            if t.author is None and t.event_id is not None and t.event_id not in self._authors
        }
        for batch in _batches(list(unknown.values()), IDS_AT_ONCE):
            await self._fetch_authors(batch)
        return {
            key: t.author or (self._authors.get(t.event_id) if t.event_id else None)
            for key, t in targets.items()
        }

    async def _fetch_authors(self, targets: Sequence[OutboxTarget]) -> None:
        """Ask the indexers and the hints for the events.

        Any relay serves, as an id cannot be forged.
        """
        hints = dict.fromkeys(url for t in targets for url in usable_hints(t.hints, self._choice))
        own = (*self._choice.indexers, *self._choice.own, *self._choice.defaults)
        where = list(dict.fromkeys([*own, *list(hints)[:MOST_HINTS]]))
        ids = [t.event_id for t in targets if t.event_id is not None]
        try:
            found = await self._fetch(where, [Filter(ids=ids)]) if where else ()
        except NoAnswer:
            self._doubt(ids)
            return
        self._unanswered.difference_update(ids)
        for verified in found:
            self._authors[verified.event.id] = verified.event.pubkey
        while len(self._authors) > self._most:
            self._authors.popitem(last=False)

    def _doubt(self, keys: Iterable[str]) -> None:
        """Note ids or pubkeys for which no relay answered. The next question asks again."""
        if len(self._unanswered) > self._most:
            self._unanswered.clear()
        self._unanswered.update(keys)

    def _is_kept(self, author: str) -> bool:
        kept = self._lists.get(author)
        return kept is not None and self._now() - kept[0] < self._keep

    def _put(self, author: str, found: RelayList | None) -> None:
        self._lists[author] = (self._now(), found)
        self._lists.move_to_end(author)
        while len(self._lists) > self._most:
            self._lists.popitem(last=False)


def usable_hints(hints: Iterable[str], choice: RelayChoice) -> list[str]:
    """Return the relays of an identifier that may be asked, normalised."""
    return list(dict.fromkeys(normalize(hint) for hint in hints if not choice.objection(hint)))


def _is_newer(event: Event, other: Event | None) -> bool:
    """Return True if a replaceable event replaces the other, or if there is no other."""
    return other is None or nip01_order(event) < nip01_order(other)


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


class PoolFetch:
    """`Fetch` over a pool. Treats relays that the user did not name as strangers.

    `timeout`: seconds for all relays of one question.
    """

    def __init__(self, pool: RelayPool, choice: RelayChoice, timeout: float) -> None:
        self._pool = pool
        self._named = {*choice.own, *choice.indexers, *choice.defaults}
        self._timeout = timeout

    async def __call__(
        self, relays: Sequence[str], filters: Sequence[Filter]
    ) -> list[VerifiedEvent]:
        for url in relays:
            self._pool.relay(url, stranger=url not in self._named)
        gathered = await self._pool.fetch(filters, relays, self._timeout)
        pages = gathered.answers.values()
        if not any(page.events or page.complete for page in pages):
            raise NoAnswer
        events = {v.event.id: v for page in pages for v in page.events}
        return sorted(events.values(), key=lambda v: -v.event.created_at)
