"""Read the input of cards from a store: events, wallets, and the numbers of watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.assertions.cards import Measured
from nostr_client.assertions.fields import ADDRESS, EVENT, USER
from nostr_client.assertions.tally import AssertionTally
from nostr_client.codecs.display import plural
from nostr_client.count.claims import ClaimBook
from nostr_client.count.remembering import asked_of
from nostr_client.count.wallets import rows as wallets
from nostr_client.count.within import stored_web
from nostr_client.errors import InvalidInput
from nostr_client.store.sync_memory import TriedTable
from nostr_client.watch.repository import WatchRepository

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nostr_client.codecs.web_of_trust import Root
    from nostr_client.count.wallets.keys import Wallet
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.watch.definition import Watch

_DOWN: Final = 0
_FIELD_OF: Final = {
    "followers": ((USER, "followers"),),
    "reactions": ((EVENT, "reaction_cnt"), (ADDRESS, "reaction_cnt")),
    "reposts": ((EVENT, "repost_cnt"), (ADDRESS, "repost_cnt")),
}
"""Queries of watches whose number is a field in the same unit."""


async def tallied(
    store: SqliteStore, now: int, *, claimed_zaps: bool = False, viewpoint: Root | None = None
) -> AssertionTally:
    """Count everything in a store. `claimed_zaps`: also count receipts that no known wallet signed.

    `viewpoint`: whose web of trust gives ranks. Raises InvalidInput if its follow list is not
    stored, StoreError.
    """
    known = {one.recipient: one for one in await store.database.read(wallets.all_kept)}
    tally = AssertionTally(now, _always if claimed_zaps else _by_wallets(known))
    async for event in store.export():
        tally.add(event)
    tally.web = None if viewpoint is None else await stored_web(store, viewpoint)
    return tally


async def why_not_whole(store: SqliteStore, tally: AssertionTally, now: int) -> str:
    """Return why a store is not fit to publish from, or "": it is empty, or was synced in part."""
    if not tally.events:
        return "the store is empty: sync or import events first"
    tried, _ = await TriedTable(store.database).summary(now)
    missing = sum(one.events for one in tried if one.side == _DOWN)
    if missing:
        return (
            f"{plural(missing, 'event')} that relays named did not come (`nostr-client sync memory`"
            " shows them): sync again first"
        )
    return ""


async def measured_by(
    store: SqliteStore, names: Sequence[str]
) -> tuple[dict[tuple[int, str], dict[str, Measured]], dict[tuple[int, str], str]]:
    """Return the newest numbers of watches, by subject and field, and the subjects that lack one,
    with the reason.

    Raises InvalidInput for a watch that does not exist, or whose question matches no field in the
    same unit.
    """
    found: dict[tuple[int, str], dict[str, Measured]] = {}
    waiting: dict[tuple[int, str], str] = {}
    book = WatchRepository(store.database)
    for name in names:
        got = await book.get(name)
        if got is None:
            raise InvalidInput(f"no watch named {name!r}")
        subject, field = _subject_of(got[0])
        measured = await _newest(store, book, got[0])
        if measured is None:
            waiting[subject] = f"watch {name!r} has no number yet: run it first"
        else:
            found.setdefault(subject, {})[field] = measured
    return found, waiting


def _subject_of(watch: Watch) -> tuple[tuple[int, str], str]:
    target = watch.question.target
    for kind, field in _FIELD_OF.get(watch.question.name, ()):
        if target is not None and (kind == USER or (kind == ADDRESS) == (":" in target)):
            return (kind, target), field
    raise InvalidInput(
        f"watch {watch.name!r}: only followers, reactions and reposts are fields of cards"
    )


async def _newest(store: SqliteStore, book: WatchRepository, watch: Watch) -> Measured | None:
    points = await book.history(watch.name)
    if not points:
        return None
    point = points[-1]
    asked = await book.relays(watch.name) or ()
    claims = await ClaimBook(store.database).recall(asked_of(watch.question), point.at)
    answered = sum(one.answer is not None and one.failure is None for one in claims)
    return Measured(
        point.value,
        point.low,
        point.high,
        point.exact,
        point.at,
        max(len(asked), answered),
        answered,
    )


def _by_wallets(known: dict[str, Wallet]) -> Callable[[str, str, int], bool | None]:
    def signed(receiver: str, signer: str, at: int) -> bool | None:
        wallet = known.get(receiver)
        return wallet.signed(signer, at) if wallet is not None and wallet.is_known else None

    return signed


def _always(_receiver: str, _signer: str, _at: int) -> bool:
    return True
