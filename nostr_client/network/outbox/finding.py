"""Finding the relays of a target: who its author is, and what list that author published.

What is read is handed in as a callable, so nothing here opens a connection: `fetch(relays,
filters)` returns verified events from those relays within its own deadline, and raises nothing
that a relay did but NoAnswer where no relay answered at all.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import msgspec

from nostr_client.codecs import nip19
from nostr_client.codecs.event import nip01_order
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.relay_url import normalize
from nostr_client.errors import clip
from nostr_client.network.outbox.choose import ChosenRelays, choose, choose_many
from nostr_client.network.outbox.relaylist import RELAY_LIST, RelayList, parse_relay_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.network.outbox.choose import RelayChoice
    from nostr_client.network.pool import RelayPool


T = TypeVar("T")

KEEP: Final = 6 * 3600.0
"""Seconds that a relay list is kept: people change theirs a few times a year."""

MOST_KEPT: Final = 10_000
"""Relay lists kept in memory: about 1 kB each."""

AUTHORS_AT_ONCE: Final = 200
"""Authors in one filter: a known relay's memory grows by gigabytes at ten times as many."""

IDS_AT_ONCE: Final = 200
"""Event ids in one filter: 13 kB, below every relay's limit for a message."""

MOST_HINTS: Final = 8
"""Relays from identifiers that are asked for one batch of events."""


class NoAnswer(Exception):
    """No relay of a question answered, so what was not found may exist."""


class Fetch(Protocol):
    """Reads stored events of several relays; the newest of each first, none twice.

    Raises NoAnswer where none of them answered.
    """

    async def __call__(
        self, relays: Sequence[str], filters: Sequence[Filter]
    ) -> Sequence[VerifiedEvent]: ...


class OutboxTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What a query is about: a pubkey, or an event or address with what is known of its author.

    `hints` are relays that the identifier itself names; a stranger wrote them.
    """

    author: str | None = None
    event_id: str | None = None
    hints: tuple[str, ...] = ()


def read_target(text: str) -> OutboxTarget:
    """What a person named, as a target, by `nip19.read`.

    64 hex characters are an event id here: ask for a pubkey by `OutboxTarget(author=...)`. An
    address in plain text (`kind:pubkey:d`) names its author. Raises InvalidIdentifier.
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


class RelayFinder:
    """Finds relay lists, and keeps them for `keep` seconds; a list not found is kept as well.

    `now` gives Unix seconds. The authors of events come from the event itself, from the
    identifier, or from the relays of `choice.indexers` and the identifier's hints; lists come from
    the indexers, or the defaults where no indexer is named.
    """

    def __init__(
        self,
        fetch: Fetch,
        choice: RelayChoice,
        *,
        now: Callable[[], float],
        keep: float = KEEP,
        most: int = MOST_KEPT,
    ) -> None:
        self._fetch = fetch
        self._choice = choice
        self._now = now
        self._keep = keep
        self._most = most
        self._lists: OrderedDict[str, tuple[float, RelayList | None]] = OrderedDict()
        self._authors: OrderedDict[str, str] = OrderedDict()
        self._unanswered: set[str] = set()

    async def relays_for(self, target: OutboxTarget) -> ChosenRelays:
        """The relays of one target: the read relays of its author (NIP-65), bounded and checked."""
        return (await self.relays_for_many({"": target}))[""]

    async def written_by(self, author: str) -> ChosenRelays:
        """Where an author writes (NIP-65), bounded and checked as the relays of a target."""
        lists = await self.lists_of([author])
        chosen = choose(lists[author].write if author in lists else (), self._choice)
        if chosen.relays:
            return chosen
        why = self._why(OutboxTarget(author=author), author, chosen, "write to")
        return msgspec.structs.replace(chosen, why=why)

    async def relays_for_many(
        self, targets: Mapping[str, OutboxTarget], *, most_relays: int | None = None
    ) -> dict[str, ChosenRelays]:
        """The relays of many targets, by a cover that shares them; see `choose_many`."""
        authors = await self._find_authors(targets)
        lists = await self.lists_of(author for author in authors.values() if author)
        named: dict[str, Sequence[str]] = {}
        for key, author in authors.items():
            found = lists.get(author) if author else None
            named[key] = found.read if found else ()
        chosen = choose_many(named, self._choice, most_relays=most_relays)
        return {
            key: one
            if one.relays
            else msgspec.structs.replace(one, why=self._why(targets[key], authors[key], one))
            for key, one in chosen.items()
        }

    def _why(
        self, target: OutboxTarget, author: str | None, chosen: ChosenRelays, use: str = "read from"
    ) -> str:
        """Which step failed for a target without relays of this use."""
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
        """The newest list of each author that has one; fetched in batches where not kept."""
        wanted = list(dict.fromkeys(authors))
        missing = [author for author in wanted if not self._is_kept(author)]
        for batch in _batches(missing, AUTHORS_AT_ONCE):
            await self._fetch_lists(batch)
        found = {author: kept[1] for author in wanted if (kept := self._lists.get(author))}
        return {author: one for author, one in found.items() if one is not None}

    def learn(self, event: Event) -> None:
        """Take in a relay list that came by another way; one older than what is kept is ignored."""
        found = parse_relay_list(event)
        kept = self._lists.get(found.author)
        if kept is None or kept[1] is None or kept[1].created_at < found.created_at:
            self._put(found.author, found)

    async def _fetch_lists(self, authors: Sequence[str]) -> None:
        where = self._choice.indexers or self._choice.defaults or self._choice.own
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
        """Ask the indexers and the hints for the events; an id cannot be forged, so any will do."""
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
        """Note ids or pubkeys about which nobody answered; the next question asks again."""
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
    """Those of the relays named in an identifier that may be asked, normalised."""
    return list(dict.fromkeys(normalize(hint) for hint in hints if not choice.objection(hint)))


def _is_newer(event: Event, other: Event | None) -> bool:
    """Whether a replaceable event holds before the other, if there is one."""
    return other is None or nip01_order(event) < nip01_order(other)


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


class PoolFetch:
    """A `Fetch` over a pool; relays that the user did not name are connected to with care.

    `timeout` in seconds, for all relays of one question.
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
