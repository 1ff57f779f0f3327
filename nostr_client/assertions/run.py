"""Publish the cards of one key once: count the store, sign what changed, send what relays lack.

`nostr-client assertions publish` runs it by hand, and the agent at an interval.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from nostr_client.assertions.cards import Card, cards_of
from nostr_client.assertions.fields import USER
from nostr_client.assertions.ledger import Ledger
from nostr_client.assertions.publisher import Publisher
from nostr_client.assertions.sources import measured_by, tallied, why_not_whole
from nostr_client.codecs import kinds
from nostr_client.codecs.display import plural
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.web_of_trust import Root
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from nostr_client.assertions.cards import CardOptions
    from nostr_client.assertions.report import PublishReport
    from nostr_client.assertions.tally import AssertionTally
    from nostr_client.codecs.keys import Signer
    from nostr_client.store.sqlite import SqliteStore

Subject = tuple[int, str]
"""A card's kind and `d`."""


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
    def method(self) -> str:
        """How zaps are counted and who ranks: one key keeps one method."""
        zaps = "claimed zaps" if self.claimed_zaps else "verified zaps"
        return zaps if self.viewpoint is None else f"{zaps}, ranks as seen by {self.viewpoint}"


async def publish(
    store: SqliteStore,
    signer: Signer,
    plan: AssertionPlan,
    options: CardOptions,
    relays: Sequence[str],
    *,
    now: Callable[[], float],
    send: Callable[[Publisher], Awaitable[None]] | None,
    note: Callable[[str], object] = lambda _: None,
) -> PublishReport:
    """Publish the cards of a plan; `now` gives Unix seconds, and without `send` nothing is signed.
    `note` receives what people should know of the numbers.

    Raises InvalidInput if nothing may be published: of a store that is empty or read in part, with
    the key of a person, or without an input that the plan names. Raises StoreError. Safe to cancel:
    what was signed is in the ledger, and the next run sends it.
    """
    at, dry = int(now()), send is None
    tally = await tallied(store, at, claimed_zaps=plan.claimed_zaps, viewpoint=plan.viewpoint)
    why = await why_not_whole(store, tally, at)
    if why:
        raise InvalidInput(f"nothing is published: {why}")
    if signer.pubkey in tally.identities:
        raise InvalidInput("this key follows, writes or reacts: cards need a key of their own")
    missing = 0 if tally.web is None else tally.web.followed - tally.web.lists
    if missing:
        note(f"ranks are without {plural(missing, 'follow list')}, not stored")
    measured, waiting = await measured_by(store, plan.watches)
    if waiting and not plan.patient:
        raise InvalidInput(next(iter(waiting.values())))
    chosen = [*plan.subjects, *await _chosen(store, tally, plan), *measured]
    wanted = dict.fromkeys(one for one in chosen if one not in waiting)
    ledger = Ledger(store.database, signer.pubkey)
    publisher = Publisher(ledger, signer, options, now)
    if not dry:
        await ledger.claim(plan.method)
        await publisher.introduce(relays, plan.name, about(plan.method))
    withheld = (Card(*subject, {}, {}, why_not=why) for subject, why in waiting.items())
    cards = chain(withheld, cards_of(tally, wanted, options, measured))
    await publisher.sign(cards, dry_run=dry)
    kept = wanted | dict.fromkeys(waiting)
    gone = [one for one in await ledger.subjects() if _is_gone(one, tally, plan, kept)]
    await publisher.retract(gone, dry_run=dry)
    if send is not None:
        await send(publisher)
    return publisher.report


def about(method: str) -> str:
    """Return the text in the profile of a key about its numbers (NIP-85, appendix 1)."""
    return (
        "Counts of followers, posts, reactions, reposts, replies and zaps over the events of many "
        f"relays, by nostr-tally ({method}). What each number counts: `nostr-client assertions "
        "fields`."
    )


def _is_gone(
    subject: Subject, tally: AssertionTally, plan: AssertionPlan, kept: dict[Subject, None]
) -> bool:
    """Whether to retract a published card: its key vanished, or only others are wanted."""
    vanished = len(subject[1]) == 64 and tally.has_vanished(subject[1])
    return vanished or (plan.prune and subject not in kept)


async def _chosen(store: SqliteStore, tally: AssertionTally, plan: AssertionPlan) -> list[Subject]:
    chosen = list(tally.subjects()) if plan.everything else []
    if plan.followed_by:
        key = plan.followed_by
        lists = await store.query([Filter(kinds=[kinds.CONTACTS], authors=[key])])
        if not lists:
            raise InvalidInput(f"the store holds no follow list (kind 3) of {key}")
        chosen += [(USER, one) for one in dict.fromkeys(lists[0].tag_values("p"))]
    return chosen
