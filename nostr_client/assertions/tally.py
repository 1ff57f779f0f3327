"""Count all fields of cards in one pass over events in any order. Pure.

The events are those of a store: verified, without superseded, deleted and expired ones. A set of
people takes one integer for each person, so that a million events fit into some hundred megabytes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from nostr_client.assertions.fields import ADDRESS, EVENT, IDENTIFIER, USER
from nostr_client.codecs import kinds
from nostr_client.codecs.private_kinds import PRIVATE_KINDS, is_private
from nostr_client.codecs.references import (
    address_of,
    identifiers_named,
    reaction_targets,
    receivers,
    targets_named,
    thread_of,
)
from nostr_client.codecs.zaps import RECEIPT, REQUEST, Zap, read_zap
from nostr_client.store.rules import ALL_RELAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.web_of_trust import Web

REPORT: Final = 1984  # NIP-56
EXTERNAL_REACTION: Final = 17  # NIP-25

Value = int | tuple[str, ...]
Values = dict[str, Value]
"""Numbers of one subject by field; an unknown field is missing."""

VANISHED: Final = "its key asked to vanish (NIP-62)"
"""Why a person, or what only this person may write, gets no card."""

DAY: Final = 86_400
MOST_TOPICS: Final = 5
_MOST_OF_NOTES: Final = 0.8
_SURE: Final = {False: 0, None: 1, True: 2}
"""How far a receipt is trusted, by what is known of its signer."""

NO_SUBJECTS: Final = frozenset(
    {kinds.METADATA, kinds.CONTACTS, kinds.DELETION, kinds.REPOST, kinds.REACTION}
    | {kinds.GENERIC_REPOST, EXTERNAL_REACTION, kinds.VANISH, REPORT, REQUEST, RECEIPT}
    | {kinds.CLIENT_AUTH, *PRIVATE_KINDS, USER, EVENT, ADDRESS, IDENTIFIER}
)
"""Kinds of events that get no card: events about other events, and private ones. Replaceable kinds
get none either."""


class _Person:
    """Counts of one key."""

    __slots__ = (
        "first",
        "followers",
        "hours",
        "posts",
        "reacted",
        "replies",
        "reported",
        "reports",
    )

    def __init__(self) -> None:
        self.followers: set[int] = set()
        self.reported: set[int] = set()
        self.first: int | None = None
        self.posts = self.replies = self.reacted = self.reports = 0
        self.hours: Counter[int] = Counter()


class _Thing:
    """Counts of one event, address or identifier."""

    __slots__ = ("comments", "kinds", "quotes", "reactions", "reposts")

    def __init__(self) -> None:
        self.comments = self.quotes = 0
        self.reactions: set[int] = set()
        self.reposts: set[int] = set()
        self.kinds: Counter[str] = Counter()


class _Payments:
    """Payments of one receiver or sender, or for one target."""

    __slots__ = ("first", "msats", "number", "unsigned")

    def __init__(self) -> None:
        self.msats = self.number = self.unsigned = 0
        self.first: int | None = None

    def add(self, msats: int, at: int, *, signed: bool) -> None:
        if not signed:
            self.unsigned += 1
            return
        self.number += 1
        self.msats += msats
        self.first = at if self.first is None else min(self.first, at)


class AssertionTally:
    """Add events, then ask for the values of each subject.

    `signed` says whether a wallet of the receiver signed a receipt: receiver, signer (hex), time.
    If it returns None, nobody knows, and zap fields of that subject are left out. `now`: Unix
    seconds, the end of the days of the averages.
    """

    web: Web | None = None
    """Whose viewpoint gives ranks; without one no rank is known."""

    def __init__(self, now: int, signed: Callable[[str, str, int], bool | None]) -> None:
        self._now = now
        self._signed = signed
        self._numbers: dict[str, int] = {}
        self._people: dict[str, _Person] = {}
        self._things: dict[str, _Thing] = {}
        """Events and addresses; only an address has a colon."""
        self._externals: dict[str, _Thing] = {}
        """Identifiers: anybody may give one any name, also that of an event or address."""
        self._topics: dict[str, Counter[str]] = {}
        self._receivers: dict[str, frozenset[str]] = {}
        self._paid: dict[bytes, tuple[Zap, int, bool | None]] = {}
        """Each payment by its best receipt: a forged one hides none that the wallet signed."""
        self._subjects: dict[str, int] = {}
        self._sums: _Sums | None = None
        self._vanished: dict[str, int] = {}
        self._latest: dict[str, int] = {}
        self._private: set[str] = set()
        """Authors of private events."""
        self._private_events = 0
        self._no_card: Counter[int] = Counter()
        """Public events that get no card, by kind."""
        self.events = 0

    def add(self, event: Event) -> None:
        """Count one event; each id must come once."""
        self.events += 1
        self._sums = None
        if is_private(event):
            self._private.add(event.pubkey)
            self._private_events += 1
            return
        latest = self._latest.get(event.pubkey, 0)
        if event.kind != kinds.VANISH:
            self._latest[event.pubkey] = max(latest, event.created_at)
        if not self._add_subject(event):
            self._no_card[event.kind] += 1
        count = _COUNTED.get(event.kind)
        if count is not None:
            count(self, event)

    def subjects(self) -> Iterator[tuple[int, str]]:
        """Yield every author, event, address and identifier in the events, as card kind and `d`."""
        yield from ((USER, key) for key in sorted(self._latest) if not self.has_vanished(key))
        yield from sorted((kind, subject) for subject, kind in self._subjects.items())
        yield from ((IDENTIFIER, subject) for subject in sorted(self._externals))

    def without_card(self) -> dict[str, int]:
        """Return how many authors and events `subjects` leaves out, by noun and reason."""
        public = self._latest.keys() | self._vanished.keys()
        listed = ", ".join(map(str, sorted(self._no_card)))
        found = {
            "author: all stored events are private": len(self._private - public),
            f"author: {VANISHED}": sum(map(self.has_vanished, self._vanished)),
            "event: it is private": self._private_events,
            f"event: kinds {listed} get no card": self._no_card.total(),
        }
        return {why: number for why, number in found.items() if number}

    def values(self, kind: int, subject: str, *, personal: bool = True) -> Values:
        """Return each known field of a subject; without `personal`, those that are not personal."""
        if kind == USER:
            values = self._of_person(subject)
            return values | self._personal(subject) if personal else values
        if kind == IDENTIFIER:
            thing = self._externals.get(subject) or _Thing()
            return {"comment_cnt": thing.comments, "reaction_cnt": len(thing.reactions)}
        thing = self._things.get(subject) or _Thing()
        return {
            "comment_cnt": thing.comments,
            "quote_cnt": thing.quotes,
            "repost_cnt": len(thing.reposts),
            "reaction_cnt": len(thing.reactions),
            **self._zaps_of_thing(subject),
        }

    def holds(self, kind: int, subject: str) -> bool:
        """Whether any event is by a subject, is the subject, or is about it."""
        if kind == USER:
            return subject in self._latest or subject in self._people
        if kind == IDENTIFIER:
            return subject in self._externals
        return subject in self._subjects or subject in self._things

    def has_vanished(self, key: str) -> bool:
        """Whether a key asked all relays to forget it (NIP-62), and wrote nothing since."""
        at = self._vanished.get(key)
        return at is not None and self._latest.get(key, 0) <= at

    def identifier_kinds(self, subject: str) -> tuple[str, ...]:
        """Return the `k` value of NIP-73 that most events give an identifier, of equally frequent
        values the first by name; nothing if no event gives one."""
        thing = self._externals.get(subject)
        if thing is None or not thing.kinds:
            return ()
        return (min(thing.kinds, key=lambda k: (-thing.kinds[k], k)),)

    # What each kind says.

    def _contacts(self, event: Event) -> None:
        follower = self._number(event.pubkey)
        for followed in set(event.tag_values("p")):
            self._person(followed).followers.add(follower)

    def _note(self, event: Event) -> None:
        person = self._person(event.pubkey)
        at = event.created_at
        person.first = at if person.first is None else min(person.first, at)
        person.hours[at % DAY // 3600] += 1
        topics = {value.lower() for value in event.tag_values("t")}
        if topics:
            self._topics.setdefault(event.pubkey, Counter()).update(topics)
        thread, by_ids = thread_of(event), thread_of(event, addresses=False)
        if thread.parents:
            person.replies += 1
        else:
            person.posts += 1
        addresses = {one for one in thread.parents | thread.roots if ":" in one}
        for target in by_ids.parents | by_ids.roots | addresses:
            self._thing(target).comments += 1
        self._quoted(event)

    def _comment(self, event: Event) -> None:
        self._person(event.pubkey).replies += 1
        for identifier in self._identifiers(event, "Ii"):
            identifier.comments += 1
        for target in targets_named(event, "EeAa"):
            self._thing(target).comments += 1
        self._quoted(event)

    def _quoted(self, event: Event) -> None:
        for target in set(event.tag_values("q")):
            self._thing(target).quotes += 1

    def _repost(self, event: Event) -> None:
        who = self._number(event.pubkey)
        for target in targets_named(event, "ea"):
            self._thing(target).reposts.add(who)

    def _reaction(self, event: Event) -> None:
        who = self._number(event.pubkey)
        for target in reaction_targets(event):
            self._thing(target).reactions.add(who)
        pleased = list(event.tag_values("p"))
        if pleased:
            self._person(pleased[-1]).reacted += 1

    def _external_reaction(self, event: Event) -> None:
        who = self._number(event.pubkey)
        for identifier in self._identifiers(event, "i"):
            identifier.reactions.add(who)

    def _report(self, event: Event) -> None:
        self._person(event.pubkey).reports += 1
        who = self._number(event.pubkey)
        for reported in set(event.tag_values("p")):
            self._person(reported).reported.add(who)

    def _receipt(self, event: Event) -> None:
        zap = read_zap(event)
        if zap is None:
            return
        signed = self._signed(zap.receiver, event.pubkey, event.created_at)
        known = self._paid.get(zap.payment)
        if known is None or _SURE[signed] > _SURE[known[2]]:
            self._paid[zap.payment] = (zap, event.created_at, signed)

    def _vanish(self, event: Event) -> None:
        if ALL_RELAYS in event.tag_values("relay"):
            before = self._vanished.get(event.pubkey, 0)
            self._vanished[event.pubkey] = max(before, event.created_at)

    def _add_subject(self, event: Event) -> bool:
        """Note the subject of a card that an event is; return whether it is one."""
        addressable, regular = kinds.is_addressable(event.kind), kinds.is_regular(event.kind)
        if event.kind in NO_SUBJECTS or not (addressable or regular):
            return False
        paid = self._receivers[event.id] = receivers(event)
        if addressable:
            address = address_of(event)
            self._subjects[address] = ADDRESS
            self._receivers[address] = paid
        else:
            self._subjects[event.id] = EVENT
        return True

    def _identifiers(self, event: Event, names: str) -> list[_Thing]:
        """Return the identifiers (NIP-73) that an event is about, each once."""
        found = []
        for value, given in identifiers_named(event, names).items():
            thing = self._externals.setdefault(value, _Thing())
            thing.kinds.update(given)
            found.append(thing)
        return found

    # The numbers of a subject.

    def _of_person(self, key: str) -> Values:
        person = self._people.get(key) or _Person()
        values: Values = {
            "followers": len(person.followers),
            "post_cnt": person.posts,
            "reply_cnt": person.replies,
            "reactions_cnt": person.reacted,
        }
        if person.first is not None:
            values["first_created_at"] = person.first
        return values | _zaps_of_person(self._payments().received.get(key), "recd", self._now)

    def _personal(self, key: str) -> Values:
        """Return the fields that describe a person's life."""
        person = self._people.get(key) or _Person()
        values: Values = {
            "reports_cnt_recd": len(person.reported),
            "reports_cnt_sent": person.reports,
        }
        if self.web is not None:
            values["rank"] = self.web.rank(key)
        if person.first is not None:
            start, end = busiest(person.hours)
            values |= {"active_hours_start": start, "active_hours_end": end}
        topics = sorted(self._topics.get(key, Counter()).items(), key=lambda one: (-one[1], one[0]))
        if topics:
            values["t"] = tuple(topic for topic, _ in topics[:MOST_TOPICS])
        return values | _zaps_of_person(self._payments().sent.get(key), "sent", self._now)

    def _zaps_of_thing(self, subject: str) -> Values:
        payments = self._payments().about.get(subject) or _Payments()
        if payments.unsigned:
            return {}
        return {"zap_cnt": payments.number, "zap_amount": payments.msats // 1000}

    def _payments(self) -> _Sums:
        """Return sums of all payments; computed once all events are added."""
        if self._sums is None:
            self._sums = self._summed()
        return self._sums

    def _summed(self) -> _Sums:
        sums = _Sums()
        for zap, at, signed in self._paid.values():
            if signed is False:
                continue  # the wallet is known, and did not sign this receipt
            targets = [(sums.sent, zap.sender), (sums.received, zap.receiver)]
            if zap.about is not None and zap.receiver in self._receivers.get(zap.about, ()):
                targets.append((sums.about, zap.about))
            for table, name in targets:
                table.setdefault(name, _Payments()).add(zap.amount, at, signed=signed is True)
        return sums

    def _number(self, pubkey: str) -> int:
        return self._numbers.setdefault(pubkey, len(self._numbers))

    def _person(self, key: str) -> _Person:
        found = self._people.get(key)
        if found is None:
            found = self._people[key] = _Person()
        return found

    def _thing(self, name: str) -> _Thing:
        found = self._things.get(name)
        if found is None:
            found = self._things[name] = _Thing()
        return found


def _zaps_of_person(found: _Payments | None, side: str, now: int) -> Values:
    """Return the zap fields of one side; nothing if nobody knows who signed a receipt."""
    payments = found or _Payments()
    if payments.unsigned:
        return {}
    days = 1 if payments.first is None else max(1, -(-(now - payments.first) // DAY))
    sats = payments.msats // 1000
    return {
        f"zap_amt_{side}": sats,
        f"zap_cnt_{side}": payments.number,
        f"zap_avg_amt_day_{side}": sats // days,
    }


class _Sums:
    """Return payments by receiver, by sender, and by target."""

    def __init__(self) -> None:
        self.received: dict[str, _Payments] = {}
        self.sent: dict[str, _Payments] = {}
        self.about: dict[str, _Payments] = {}


def busiest(hours: Counter[int]) -> tuple[int, int]:
    """Return the fewest hours in a row, over midnight too, with four fifths of all: start, end."""
    wanted = _MOST_OF_NOTES * hours.total()
    each = [hours[hour] for hour in range(24)] * 2
    sums = [0] * 24  # of the hours from each start, one hour longer each time
    for length in range(1, 25):
        sums = [so_far + each[start + length - 1] for start, so_far in enumerate(sums)]
        best = max(range(24), key=lambda start: (sums[start], -start))
        if sums[best] >= wanted:
            return best, (best + length) % 24 if length < 24 else 24
    return 0, 24


_COUNTED: Final[dict[int, Callable[[AssertionTally, Event], None]]] = {
    kinds.CONTACTS: AssertionTally._contacts,
    kinds.TEXT_NOTE: AssertionTally._note,
    kinds.COMMENT: AssertionTally._comment,
    kinds.REPOST: AssertionTally._repost,
    kinds.GENERIC_REPOST: AssertionTally._repost,
    kinds.REACTION: AssertionTally._reaction,
    EXTERNAL_REACTION: AssertionTally._external_reaction,
    REPORT: AssertionTally._report,
    RECEIPT: AssertionTally._receipt,
    kinds.VANISH: AssertionTally._vanish,
}
