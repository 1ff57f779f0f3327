"""Remove authors whose newer list no longer names the key, if events were read.

A relay that missed an unfollow still returns the old list, while one that has the newer list
returns nothing for the question. So a relay is asked for the newest lists of the authors that only
it does not return; if such a list does not match, the relays that returned the author are asked
which is newer. What a relay's lists prove is a part of its claim (`Retracted`), so it holds in
later rounds, and for claims of relays that are asked at another time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client import hll
from nostr_client.codecs.display import plural
from nostr_client.codecs.event import nip01_order
from nostr_client.codecs.filters import Filter
from nostr_client.count.merge import Proven, Retracted
from nostr_client.count.merge.drift import share_since
from nostr_client.count.merge.values import asked_earlier
from nostr_client.errors import RelayError, clip
from nostr_client.network.waiting import task_group

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.count.merge import Claim, Reading
    from nostr_client.count.queries import Query
    from nostr_client.network.relay import Relay
    from nostr_client.options import ReadBudget

BATCH: Final = 50
"""Authors of one filter: every known relay returns this many lists in one page."""

MOST: Final = 1_000
"""Authors asked of one relay: beyond it a number is not exact. Lists have some 30 kB each."""

NOT_COMPARED: Final = (
    "followers: the newest lists of {} could not be compared ({}), so they may have unfollowed:"
    " the number is not exact"
)
ASKED_EARLIER: Final = (
    "followers: the newest lists of {} were compared in an earlier round, not in this one"
)

_REASON: Final = 160
"""Characters of what one relay answered."""

_MOST_NAMED: Final = 2
"""Relays of a warning."""


def is_compared(query: Query) -> bool:
    """Whether the question is about newest lists, of which relays may have several versions."""
    one = len(query.filters) == 1 and bool(query.filters[0].tags)
    return one and query.one_per_author


async def compare_lists(
    query: Query,
    asked: Mapping[str, Claim],
    others: Mapping[str, Claim],
    relays: Mapping[str, Relay],
    *,
    earlier: Mapping[str, Claim],
    seconds: float,
    budget: ReadBudget,
) -> dict[str, Retracted]:
    """Return what the newest lists of relays prove, by the URL of each that was asked and read.

    `others`: claims of relays that are not asked now; they may be asked which of two lists is
    newer. `earlier`: the earlier answers of the asked ones, as proof stays proof. `seconds` are for
    each of two steps. A relay's failure is not raised. Safe to cancel.
    """
    read = readings({**others, **asked})
    known = _replaced([*earlier.values(), *others.values()], read.values())
    everybody = frozenset[bytes]().union(*(_kept(one, known).authors for one in read.values()))
    if len(read) < 2:
        return {}
    missing = {url: everybody - read[url].authors for url in read if url in asked}
    ask = NewestLists(query, relays, seconds, budget)
    lacking = await ask.lists(missing)
    suspects = {a for a, lists in lacking.given.items() if not all(map(ask.holds, lists))}
    givers = await ask.lists({url: suspects & one.authors for url, one in read.items()})
    unsure = frozenset[bytes]().union(*givers.unknown.values())
    for author in suspects - unsure:
        lists = [*lacking.given[author], *givers.given.get(author, [])]
        if not ask.holds(min(lists, key=nip01_order)):
            known |= {bytes.fromhex(one.id): author for one in lists if ask.holds(one)}
    return {
        url: Retracted(
            lists=known,
            asked=frozenset(authors - lacking.unknown[url] - unsure),
            suspects=frozenset(suspects),
            unasked_why=lacking.why.get(url) or givers.first_why(authors),
            **asked_earlier(earlier.get(url), authors & (lacking.unknown[url] | unsure)),
        )
        for url, authors in missing.items()
    }


def without_unfollowed(query: Query, claims: Sequence[Claim]) -> dict[str, Claim]:
    """Return the claims without those who left, by any relay's lists; by relay, if one changes.
    Pure.

    Authors whose lists a relay was not asked for may be gone, so such a number is not exact.
    """
    read = readings({claim.relay: claim for claim in claims})
    left = _replaced(claims, read.values())
    if len(read) < 2 and not left:
        return {}
    kept = {url: _kept(one, left) for url, one in read.items()}
    everybody = frozenset[bytes]().union(*(one.authors for one in kept.values()))
    by_relay = {claim.relay: claim for claim in claims}
    unknown: dict[str, frozenset[bytes]] = {}
    before: dict[bytes, float] = {}
    """The share by which authors of earlier comparisons may be gone."""
    for url, one in kept.items():
        known = by_relay[url].retracted
        missing = everybody - one.authors - (known.asked or frozenset())
        if never := missing - known.earlier:
            why = _unasked_why(by_relay[url])
            unknown[why] = unknown.get(why, frozenset()) | never
        share = share_since(known.earlier_at, claims)
        before |= {a: max(share, before.get(a, 0.0)) for a in missing & known.earlier}
    return {
        url: _corrected(by_relay[url], query, one, unknown, before) for url, one in kept.items()
    }


def without_deleted(query: Query, claims: Sequence[Claim]) -> dict[str, Claim]:
    """Return the claims without the lists that their authors deleted; by relay, if one changes.
    Pure."""
    by_relay = {claim.relay: claim for claim in claims}
    read = readings(by_relay)
    left = _replaced(claims, read.values())
    kept = {url: _kept(one, left) for url, one in read.items()}
    return {
        url: _corrected(by_relay[url], query, one, {}, {})
        for url, one in kept.items()
        if one is not read[url]
    }


def _unasked_why(claim: Claim) -> str:
    """Return why a relay did not give the newest lists of some authors, with its name."""
    return claim.retracted.unasked_why or f"{clip(claim.relay)}: not asked for them yet"


def _not_compared(
    authors: frozenset[bytes], unknown: Mapping[str, frozenset[bytes]], doubted: int
) -> str:
    """Return the warning about authors of a relay that were never compared, else about those of an
    earlier round."""
    never = len(authors.intersection(frozenset[bytes]().union(*unknown.values())))
    if not never:
        return ASKED_EARLIER.format(plural(doubted, "author"))
    why = [text for text, lacking in unknown.items() if lacking & authors]
    more = [f"and {plural(len(why) - _MOST_NAMED, 'other relay')}"] if why[_MOST_NAMED:] else []
    return NOT_COMPARED.format(plural(never, "author"), "; ".join([*why[:_MOST_NAMED], *more]))


def readings(claims: Mapping[str, Claim]) -> dict[str, Reading]:
    """Return what was read of relays, by the keys of their claims."""
    return {url: c.reading for url, c in claims.items() if c.answered and c.reading is not None}


def _replaced(claims: Iterable[Claim], read: Iterable[Reading]) -> dict[bytes, bytes]:
    """Return the lists that claims prove to be replaced and that a relay still returns; by id."""
    held = frozenset[bytes]().union(*(one.events for one in read))
    found: dict[bytes, bytes] = {}
    for claim in claims:
        found |= {id: author for id, author in claim.retracted.lists.items() if id in held}
    return found


def _kept(reading: Reading, left: Mapping[bytes, bytes]) -> Reading:
    """Return a reading without the lists that are replaced, and without their authors."""
    ids = reading.events & left.keys()
    if not ids:
        return reading
    authors = reading.authors - {left[id] for id in ids}
    return msgspec.structs.replace(reading, authors=authors, events=reading.events - ids)


def _corrected(
    claim: Claim,
    query: Query,
    kept: Reading,
    unknown: Mapping[str, frozenset[bytes]],
    before: Mapping[bytes, float],
) -> Claim:
    """Return a claim with the rest of its reading; authors that were not compared now may be gone
    as well.

    `unknown`: those who were never compared, by the reason. `before`: those who were compared
    earlier, with the share by which they may be gone since.
    """
    doubts = {**before, **dict.fromkeys(frozenset[bytes]().union(*unknown.values()), 1.0)}
    doubted = doubts.keys() & kept.authors
    if kept is not claim.reading:
        claim = msgspec.structs.replace(claim, count=len(kept.events))
        if claim.registers is not None and query.offset is not None:
            made = hll.from_pubkeys(kept.authors, query.offset)
            claim = msgspec.structs.replace(claim, registers=made)
    if doubted:
        share = sum(doubts[author] for author in doubted) / len(kept.authors)
        kept = msgspec.structs.replace(kept, gone=max(kept.gone, share), proven=Proven.NOTHING)
        claim = claim.warned(_not_compared(kept.authors, unknown, len(doubted)))
    return msgspec.structs.replace(claim, reading=kept)


class FetchedLists:
    """What relays returned, by author, and by relay the authors about which one did not answer.

    `why`: by relay, what it answered instead, with its name.
    """

    def __init__(self, urls: Iterable[str]) -> None:
        self.given: dict[bytes, list[Event]] = {}
        self.unknown: dict[str, set[bytes]] = {url: set() for url in urls}
        self.why: dict[str, str] = {}
        self._by_relay: dict[str, dict[bytes, Event]] = {url: {} for url in self.unknown}

    def lack(self, url: str, authors: Iterable[bytes], why: str) -> None:
        """Note that a relay did not return the newest lists of these authors."""
        self.unknown[url].update(authors)
        self.why.setdefault(url, f"{clip(url)}: {why}")

    def first_why(self, authors: Collection[bytes]) -> str:
        """Return what a relay answered that did not return the list of one of these authors."""
        return next((w for url, w in self.why.items() if self.unknown[url] & set(authors)), "")

    def take(self, url: str, list_: Event) -> None:
        """Add a list that a relay returned."""
        author, newest = bytes.fromhex(list_.pubkey), self._by_relay[url]
        self.given.setdefault(author, []).append(list_)
        newest[author] = min(newest.get(author, list_), list_, key=nip01_order)

    def newest_of(self, url: str) -> Mapping[bytes, Event]:
        """Return the newest list of each author that a relay returned."""
        return self._by_relay[url]


class NewestLists:
    """Fetches the newest lists of authors from relays, for a question about such lists.

    `seconds`: for each page.
    """

    def __init__(
        self, query: Query, relays: Mapping[str, Relay], seconds: float, budget: ReadBudget
    ) -> None:
        (self._asked,) = query.filters
        self._relays = relays
        self._seconds = seconds
        self._budget = budget

    def holds(self, event: Event) -> bool:
        """Whether a list still matches the question."""
        return self._asked.matches(event)

    async def lists(self, wanted: Mapping[str, Collection[bytes]]) -> FetchedLists:
        """Fetch the newest lists of authors, as each relay has them, from all relays at once.

        A relay that may not be asked is as one that does not answer.
        """
        out = FetchedLists(wanted)
        async with task_group() as group:
            for url, authors in wanted.items():
                if url not in self._relays:
                    if authors:
                        out.lack(url, authors, "not asked now")
                elif authors:
                    group.create_task(self._of_relay(self._relays[url], sorted(authors), out))
        return out

    async def _of_relay(self, relay: Relay, authors: Sequence[bytes], out: FetchedLists) -> None:
        if authors[MOST:]:
            out.lack(relay.url, authors[MOST:], f"asked for {MOST:,} of these lists at most")
        batches = [authors[n : n + BATCH] for n in range(0, min(len(authors), MOST), BATCH)]
        async with task_group() as group:
            for batch in batches:
                group.create_task(self._batch(relay, batch, out))

    async def _batch(self, relay: Relay, authors: Sequence[bytes], out: FetchedLists) -> None:
        """Ask until nothing more comes: a relay may return fewer lists at once."""
        left = list(authors)
        while left:
            asked = Filter(kinds=self._asked.kinds, authors=[author.hex() for author in left])
            try:
                page = await relay.fetch([asked], self._seconds, budget=self._budget, partial=True)
            except RelayError as error:
                out.lack(relay.url, left, _answer(error))
                return
            came = [one.event for one in page.events if asked.matches(one.event)]
            for event in came:
                out.take(relay.url, event)
            if not page.complete:
                why = "did not send all of them" if page.error is None else _answer(page.error)
                out.lack(relay.url, left, why)
                return
            known = out.newest_of(relay.url)
            left = [author for author in left if author not in known] if came else []


def _answer(error: RelayError) -> str:
    text = str(error).removeprefix(f"{error.relay}: ")
    return clip(text, _REASON)
