"""Cards of NIP-85: each number against a plain count over the shared events; when one is signed."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.assertions import FIELDS, AssertionTally, CardOptions, cards_of
from nostr_client.assertions.cards import Card, Measured, is_due
from nostr_client.assertions.declaration import declaration
from nostr_client.assertions.fields import (
    ADDRESS,
    EVENT,
    IDENTIFIER,
    READERS,
    SUBJECTS,
    USER,
    field_named,
    table,
)
from nostr_client.assertions.tally import busiest
from nostr_client.codecs.event import Event, EventTemplate, parse_event
from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.private_kinds import is_private
from nostr_client.codecs.web_of_trust import FollowsAndMutes, Root, web_of
from nostr_client.errors import InvalidInput
from tests.conftest import shared_path
from tests.zapping import SENDER, zap_tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NOW = 1_800_000_000
OPTIONS = CardOptions()
ME, OTHER, WALLET = (KeySigner(sha256(name).digest()) for name in (b"me", b"other", b"wallet"))


def made(signer: KeySigner, kind: int, *tags: tuple[str, ...], at: int = 1_000) -> Event:
    return signer.sign_now(EventTemplate(kind=kind, tags=tags, created_at=at)).event


def tally_of(events: Iterable[Event], *, signed: bool | None = True) -> AssertionTally:
    tally = AssertionTally(NOW, lambda *_: signed)
    for event in events:
        tally.add(event)
    return tally


# The oracle: the same numbers, one subject after the other, over the decoded lines of the file.

Line = dict[str, Any]


def lines() -> list[Line]:
    path = shared_path("data/events.jsonl")
    found = {one["id"]: one for one in map(json.loads, path.read_text("utf-8").splitlines())}
    return list(found.values())


def newest_only(events: list[Line]) -> list[Line]:
    """Without older versions of replaceable and addressable events."""
    slots: dict[Any, Line] = {}
    for one in events:
        kind, slot = one["kind"], one["id"]
        if kind in (0, 3) or 10_000 <= kind < 20_000:
            slot = (one["pubkey"], kind)
        elif 30_000 <= kind < 40_000:
            slot = (one["pubkey"], kind, ([*values(one, "d"), ""])[0])
        there = slots.get(slot)
        if there is None or (-one["created_at"], one["id"]) < (-there["created_at"], there["id"]):
            slots[slot] = one
    return list(slots.values())


def values(event: Line, name: str) -> list[str]:
    return [tag[1] for tag in event["tags"] if tag[0] == name and len(tag) > 1]


def replied_to(event: Line, names: str) -> set[str]:
    """The parents and roots of a note, by NIP-10."""
    tags = [tag for tag in event["tags"] if tag[0] in names and len(tag) > 1]
    marked = [t for t in tags if len(t) > 3 and t[3] in ("root", "reply")]
    unmarked = [t for t in tags if len(t) < 4 or t[3] not in ("root", "reply", "mention")]
    if marked:
        return {t[1] for t in marked} | {t[1] for t in unmarked if t[0] == "a"}
    ids = [t[1] for t in unmarked if t[0] == "e"]
    return {*ids[:1], *ids[-1:], *(t[1] for t in unmarked if t[0] == "a")}


def by_subject(events: list[Line]) -> dict[str, list[Line]]:
    """The events that are by, or name in any tag, each key, id, address or identifier."""
    found: dict[str, list[Line]] = defaultdict(list)
    for one in events:
        named = {value for tag in one["tags"] for value in tag[1:]}
        for subject in {one["pubkey"], *named}:
            found[subject].append(one)
    return found


def hours_of(events: list[Line], key: str) -> dict[str, int]:
    """The fewest hours in a row with four fifths of the notes; of several the busiest, then the
    earliest."""
    notes = [one for one in events if one["kind"] == 1 and one["pubkey"] == key]
    each = Counter(one["created_at"] // 3600 % 24 for one in notes)
    names = ("active_hours_start", "active_hours_end")
    for length in range(1, 24):
        held = {start: sum(each[(start + n) % 24] for n in range(length)) for start in range(24)}
        start = max(held, key=lambda one: (held[one], -one))
        if 5 * held[start] >= 4 * len(notes):
            return dict(zip(names, (start, (start + length) % 24), strict=True)) if notes else {}
    return dict(zip(names, (0, 24), strict=True))


def people(events: list[Line]) -> int:
    return len({one["pubkey"] for one in events})


def of_person(events: list[Line], key: str) -> dict[str, Any]:
    notes = [one for one in events if one["kind"] == 1 and one["pubkey"] == key]
    replies = [one for one in notes if replied_to(one, "ea")]
    comments = [one for one in events if one["kind"] == 1111 and one["pubkey"] == key]
    found: dict[str, Any] = {
        "followers": people([e for e in events if e["kind"] == 3 and key in values(e, "p")]),
        "post_cnt": len(notes) - len(replies),
        "reply_cnt": len(replies) + len(comments),
        "reactions_cnt": sum(e["kind"] == 7 and values(e, "p")[-1:] == [key] for e in events),
        "reports_cnt_recd": people(
            [e for e in events if e["kind"] == 1984 and key in values(e, "p")]
        ),
        "reports_cnt_sent": sum(e["kind"] == 1984 and e["pubkey"] == key for e in events),
    }
    if notes:
        found["first_created_at"] = min(one["created_at"] for one in notes)
    topics = Counter(t for one in notes for t in {v.lower() for v in values(one, "t")})
    if topics:
        found["t"] = tuple(sorted(topics, key=lambda t: (-topics[t], t))[:5])
    return found


def of_thing(events: list[Line], subject: str, name: str) -> dict[str, Any]:
    def commented(one: Line) -> bool:
        if one["kind"] == 1:
            return subject in replied_to(one, "ea" if ":" in subject else "e")
        named = (subject in values(one, letter) for letter in ("Aa" if ":" in subject else "Ee"))
        return bool(one["kind"] == 1111 and any(named))

    def reacted(one: Line) -> bool:
        if one["kind"] != 7:
            return False
        return subject in values(one, "a") if name == "a" else values(one, "e")[-1:] == [subject]

    return {
        "comment_cnt": sum(map(commented, events)),
        "quote_cnt": sum(e["kind"] in (1, 1111) and subject in values(e, "q") for e in events),
        "repost_cnt": people(
            [e for e in events if e["kind"] in (6, 16) and subject in values(e, name)]
        ),
        "reaction_cnt": people(list(filter(reacted, events))),
    }


def of_identifier(events: list[Line], subject: str) -> dict[str, Any]:
    def named(one: Line, names: str) -> bool:
        return any(subject in values(one, name) for name in names)

    return {
        "comment_cnt": sum(one["kind"] == 1111 and named(one, "Ii") for one in events),
        "reaction_cnt": people([one for one in events if one["kind"] == 17 and named(one, "i")]),
    }


@pytest.fixture(scope="module")
def shared() -> tuple[list[Line], AssertionTally]:
    kept = newest_only(lines())
    tally = tally_of((parse_event(json.dumps(one)) for one in reversed(kept)), signed=None)
    return kept, tally


def without(values: dict[str, Any], *prefixes: str) -> dict[str, Any]:
    return {name: one for name, one in values.items() if not name.startswith(prefixes)}


def test_the_number_of_every_author_is_that_of_a_plain_count(
    shared: tuple[list[Line], AssertionTally],
) -> None:
    kept, tally = shared
    subjects = [subject for kind, subject in tally.subjects() if kind == USER]
    public = [one for one in kept if not is_private(parse_event(json.dumps(one)))]
    assert set(subjects) == {one["pubkey"] for one in public}
    about = by_subject(kept)
    for subject in subjects:
        found = without(tally.values(USER, subject), "zap")
        wanted = of_person(about[subject], subject) | hours_of(about[subject], subject)
        assert found == wanted, subject


def test_the_number_of_every_event_and_address_is_that_of_a_plain_count(
    shared: tuple[list[Line], AssertionTally],
) -> None:
    kept, tally = shared
    about = by_subject(kept)
    things = [one for one in tally.subjects() if one[0] in (EVENT, ADDRESS)]
    assert {kind for kind, _ in things} == {EVENT, ADDRESS}
    for kind, subject in things:
        found = without(tally.values(kind, subject), "zap")
        assert found == of_thing(about[subject], subject, "a" if kind == ADDRESS else "e"), subject


def test_every_author_of_a_public_event_gets_a_card_and_what_gets_none_is_counted() -> None:
    kinds = (0, 5, 6, 7, 17, 1984, 9735, 10002, 10050, 30382)
    authors = [KeySigner(bytes([100 + n]) * 32) for n in range(len(kinds))]
    hidden = [KeySigner(bytes([120 + n]) * 32) for n in range(3)]
    events = [made(author, kind) for author, kind in zip(authors, kinds, strict=True)]
    events += [made(hidden[0], 4), made(hidden[0], 4), made(hidden[1], 1059)]
    events.append(made(hidden[2], 62, ("relay", "ALL_RELAYS")))
    tally = tally_of(events)
    assert list(tally.subjects()) == [(USER, key) for key in sorted(a.pubkey for a in authors)]
    assert all(tally.holds(*subject) for subject in tally.subjects())
    assert tally.without_card() == {
        "author: all stored events are private": 2,
        "author: its key asked to vanish (NIP-62)": 1,
        "event: it is private": 3,
        "event: kinds 0, 5, 6, 7, 17, 62, 1984, 9735, 10002, 10050, 30382 get no card": 11,
    }


def test_the_number_of_every_identifier_is_that_of_a_plain_count(
    shared: tuple[list[Line], AssertionTally],
) -> None:
    kept, tally = shared
    about = by_subject(kept)
    for kind, subject in tally.subjects():
        if kind == IDENTIFIER:
            assert tally.values(kind, subject) == of_identifier(about[subject], subject)


def test_a_card_says_no_field_that_the_table_does_not_define(
    shared: tuple[list[Line], AssertionTally],
) -> None:
    _, tally = shared
    personal = frozenset(one.name for one in FIELDS[USER] if one.personal)
    extras = {"d", "k", "counted_at", "expiration"}
    for card in cards_of(tally, list(tally.subjects()), CardOptions(personal=personal), {}):
        known = {one.name for one in FIELDS[card.kind]} | extras
        assert {tag[0] for tag in card.tags(NOW, NOW + 1)} <= known


# Zaps.


def zapped(*about: tuple[str, str], at: int = NOW - 86_400 * 9, n: int = 0) -> Event:
    return made(WALLET, 9735, *zap_tags("210n", ME.pubkey, *about, at=n), at=at)


def test_zaps_count_once_a_payment_and_what_no_wallet_is_known_to_sign_is_left_out() -> None:
    note = made(ME, 1)
    receipts = [zapped(("e", note.id), n=1), zapped(n=2)]
    again = made(OTHER, 9735, *receipts[0].tags)
    tally = tally_of([*receipts, again, note])
    assert tally.values(EVENT, note.id)["zap_cnt"] == 1
    assert tally.values(EVENT, note.id)["zap_amount"] == 21
    person = tally.values(USER, ME.pubkey)
    names = ("zap_cnt_recd", "zap_amt_recd", "zap_avg_amt_day_recd")
    assert [person[name] for name in names] == [2, 42, 42 // 9]
    unknown = tally_of([*receipts, note], signed=None)
    assert not {name for name in unknown.values(USER, ME.pubkey) if name.endswith("_recd")} - {
        "reports_cnt_recd"
    }
    assert "zap_cnt" not in unknown.values(EVENT, note.id)
    forged = tally_of([*receipts, note], signed=False)
    assert forged.values(USER, ME.pubkey)["zap_cnt_recd"] == 0


def test_every_card_without_zaps_names_the_missing_fields_and_the_reason() -> None:
    """A person's card, an event's and an address's: no receipt of theirs is verified."""
    essay = ("a", ADDRESS_OF_ME)
    events = [NOTE, ESSAY, zapped(("e", NOTE.id), n=1), zapped(essay, n=2), zapped(n=3)]
    subjects = [(USER, ME.pubkey), (EVENT, NOTE.id), (ADDRESS, ADDRESS_OF_ME)]
    why = "no known wallet signed the receipts"
    person = "zap_amt_recd, zap_cnt_recd, zap_avg_amt_day_recd"
    cards = list(cards_of(tally_of(events, signed=None), subjects, OPTIONS, {}))
    thing = f"zap_cnt, zap_amount: {why}"
    assert [card.lacks for card in cards] == [(f"{person}: {why}",), (thing,), (thing,)]
    assert not any(card.why_not for card in cards)
    named = CardOptions(personal=frozenset({"zap_cnt_sent"}))
    unknown = tally_of([*events, made(SENDER, 1)], signed=None)
    (card,) = cards_of(unknown, [(USER, SENDER.pubkey)], named, {})
    assert card.lacks == (f"zap_cnt_sent: {why}",)
    assert all(not card.lacks for card in cards_of(tally_of(events), subjects, OPTIONS, {}))


def test_a_card_that_can_do_without_a_refused_number_says_why_it_lacks_it() -> None:
    measured = Measured(100, 90, 110, exact=False, at=NOW, asked=3, answered=3)
    card = card_of(tally_of([NOTE, ESSAY]), ADDRESS, ADDRESS_OF_ME, reaction_cnt=measured)
    assert (card.why_not, card.lacks) == ("", ("reaction_cnt: the estimate is wider than ±5%",))


@pytest.mark.parametrize("first", [0, 1])
def test_a_forged_receipt_hides_no_payment_that_the_wallet_signed(first: int) -> None:
    signed = zapped()
    receipts = [signed, made(OTHER, 9735, *signed.tags)]
    tally = AssertionTally(NOW, lambda receiver, signer, at: signer == WALLET.pubkey)
    for event in (receipts[first], receipts[1 - first]):
        tally.add(event)
    assert tally.values(USER, ME.pubkey)["zap_cnt_recd"] == 1


def test_a_zap_of_an_event_pays_its_author_or_does_not_count_for_it() -> None:
    note = made(OTHER, 1)
    tally = tally_of([note, zapped(("e", note.id))])
    assert tally.values(EVENT, note.id)["zap_cnt"] == 0
    split = made(OTHER, 1, ("zap", ME.pubkey, "", "1"), at=2_000)
    assert tally_of([split, zapped(("e", split.id))]).values(EVENT, split.id)["zap_cnt"] == 1


def test_identifiers_have_their_kind_and_both_numbers() -> None:
    site = "https://example.com"
    comment = made(ME, 1111, ("I", site), ("K", "web"), ("i", site), ("k", "web"))
    liked = [
        made(who, 17, ("i", site), ("k", "web"), at=at) for who in (ME, OTHER) for at in (1, 2)
    ]
    tally = tally_of([comment, *liked])
    (card,) = cards_of(tally, [(IDENTIFIER, site)], OPTIONS, {})
    assert card.values == {"comment_cnt": 1, "reaction_cnt": 2}
    assert ("k", "web") in card.tags(NOW, NOW)


ADDRESS_OF_ME = f"30023:{ME.pubkey}:essay"
COMMUNITY = f"34550:{ME.pubkey}:club"

NOTE = made(ME, 1)
ESSAY = made(ME, 30_023, ("d", "essay"))
REPLY = made(OTHER, 1, ("e", NOTE.id, "", "root"), at=2_000)
BELOW = made(ME, 1, ("e", NOTE.id, "", "root"), ("e", REPLY.id, "", "reply"), at=3_000)
LOWEST = made(OTHER, 1, ("e", NOTE.id, "", "root"), ("e", BELOW.id, "", "reply"), at=4_000)
SAME_NAMES = {(EVENT, "e"): NOTE.id, (ADDRESS, "a"): ADDRESS_OF_ME}
"""Subjects whose names a stranger also gives to identifiers."""


def about(name: str) -> Iterator[Event]:
    """Events of every kind that counts, with every tag that may name a subject."""
    ways = ["e", "E", "a", "A", "i", "I", "ei", "Ei", "aI", "Aai", "EeAaIi", "q", "qi"]
    for at, letters in enumerate(ways):
        tags = [(letter, name) for letter in letters]
        for kind in (6, 7, 16, 17, 1111):
            yield made(OTHER, kind, *tags, ("k", "web"), at=at + 10)


@pytest.mark.parametrize("backwards", [False, True])
def test_an_identifier_of_the_same_name_changes_no_card_of_an_event_or_address(
    backwards: bool,
) -> None:
    """A stranger's `i` tag may hold any text, also the id or address of somebody's event."""
    for (kind, letter), name in SAME_NAMES.items():
        events = [NOTE, ESSAY, *about(name)]
        tally = tally_of(reversed(events) if backwards else events)
        subjects = {(EVENT, NOTE.id), (ADDRESS, ADDRESS_OF_ME), (IDENTIFIER, name)}
        assert subjects <= set(tally.subjects())
        plain = [json.loads(one.to_json()) for one in events]
        found = without(tally.values(kind, name), "zap")
        assert found == of_thing(plain, name, letter)
        assert all(found.values())
        assert tally.values(IDENTIFIER, name) == of_identifier(plain, name)
        assert tally.identifier_kinds(name) == ("web",)
        cards = cards_of(tally, list(tally.subjects()), OPTIONS, {})
        assert subjects <= {(card.kind, card.subject) for card in cards}


@pytest.mark.parametrize(
    ("events", "kind", "subject", "field", "number"),
    [
        ([REPLY, BELOW, LOWEST], EVENT, NOTE.id, "comment_cnt", 3),
        ([REPLY, BELOW, LOWEST], EVENT, REPLY.id, "comment_cnt", 1),
        ([made(OTHER, 1, ("e", ESSAY.id, "", "root"))], ADDRESS, ADDRESS_OF_ME, "comment_cnt", 0),
        ([made(OTHER, 1, ("a", COMMUNITY))], ADDRESS, COMMUNITY, "comment_cnt", 1),
        ([made(OTHER, 1, ("a", COMMUNITY))], USER, OTHER.pubkey, "reply_cnt", 1),
        ([made(OTHER, 1, ("a", COMMUNITY, "", "mention"))], USER, OTHER.pubkey, "reply_cnt", 0),
        ([made(OTHER, 7, ("e", ESSAY.id))], ADDRESS, ADDRESS_OF_ME, "reaction_cnt", 0),
        (
            [made(OTHER, 7, ("a", ADDRESS_OF_ME), ("a", COMMUNITY))],
            ADDRESS,
            ADDRESS_OF_ME,
            "reaction_cnt",
            1,
        ),
        ([made(OTHER, 6, ("e", NOTE.id), ("e", REPLY.id))], EVENT, NOTE.id, "repost_cnt", 1),
        ([made(OTHER, 6, ("e", NOTE.id), ("e", REPLY.id))], EVENT, REPLY.id, "repost_cnt", 1),
        ([made(OTHER, 16, ("e", ESSAY.id))], ADDRESS, ADDRESS_OF_ME, "repost_cnt", 0),
    ],
)
def test_the_table_of_fields_is_true_of_threads_addresses_and_several_tags(
    events: list[Event], kind: int, subject: str, field: str, number: int
) -> None:
    assert tally_of([NOTE, ESSAY, *events]).values(kind, subject)[field] == number


def test_the_table_says_how_deep_comments_count_and_which_tags_name_an_address() -> None:
    for kind in (EVENT, ADDRESS):
        assert "direct; for the root of a thread, at any depth" in counts(kind, "comment_cnt")
    assert "`a`" in counts(ADDRESS, "reaction_cnt")
    assert "last `e`" not in counts(ADDRESS, "reaction_cnt")
    assert "several `e` tags counts for each" in counts(EVENT, "repost_cnt")
    assert "community" in counts(ADDRESS, "comment_cnt")
    assert "community" in counts(USER, "reply_cnt")


def counts(kind: int, name: str) -> str:
    return field_named(kind, name).counts


def test_an_identifier_has_the_kind_tag_of_its_own_case() -> None:
    """NIP-22: `K` is the kind of the root in `I`, `k` that of the parent in `i`."""
    podcast, episode = "podcast:guid:1", "podcast:item:guid:2"
    root, parent = (
        [("I", podcast), ("K", "podcast:guid")],
        [("i", episode), ("k", "podcast:item:guid")],
    )
    for tags in (root + parent, parent + root):
        tally = tally_of([made(OTHER, 1111, *tags)])
        assert tally.identifier_kinds(podcast) == ("podcast:guid",)
        assert tally.identifier_kinds(episode) == ("podcast:item:guid",)
    several = [parent[0], ("i", podcast), parent[1], ("k", "podcast:guid")]
    tally = tally_of([made(OTHER, 17, *several)])
    assert tally.identifier_kinds(podcast) == ("podcast:guid",)
    assert tally.identifier_kinds(episode) == ("podcast:item:guid",)
    both = [("I", podcast), ("K", "podcast:guid"), ("i", podcast), ("k", "podcast:guid")]
    (card,) = cards_of(tally_of([made(OTHER, 1111, *both)]), [(IDENTIFIER, podcast)], OPTIONS, {})
    assert card.values["comment_cnt"] == 1
    assert card.identifier_kinds == ("podcast:guid",)


def test_the_kind_of_an_identifier_does_not_depend_on_the_order_of_events() -> None:
    given = [made(ME, 17, ("i", "x"), ("k", k), at=at) for at, k in enumerate("bacab")]
    for events in (given, given[::-1]):
        assert tally_of(events).identifier_kinds("x") == ("a",)


def test_the_hours_of_most_notes_may_pass_midnight() -> None:
    assert busiest(Counter({23: 5, 0: 4, 12: 1})) == (23, 1)
    assert busiest(Counter(range(24))) == (0, 20)
    assert busiest(Counter({7: 1})) == (7, 8)


# Which cards are published.


def card_of(tally: AssertionTally, kind: int, subject: str, **measured: Measured) -> Card:
    given = {(kind, subject): measured}
    (card,) = cards_of(tally, [(kind, subject)], OPTIONS, given)
    return card


def follow(signer: KeySigner, at: int = 1_000) -> Event:
    return made(signer, 3, ("p", ME.pubkey), at=at)


def test_the_number_of_many_relays_stands_for_the_stores_with_its_bounds() -> None:
    tally = tally_of([follow(OTHER)])
    exact = Measured(12, 12, 12, True, NOW, 3, 3)
    card = card_of(tally, USER, ME.pubkey, followers=exact)
    tags = card.tags(NOW, NOW)
    assert ("followers", "12") in tags
    assert ("interval", "followers", "12", "12", "exact") in tags
    assert ("relays", "followers", "3", "3") in tags


def test_a_number_of_a_watch_that_stopped_keeps_its_time_and_ends_with_its_card() -> None:
    old = Measured(12, 12, 12, True, NOW - 20 * 86_400, 3, 3)
    card = card_of(tally_of([follow(OTHER)]), USER, ME.pubkey, followers=old)
    before = signed(card, NOW)
    assert before.first_tag("counted_at") == str(old.at)
    assert before.first_tag("expiration") == str(old.at + 30 * 86_400)
    assert not is_due(card, before, NOW + 5 * 86_400, OPTIONS)
    assert card.refusal(NOW + 9 * 86_400, before, OPTIONS) == ""
    assert "30 days ago" in card.refusal(NOW + 10 * 86_400, before, OPTIONS)


def test_what_a_person_alone_may_write_gets_no_card_once_the_person_vanished() -> None:
    article = made(ME, 30_023, ("d", "x"))
    comment = made(OTHER, 1111, ("A", f"30023:{ME.pubkey}:x"))
    gone = made(ME, 62, ("relay", "ALL_RELAYS"), at=5_000)
    tally = tally_of([article, comment])
    assert card_of(tally, ADDRESS, f"30023:{ME.pubkey}:x").why_not == ""
    tally.add(gone)
    assert "vanish" in card_of(tally, ADDRESS, f"30023:{ME.pubkey}:x").why_not


def test_an_identifier_that_no_relay_takes_gets_no_card() -> None:
    long = "https://example.com/" + "x" * 2_000
    liked = made(ME, 17, ("i", long), ("k", "web"))
    assert "too long" in card_of(tally_of([liked]), IDENTIFIER, long).why_not


@pytest.mark.parametrize(
    ("low", "high", "why"),
    [(950, 1_050, ""), (940, 1_050, "wider"), (1_000, None, "nothing bounds")],
)
def test_an_estimate_wider_than_five_percent_is_not_published(
    low: int, high: int | None, why: str
) -> None:
    wide = Measured(1_000, low, high, False, NOW, 3, 2)
    card = card_of(tally_of([follow(OTHER)]), USER, ME.pubkey, followers=wide)
    assert why in card.why_not
    assert bool(why) == ("followers" not in card.values)


def test_who_vanished_and_who_is_not_known_gets_no_card() -> None:
    gone = made(ME, 62, ("relay", "ALL_RELAYS"), at=5_000)
    assert "vanish" in card_of(tally_of([made(ME, 1), gone]), USER, ME.pubkey).why_not
    back = made(ME, 1, at=5_001)
    assert card_of(tally_of([back, gone]), USER, ME.pubkey).why_not == ""
    assert "nothing" in card_of(tally_of([made(ME, 1)]), USER, OTHER.pubkey).why_not


def test_a_rank_is_known_from_a_viewpoint_alone_and_published_only_where_it_is_named() -> None:
    tally = tally_of([made(ME, 1), made(OTHER, 1)])
    assert "rank" not in tally.values(USER, ME.pubkey)
    links = {OTHER.pubkey: FollowsAndMutes(frozenset({ME.pubkey}))}
    tally.web = web_of(Root(OTHER.pubkey), links)
    assert tally.values(USER, ME.pubkey)["rank"] == 50
    assert tally.values(USER, OTHER.pubkey)["rank"] == 0
    ranked = CardOptions(personal=frozenset({"rank"}))
    for options, there in ((OPTIONS, False), (ranked, True)):
        (card,) = cards_of(tally, [(USER, ME.pubkey)], options, {})
        assert (("rank", "50") in card.tags(NOW, NOW)) == there


def test_personal_fields_are_published_only_where_they_are_named() -> None:
    tally = tally_of([made(ME, 1, ("t", "Nostr")), follow(OTHER)])
    (card,) = cards_of(tally, [(USER, ME.pubkey)], OPTIONS, {})
    assert not any(field_named(USER, name).personal for name in card.values)
    (named,) = cards_of(tally, [(USER, ME.pubkey)], CardOptions(personal=frozenset({"t"})), {})
    assert ("t", "nostr") in named.tags(NOW, NOW)
    with pytest.raises(InvalidInput, match="no personal field 'followers'"):
        CardOptions(personal=frozenset({"followers"})).check()


# When a card is signed again.


def signed(card: Card, at: int) -> Event:
    return ME.sign_now(card.template(at, None, OPTIONS)).event


def numbered(followers: int) -> Card:
    return Card(USER, OTHER.pubkey, {"followers": followers, "post_cnt": 1}, {})


@pytest.mark.parametrize(
    ("step", "now", "followers", "due"),
    [
        (0.0, NOW, 100, False),
        (0.0, NOW, 101, True),
        (0.05, NOW, 105, False),
        (0.05, NOW, 106, True),
        (0.0, NOW + 22 * 86_400, 100, False),
        (0.0, NOW + 24 * 86_400, 100, True),
    ],
)
def test_a_card_is_signed_again_when_a_number_changed_enough_or_it_soon_expires(
    step: float, now: int, followers: int, due: bool
) -> None:
    before = signed(numbered(100), NOW)
    assert is_due(numbered(followers), before, now, CardOptions(step=step)) is due


def test_a_field_that_came_or_went_is_a_change_and_a_new_interval_is_none() -> None:
    before = signed(numbered(100), NOW)
    more = numbered(100)._replace(values={"followers": 100, "post_cnt": 1, "reply_cnt": 0})
    measured = {"followers": Measured(100, 98, 102, False, NOW, 4, 3)}
    assert is_due(more, before, NOW, OPTIONS)
    assert not is_due(numbered(100)._replace(measured=measured), before, NOW, OPTIONS)
    assert is_due(numbered(100), None, NOW, OPTIONS)


def test_a_new_card_is_newer_than_the_one_that_it_replaces() -> None:
    before = signed(numbered(100), NOW + 50)
    assert numbered(101).template(NOW, before, OPTIONS).created_at == NOW + 51


def test_a_declaration_names_the_fields_that_are_trusted() -> None:
    made_ = declaration([ME.pubkey], "wss://r.example", [], 7)
    assert ("30382:followers", ME.pubkey, "wss://r.example") in made_.tags
    assert not any("active_hours" in tag[0] for tag in made_.tags)
    with pytest.raises(InvalidInput, match="no field '30382:score'"):
        declaration([ME.pubkey], "wss://r.example", ["30382:score"], 7)


def test_readers_are_given_fields_that_are_in_the_table() -> None:
    assert set(FIELDS) == set(SUBJECTS)
    for kind, names in READERS.items():
        assert names <= {one.name for one in FIELDS[kind]}


def test_the_page_has_the_table() -> None:
    page = Path(__file__).parents[2] / "docs/how-to/assertions.md"
    assert table() in page.read_text("utf-8")
