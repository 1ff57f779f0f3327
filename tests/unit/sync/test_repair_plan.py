"""The rules of a repair: what goes to whom, in which order, and what stays and why."""

from __future__ import annotations

import msgspec
import pytest

from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.store.rules import Coordinate
from nostr_client.sync.coverage.matrix import DeletedIds
from nostr_client.sync.coverage.plan import (
    MOST_UNASKED,
    RECENT,
    MissingEvent,
    Rules,
    SkipReason,
    planned,
    recipients,
)

OWN = KeySigner(bytes(31) + b"\x21")
OTHER = KeySigner(bytes(31) + b"\x22")
NOW = 1_800_000_000
URL = "wss://one.example"


def made(kind: int = 1, at: int = NOW - 60, *tags: tuple[str, ...], by: KeySigner = OWN) -> Event:
    return by.sign_now(EventTemplate(kind=kind, tags=tags, created_at=at)).event


def wanted(event: Event, *, named: bool = True, url: str = URL) -> MissingEvent:
    return MissingEvent(relay=url, url=url, id=event.id, event=event, named=named)


RULES = Rules(author=OWN.pubkey, pubkey=OWN.pubkey, now=NOW)

GONE = made()
VANISH = made(62, NOW - 10, ("relay", URL))

STAYS: dict[str, tuple[SkipReason, Event, bool, dict[str, object]]] = {
    "a message": (SkipReason.PRIVATE, made(4), True, {}),
    "application data": (SkipReason.PRIVATE, made(30078), True, {}),
    "a list with a secret part": (SkipReason.PRIVATE, OWN.sign_now(
        EventTemplate(kind=10000, content="x", created_at=NOW)).event, True, {}),
    "a protected note": (SkipReason.PROTECTED, made(1, NOW - 60, ("-",)), True, {}),
    "an expired note": (SkipReason.EXPIRED, made(1, NOW - 60, ("expiration", f"{NOW}")), True, {}),
    "a deleted note": (SkipReason.DELETED, GONE, True,
        {"gone": DeletedIds(ids=frozenset({GONE.id}))}),
    "a deleted version": (SkipReason.DELETED, made(0), True,
        {"gone": DeletedIds(addresses={Coordinate(0, OWN.pubkey, ""): NOW})}),
    "before a vanish": (SkipReason.VANISHED, made(), True, {"vanishing": (VANISH,)}),
    "a deletion from before a vanish": (SkipReason.VANISHED, made(5), True, {
        "vanishing": (VANISH,)}),
    "a vanish from others": (SkipReason.ELSEWHERE,
        made(62, NOW - 5, ("relay", "wss://two.example")), True, {}),
    "dropped twice": (SkipReason.DROPPED, GONE, True, {"dropped": {URL: {GONE.id: 2}}}),
    "refused": (SkipReason.REFUSED, GONE, True, {"refused": {URL: frozenset({GONE.id})}}),
    "another's, to a stranger's relay": (SkipReason.FOREIGN, made(by=OTHER), False, {}),
    "old, to a stranger's relay": (SkipReason.OLD, made(1, NOW - RECENT - 1), False, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_and_why(name: str) -> None:
    why, event, named, changes = STAYS[name]
    rules = msgspec.structs.replace(RULES, author=event.pubkey, **changes)
    plan = planned([wanted(event, named=named)], rules)
    assert plan.steps == ()
    assert plan.left == ((URL, why, 1),)


def test_what_goes() -> None:
    own, once = made(), made(7)
    plan = planned(
        [wanted(own), wanted(once), wanted(made(1, NOW - RECENT - 1)), wanted(own, named=False)],
        RULES,
    )
    assert len(plan.steps) == 3
    assert not plan.left
    dropped = Rules(
        author=OWN.pubkey, pubkey=None, now=NOW, dropped={URL: {own.id: 1}}, vanishing=(VANISH,)
    )
    elsewhere = wanted(own, url="wss://two.example")
    assert planned([elsewhere], dropped).of("wss://two.example") == [own]


def test_deletions_go_first_and_then_the_newest() -> None:
    notes = [made(1, NOW - n) for n in (30, 10, 20)]
    gone = made(5, NOW - 90, ("e", GONE.id))
    plan = planned([wanted(one) for one in [*notes, gone]], RULES)
    assert [one.created_at for one in plan.of(URL)] == [NOW - 90, NOW - 10, NOW - 20, NOW - 30]


def test_to_relays_that_nobody_named_go_200_a_run() -> None:
    events = [made(1, NOW - n) for n in range(MOST_UNASKED + 7)]
    urls = ("wss://a.example", "wss://b.example")
    plan = planned([wanted(e, named=False, url=u) for e in events for u in urls], RULES)
    assert len(plan.steps) == MOST_UNASKED
    assert (
        sum(number for _, why, number in plan.left if why is SkipReason.MANY)
        == len(events) * 2 - 200
    )


def test_an_event_that_nobody_sends_is_told_of() -> None:
    unseen = MissingEvent(relay=URL, url=URL, id="ab" * 32, event=None, named=True)
    assert planned([unseen], RULES).left == ((URL, SkipReason.UNSEEN, 1),)


def test_whom_events_mention() -> None:
    one = made(1, NOW, ("p", OTHER.pubkey), ("p", OWN.pubkey), ("p", "no key"))
    assert recipients([one]) == {OTHER.pubkey: {one.id}}
