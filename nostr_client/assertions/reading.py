"""Read what trusted providers assert (NIP-85), to be shown beside what relays answer.

An assertion is a number at second hand: it is never merged, never summed and never exact here, and
its age stands beside it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from nostr_client.assertions.declaration import (
    DECLARATION,
    MOST_PROVIDERS,
    declared,
    private_rows,
)
from nostr_client.assertions.fields import ADDRESS, EVENT, USER, Subject, field_named
from nostr_client.assertions.report import Asserted as Asserted
from nostr_client.assertions.report import AssertedStatus as AssertedStatus
from nostr_client.codecs import kinds, nip19
from nostr_client.codecs.display import age, said
from nostr_client.codecs.event import nip01_order
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.nip44 import Nip44
from nostr_client.count.figures import LARGEST
from nostr_client.errors import InvalidInput
from nostr_client.options import ReadBudget

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import KeySigner
    from nostr_client.count.figures import Figure
    from nostr_client.count.queries import Query
    from nostr_client.network.paging.page import EventPage
    from nostr_client.network.pool import RelayAnswers, RelayPool

_BUDGET: Final = ReadBudget(events=200, bytes=1_000_000)
"""A relay has one card and perhaps one deletion of each provider; more is a flood."""

AHEAD_S: Final = 60.0
"""How far a provider's clock may be ahead of ours."""

_NUMBER: Final = re.compile(r"[0-9]{1,19}")

_FIELD_OF: Final = {
    "followers": "followers",
    "reactions": "reaction_cnt",
    "reposts": "repost_cnt",
    "quotes": "quote_cnt",
    "replies+comments": "comment_cnt",
    "zaps": "zap_cnt",
}
"""The field of a card that answers a canonical query."""


def subject_of_query(query: Query) -> Subject:
    """Return the card and the field that answer a query. Raises InvalidInput if none does."""
    field, target = _FIELD_OF.get(query.name), query.target
    if field is None or target is None:
        names = ", ".join(_FIELD_OF)
        raise InvalidInput(f"providers assert {names}, and not what {query.name} counts")
    if query.name == "followers":
        return Subject(USER, target, field)
    if query.pays_person:
        return Subject(USER, target, "zap_cnt_recd")
    return Subject(ADDRESS if ":" in target else EVENT, target, field)


async def read_declaration(pool: RelayPool, relays: Sequence[str], user: str) -> Event | None:
    """Return the newest declaration of a user (hex pubkey) that the relays have; None without one.

    Takes no longer than the group's deadline. A failing relay is as one without it.
    """
    asked = Filter(kinds=[DECLARATION], authors=[user])
    found = await pool.gather(relays, lambda relay: relay.fetch(asked, budget=_BUDGET))
    events = [one.event for page in found.answers.values() for one in page.events]
    return min(events, key=nip01_order, default=None)


async def read_declared(
    pool: RelayPool, relays: Sequence[str], user: str | KeySigner, subject: Subject
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the providers that a user trusts for a field, and where their cards are.

    `user`: a pubkey (npub or hex), or the own key, which also reads the encrypted part. Takes no
    longer than the group's deadline. Raises InvalidInput for an encrypted part that cannot be read,
    MissingExtra.
    """
    pubkey = nip19.decode_pubkey(user) if isinstance(user, str) else user.pubkey
    found = await read_declaration(pool, relays, pubkey)
    if found is None:
        return (), ()
    if isinstance(user, str) or not found.content:
        return declared(found, subject)
    key = Nip44(user, "a declaration that is encrypted")
    return declared(found, subject, private_rows(found, key))


async def read_assertions(
    pool: RelayPool, relays: Sequence[str], providers: Sequence[str], query: Query, *, now: float
) -> list[Asserted]:
    """Return what each provider (hex pubkey) asserts about the target of a query, in order.

    `relays`: where their cards are looked for. `now`: Unix seconds. Takes no longer than the
    group's deadline; a failing relay is a status. Raises InvalidInput for a query that no card
    answers, or too many providers. Safe to cancel.
    """
    subject = subject_of_query(query)
    whom = list(dict.fromkeys(providers))
    if len(whom) > MOST_PROVIDERS:
        raise InvalidInput(f"{len(whom)} providers: {MOST_PROVIDERS} are the most")
    places = [f"{subject.kind}:{one}:{subject.name}" for one in whom]
    asked = [
        Filter(kinds=[subject.kind], authors=whom, tags={"#d": [subject.name]}),
        Filter(kinds=[kinds.DELETION], authors=whom, tags={"#a": places}),
    ]
    found = await pool.gather(relays, lambda relay: relay.fetch(asked, budget=_BUDGET))
    return [_asserted(one, subject, found, now) for one in whom]


def _asserted(
    provider: str, subject: Subject, found: RelayAnswers[EventPage], now: float
) -> Asserted:
    by_relay = {
        url: [one.event for one in page.events if one.event.pubkey == provider]
        for url, page in found.answers.items()
    }
    card = newest_card([one for events in by_relay.values() for one in events], subject)
    field = f"{subject.kind}:{subject.field}"
    if card is None:
        status = AssertedStatus.NO_CARD if found.answers else AssertedStatus.UNREACHABLE
        return Asserted(provider=provider, field=field, status=status)
    status, value = asserted_value(card, subject, now)
    return Asserted(
        provider=provider,
        field=field,
        status=status,
        value=value,
        counted_at=counted_at(card, now),
        relays=tuple(url for url, events in by_relay.items() if card in events),
    )


def newest_card(events: Iterable[Event], subject: Subject) -> Event | None:
    """Return the newest card of a subject that its signer has not deleted; None without one."""
    listed = list(events)
    deletions = [one for one in listed if one.kind == kinds.DELETION]
    cards = (
        one
        for one in listed
        if one.kind == subject.kind
        and one.first_tag("d") == subject.name
        and not any(_deletes(deletion, one) for deletion in deletions)
    )
    return min(cards, key=nip01_order, default=None)


def _deletes(deletion: Event, card: Event) -> bool:
    """Whether a deletion by the card's signer names the card (NIP-09), by address or by id."""
    if deletion.pubkey != card.pubkey:
        return False
    place = f"{card.kind}:{card.pubkey}:{card.first_tag('d')}"
    by_address = place in deletion.tag_values("a") and card.created_at <= deletion.created_at
    return by_address or card.id in deletion.tag_values("e")


def asserted_value(card: Event, subject: Subject, now: float) -> tuple[AssertedStatus, int | None]:
    """Return the number that a card has for a field, and None with the reason if it has none."""
    ends = _number(card.first_tag("expiration"))
    if ends is not None and ends <= now:
        return AssertedStatus.EXPIRED, None
    value = _number(card.first_tag(subject.field))
    return (AssertedStatus.NO_FIELD if value is None else AssertedStatus.OK), value


def counted_at(card: Event, now: float) -> int | None:
    """Return when a card says that its numbers were counted, in Unix seconds; None for a card that
    is dated in the future."""
    at = _number(card.first_tag("counted_at")) or card.created_at
    return None if max(at, card.created_at) > now + AHEAD_S else at


def _number(text: str | None) -> int | None:
    if text is None or not _NUMBER.fullmatch(text) or int(text) > LARGEST:
        return None
    return int(text)


_WHY_NOT: Final = {
    AssertedStatus.NO_CARD: "asserts nothing about it, as far as the relays that were asked have",
    AssertedStatus.NO_FIELD: "has a card of it without this number",
    AssertedStatus.EXPIRED: "has a card of it that has expired",
    AssertedStatus.UNREACHABLE: "is not known: no relay that was asked for its card answered",
}


class RelayFigures(Protocol):
    """A number over relays, in both units."""

    @property
    def authors(self) -> Figure | None: ...

    @property
    def events(self) -> Figure | None: ...


def compared(one: Asserted, result: RelayFigures, now: float) -> str:
    """Return a sentence that sets an assertion beside what the relays show. `now`: Unix seconds."""
    who = f"provider {nip19.PublicKey(one.provider).encode()}"
    if one.value is None:
        return f"{who} {_WHY_NOT[one.status]}"
    at = one.counted_at
    is_ahead = at is None or at > now + AHEAD_S
    when = "dated in the future" if is_ahead else f"counted {age(max(now - (at or 0), 0))} ago"
    figure, unit = _figure(one, result)
    shown = "relays gave no number" if figure is None else f"relays show {said(figure, *unit)}"
    return f"{who} asserts {one.value:,}, {when}; {shown}{_difference(one.value, figure)}"


def _figure(one: Asserted, result: RelayFigures) -> tuple[Figure | None, tuple[str, str]]:
    """Return the number of the relays in the unit of the assertion, and its noun for one and
    several."""
    kind, name = one.field.split(":", 1)
    unit = field_named(int(kind), name).unit
    if unit == "people":
        return result.authors, ("person", "people")
    several = "receipts" if unit == "payments" else unit
    return result.events, (several.removesuffix("s"), several)


def _difference(value: int, figure: Figure | None) -> str:
    if figure is None:
        return ""
    if value < figure.low:
        return ", which is more"
    if figure.high is not None and value > figure.high:
        return ", which is less"
    return ""
