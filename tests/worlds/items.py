"""What relays of a world hold, as small values, and the signed events that these stand for.

An `Item` names an event by what it is, who wrote it and when; `made` signs it once for the whole
process, so that thousands of worlds share a few thousand signatures.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from nostr_client.codecs.event import EventTemplate
from tests.worlds.people import START, TARGET, signer
from tests.zapping import invoice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nostr_client.codecs.event import Tags

AUTHOR = 10_000
"""The person who wrote the note that reactions and zaps are about."""

WALLET = 10_001
"""The wallet service that signs receipts."""

KINDS = {
    "follow": 3,
    "unfollow": 3,
    "note": 1,
    "reaction": 7,
    "zap": 9735,
    "junk zap": 9735,
    "astray zap": 9735,
    "message": 4,
    "mention": 1,
    "protected": 1,
    "bad signature": 0,
    "foreign": 30_023,
    "deletion": 5,
}
"""The kind of each sort of item; a bad signature has the kind of the question it is for."""

JUNK = ("junk zap", "astray zap")
"""Receipts that do not count: one does not hold, the other pays somebody else than the author."""


class Item(NamedTuple):
    """An event of a numbered person, `at` seconds after `START`; `n` tells several apart.

    `of`: for a deletion, what it deletes; for a bad signature, the sort that it pretends to be.
    """

    sort: str
    person: int
    at: int
    n: int = 0
    of: Item | str | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Made:
    """A signed event, its JSON text, and whether it holds: `valid` is false for a bad signature."""

    item: Item
    id: str
    pubkey: str
    created_at: int
    kind: int
    tags: Tags
    text: str
    valid: bool

    @property
    def d(self) -> str:
        """The `d` tag of an addressable event."""
        return next((tag[1] for tag in self.tags if tag[0] == "d"), "")

    @property
    def address(self) -> tuple[int, str, str] | None:
        """What newer versions replace, for replaceable and addressable kinds."""
        if self.kind in (0, 3) or 10_000 <= self.kind < 20_000:
            return self.kind, self.pubkey, ""
        return (self.kind, self.pubkey, self.d) if 30_000 <= self.kind < 40_000 else None


@functools.cache
def note_id() -> str:
    """The id of the note that reactions and zaps are about."""
    return made(Item("note", AUTHOR, -1_000_000)).id


@functools.cache
def made(item: Item) -> Made:
    """Sign an item, once."""
    sort = item.of if item.sort == "bad signature" and isinstance(item.of, str) else item.sort
    writer = signer(WALLET if KINDS[sort] == 9735 else item.person)
    at = START + item.at
    template = EventTemplate(
        kind=KINDS[sort],
        tags=_tags(sort, item),
        content="+" if sort == "reaction" else f"{item.n or ''}",
        created_at=at,
    )
    event = writer.sign_now(template).event
    text, valid = event.to_json(), item.sort != "bad signature"
    if not valid:
        other = signer(AUTHOR).sign_now(template).event.sig
        text = text.replace(event.sig, other)
    one = Made(item, event.id, event.pubkey, at, event.kind, event.tags, text, valid)
    _by_id[one.id] = one
    return one


_by_id: dict[str, Made] = {}


def known(id_: str) -> Made | None:
    """The event of an id, if any world ever had it."""
    return _by_id.get(id_)


def _tags(sort: str, item: Item) -> Tags:
    match sort:
        case "follow":
            return (("p", TARGET),)
        case "reaction":
            return (("e", note_id()),)
        case "zap" | "junk zap" | "astray zap":
            paid = item.person if sort == "astray zap" else AUTHOR
            return _receipt(item, paid, holds=sort != "junk zap")
        case "foreign":
            return (("d", f"{item.n}"),)
        case "deletion":
            assert isinstance(item.of, Item)
            return (("e", made(item.of).id),)
        case "message" | "mention":
            return (("p", TARGET),)
        case "protected":
            return (("p", TARGET), ("-",))
    return ()


@functools.cache
def _request(person: int, paid: int) -> str:
    tags = (("p", signer(paid).pubkey), ("e", note_id()), ("relays", "wss://r.example"))
    return (
        signer(person).sign_now(EventTemplate(kind=9734, tags=tags, created_at=1)).event.to_json()
    )


def _receipt(item: Item, paid: int, *, holds: bool) -> Tags:
    """A receipt of `n + 1` sats; one that does not hold has the invoice of another request."""
    text = _request(item.person, paid)
    invoiced = text if holds else "another request"
    return (
        ("p", signer(paid).pubkey),
        ("e", note_id()),
        ("bolt11", invoice(f"{10 * (item.n + 1)}n", invoiced, at=item.at)),
        ("description", text),
    )


def sender(one: Made) -> str:
    """Whom a question counts an event for: who asked for a zap, else who signed."""
    return signer(one.item.person).pubkey if one.kind == 9735 else one.pubkey


def matches(asked: Mapping[str, Any], one: Made) -> bool:
    """NIP-01 in plain Python: whether a filter (decoded JSON) matches an event."""
    if one.created_at < asked.get("since", 0) or one.created_at > asked.get("until", 2**63):
        return False
    for name, value in (("ids", one.id), ("authors", one.pubkey), ("kinds", one.kind)):
        if name in asked and value not in asked[name]:
            return False
    for name, wanted in asked.items():
        if name[0] != "#":
            continue
        held = {tag[1] for tag in one.tags if tag[0] == name[1:] and len(tag) > 1}
        if not held.intersection(wanted):
            return False
    return True


def lone_surrogate(one: Made) -> str:
    """The event's JSON with half a character in its content."""
    fields = json.loads(one.text)
    return json.dumps(fields | {"content": "\ud800"})


def too_deep(one: Made) -> str:
    """The event's JSON with tags nested a thousand deep."""
    fields = json.loads(one.text)
    deep = "[" * 1000 + "]" * 1000
    return json.dumps(fields | {"tags": []}).replace('"tags": []', f'"tags": [{deep}]')


def too_big(one: Made) -> str:
    """The event's JSON with a content of 300 kB."""
    return json.dumps(json.loads(one.text) | {"content": "x" * 300_000})


def random_id(*seed: object) -> str:
    """An id that no event has."""
    return sha256(repr(seed).encode()).hexdigest()
