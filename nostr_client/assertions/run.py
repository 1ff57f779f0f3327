"""Publish the cards of one key once: take them from a source, sign what changed, send what relays
lack.

The source is the events of a store (`publish`) or a table of counts (`bulk`). `nostr-client
assertions publish` runs either by hand, and the agent runs the first at an interval.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from nostr_client.assertions.cards import Card, cards_of
from nostr_client.assertions.fields import USER, author_of
from nostr_client.assertions.introduction import Introduction, look_at_key
from nostr_client.assertions.ledger import Ledger
from nostr_client.assertions.publisher import Publisher
from nostr_client.assertions.report import PublishReport, RelayDelivery
from nostr_client.assertions.sources import measured_by, tallied, why_not_whole
from nostr_client.codecs import kinds
from nostr_client.codecs.display import plural
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.relay_url import normalize
from nostr_client.codecs.web_of_trust import Root
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from nostr_client.assertions.cards import CardOptions
    from nostr_client.assertions.relays import CardRelays
    from nostr_client.assertions.tally import AssertionTally
    from nostr_client.codecs.keys import Signer
    from nostr_client.store.sqlite import SqliteStore

Subject = tuple[int, str]
"""A card's kind and `d`."""

_COUNTS: Final = (
    "followers, posts, reactions, reposts, replies and zaps over the events of many relays"
)


class CardMethod(NamedTuple):
    """How the numbers of a key are counted: one key keeps one method. `name`: in its profile."""

    text: str
    counts: str
    name: str


class CardSource(Protocol):
    """The cards of one run, and which published cards go."""

    def cards(self) -> AsyncIterator[Iterable[Card]]:
        """Yield the cards, some at once."""
        ...

    async def gone(self, subjects: Sequence[Subject]) -> list[Subject]:
        """Return those of these published subjects whose cards are to be retracted."""
        ...


class AssertionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Whose cards a run publishes, and how they are counted.

    `followed_by`: a hex pubkey, whose stored follow list names people. `patient`: a watch without a
    number withholds its card, and is otherwise an error. `prune`: retract the cards of all other
    subjects. `name`: in the key's profile. `viewpoint`: whose web of trust gives ranks.
    """

    subjects: tuple[Subject, ...] = ()
    everything: bool = False
    followed_by: str = ""
    watches: tuple[str, ...] = ()
    patient: bool = False
    claimed_zaps: bool = False
    prune: bool = False
    name: str = "nostr-tally"
    viewpoint: Root | None = None

    @property
    def method(self) -> CardMethod:
        """How zaps are counted and who ranks."""
        text = "claimed zaps" if self.claimed_zaps else "verified zaps"
        if self.viewpoint is not None:
            text = f"{text}, ranks as seen by {self.viewpoint}"
        return CardMethod(text, _COUNTS, self.name)


async def publish(
    store: SqliteStore,
    signer: Signer,
    plan: AssertionPlan,
    options: CardOptions,
    relays: CardRelays,
    *,
    now: Callable[[], float],
    dry_run: bool = False,
    adopt: bool = False,
    note: Callable[[str], object] = lambda _: None,
) -> PublishReport:
    """Publish the cards of a plan; `now` gives Unix seconds. A dry run signs and sends nothing.
    `adopt`: take over a key that another store used. `note` receives what people should know of the
    numbers.

    Raises InvalidInput if nothing may be published: of a store that is empty or read in part, with
    the key of a person, or without an input that the plan names; a dry run raises the same. Raises
    StoreError. Safe to cancel: what was signed is in the ledger, and the next run sends it.
    """
    at = int(now())
    tally = await tallied(store, at, claimed_zaps=plan.claimed_zaps, viewpoint=plan.viewpoint)
    why = await why_not_whole(store, tally, at)
    if why:
        raise InvalidInput(f"nothing is published: {why}")
    missing = 0 if tally.web is None else tally.web.followed - tally.web.lists
    if missing:
        note(f"ranks are without {plural(missing, 'follow list')}, not stored")
    source = await _StoreCards.of(store, tally, plan, options)
    publisher = Publisher(Ledger(store.database, signer.pubkey), signer, options, now)
    publisher.report.without_card = tally.without_card() if plan.everything else {}
    return await publish_from(
        store, source, plan.method, publisher, relays, dry_run=dry_run, adopt=adopt
    )


async def publish_from(
    store: SqliteStore,
    source: CardSource,
    method: CardMethod,
    publisher: Publisher,
    relays: CardRelays,
    *,
    dry_run: bool,
    adopt: bool,
) -> PublishReport:
    """Sign the cards of a source that changed, retract what is gone, then send.

    `adopt`: take over a key that another store used. Raises InvalidInput for a key that counted by
    another method, or that a person uses. Raises RelayError if a relay does not show whose key it
    is.
    """
    ledger = publisher.ledger
    introduction = Introduction(tuple(relays.urls), method.name, about(method))
    await ledger.check(method.text)
    look = await look_at_key(store, ledger, relays, introduction, adopt=adopt)
    publisher.heed(look, adopt=adopt)
    if not dry_run:
        await ledger.claim(method.text)
        publisher.introduction = introduction
    async for cards in source.cards():
        await publisher.sign(cards, dry_run=dry_run)
    async for subjects in ledger.subjects():
        await publisher.retract(await source.gone(subjects), dry_run=dry_run)
    if not dry_run:
        await publisher.introduce_again()
        await relays.send(publisher, look.unknown)
    elif look.unknown or look.unread or look.others:
        publisher.report.relays = _refused(relays.urls, look.unknown, publisher.report)
    for url, delivery in publisher.report.relays.items():
        delivery.unread = look.unread.get(url, "")
        delivery.others = 0 if adopt else look.others.get(url, 0)
    return publisher.report


def _refused(
    urls: Iterable[str], unknown: Mapping[str, str], report: PublishReport
) -> dict[str, RelayDelivery]:
    """Return the relays of a dry run; those of `unknown` would get nothing."""
    left = report.signed + report.retracted
    every = {url: RelayDelivery() for url in map(normalize, urls)}
    return every | {url: RelayDelivery(left=left, error=why) for url, why in unknown.items()}


def about(method: CardMethod) -> str:
    """Return the text in the profile of a key about its numbers (NIP-85, appendix 1)."""
    return (
        f"Counts of {method.counts}, by nostr-tally ({method.text}). What each number counts: "
        "`nostr-client assertions fields`."
    )


class _StoreCards:
    """Cards of the subjects of a plan, from the events of a store and the numbers of watches."""

    def __init__(
        self, tally: AssertionTally, prune: bool, wanted: Iterable[Subject], cards: Iterable[Card]
    ) -> None:
        self._tally = tally
        self._prune = prune
        self._wanted = frozenset(wanted)
        self._cards = cards

    @classmethod
    async def of(
        cls, store: SqliteStore, tally: AssertionTally, plan: AssertionPlan, options: CardOptions
    ) -> _StoreCards:
        """Find the subjects of a plan. Raises InvalidInput for an input that is missing."""
        measured, waiting = await measured_by(store, plan.watches)
        if waiting and not plan.patient:
            raise InvalidInput(next(iter(waiting.values())))
        chosen = [*plan.subjects, *await _chosen(store, tally, plan), *measured]
        wanted = dict.fromkeys(one for one in chosen if one not in waiting)
        withheld = (Card(*subject, {}, {}, why_not=why) for subject, why in waiting.items())
        cards = chain(withheld, cards_of(tally, wanted, options, measured))
        return cls(tally, plan.prune, wanted | waiting, cards)

    async def cards(self) -> AsyncIterator[Iterable[Card]]:
        """Yield all cards as one iterator, which counts each when it is taken."""
        yield self._cards

    async def gone(self, subjects: Sequence[Subject]) -> list[Subject]:
        """Return those whose key vanished and, to prune, those that are not wanted."""
        return [one for one in subjects if self._is_gone(one)]

    def _is_gone(self, subject: Subject) -> bool:
        author = author_of(*subject)
        vanished = author is not None and self._tally.has_vanished(author)
        return vanished or (self._prune and subject not in self._wanted)


async def _chosen(store: SqliteStore, tally: AssertionTally, plan: AssertionPlan) -> list[Subject]:
    chosen = list(tally.subjects()) if plan.everything else []
    if plan.followed_by:
        key = plan.followed_by
        lists = await store.query([Filter(kinds=[kinds.CONTACTS], authors=[key])])
        if not lists:
            raise InvalidInput(f"the store holds no follow list (kind 3) of {key}")
        chosen += [(USER, one) for one in dict.fromkeys(lists[0].tag_values("p"))]
    return chosen
