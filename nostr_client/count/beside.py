"""Judge answers that came one by one, each beside those of the question's other relays.

A count asks all relays at once, so each is asked about the others' events. A watch asks each relay
by itself. Once all relays of its first round have answered, their claims are judged as in a count:
by samples of the ids that they name, by deletions, and by newer lists. Nothing is read again.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec

from nostr_client.count.judging import EarlierIds, JudgedRelay, ids_of
from nostr_client.count.merge import Retracted
from nostr_client.count.merge.values import asked_earlier
from nostr_client.count.reading.seen import SeenEvents
from nostr_client.network.waiting import task_group

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nostr_client.count.judging import SharedIds
    from nostr_client.count.merge import Claim
    from nostr_client.count.queries import Query
    from nostr_client.network.relay import Relay


class FirstRound:
    """The answers of relays that are asked one by one, until their claims are judged together."""

    def __init__(self) -> None:
        self.seen = SeenEvents()
        self.earlier: dict[str, Claim | None] = {}
        """Each relay's answer before this round, by normalised URL."""

    def unjudged(self, url: str, claim: Claim, earlier: Claim | None) -> Claim:
        """A claim that waits to be judged: what was proven before stays proven meanwhile.

        `earlier`: the relay's previous answer, from this round if it is asked twice.
        """
        before = self.earlier.setdefault(url, earlier)
        if before is None or not claim.answered:
            return claim
        said = before.retracted
        asked = asked_earlier(before, said.all_asked)
        known = Retracted(ids=said.ids, replaced=said.replaced, lists=said.lists, **asked)
        return msgspec.structs.replace(claim, retracted=known)


async def judge_beside(
    query: Query,
    claims: Mapping[str, Claim],
    relays: Mapping[str, Relay],
    shared: SharedIds,
    first: FirstRound,
    *,
    seconds: float,
    patience: float,
) -> dict[str, Claim]:
    """Return the claims of a first round, by URL, with what relays prove about each other's events.

    `shared` waits for these relays. `seconds`: for all of it; `patience`: for the checks of others.
    Raises StoreError; a relay's failure is not raised. Safe to cancel.
    """
    for url, claim in claims.items():
        shared.report(relays[url], ids_of(claim))
    judgings = {
        url: JudgedRelay(
            relays[url],
            query,
            shared,
            claim.listing,
            EarlierIds.of(first.earlier.get(url)),
            patience=patience,
            authors=claim.reading.authors if claim.reading else frozenset(),
        )
        for url, claim in claims.items()
        if ids_of(claim) is not None
    }
    with contextlib.suppress(TimeoutError):  # what is known by then is judged
        async with asyncio.timeout(seconds), task_group() as group:
            for one in judgings.values():
                group.create_task(one.run())
    return {url: _judged(claim, judgings.get(url)) for url, claim in claims.items()}


def _judged(claim: Claim, judging: JudgedRelay | None) -> Claim:
    if judging is None:
        return claim
    return msgspec.structs.replace(
        claim,
        listing=judging.listing,
        retracted=judging.retracted,
        bytes_read=claim.bytes_read + judging.traffic,
    )
