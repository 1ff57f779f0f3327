"""What is right about a world, in plain Python: no rule here is taken from the product.

The truth of a count is about what the relays that answered really hold and send, by the rules of
the question: a signature must hold, a zap must hold, an author's newest list decides. Where honest
rules allow two answers (an event whose deletion lies on another relay), both are right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.worlds.items import JUNK, Made, matches, sender

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.worlds.model import World
    from tests.worlds.relays import SimRelay


@dataclass(frozen=True)
class Truth:
    """The numbers that may be called exact, and the largest that a proven low end may be."""

    authors: frozenset[int]
    events: frozenset[int]
    most_authors: int
    most_events: int


def of_count(world: World, relays: Sequence[SimRelay], ever: Iterable[Made]) -> Truth:
    """The truth of a count over these relays; `ever`: all that was read from them at any time.

    A low end rests on what was read, which a relay may have lost since. And what a deletion or a
    newer list has proven stays proven where the relay has lost it, as long as the client knows of
    it.
    """
    ever = list(ever)
    union = {one.id: one for relay in relays for one in relay.served()}
    variants = []
    for known in (union.values(), [*union.values(), *ever]):
        deleted = _deleted(known)
        variants.append(_counting(world, [o for o in union.values() if o.id not in deleted]))
    if not world.is_listed:
        variants.append(_counting(world, union.values()))
    hidden = set().union(*(_hidden(world, relay) for relay in relays))
    hidden -= {one.id for relay in relays for one in relay.served() if one.id in relay.sent}
    variants += [[one for one in variant if one.id not in hidden] for variant in variants]
    if world.question == "followers":
        known_lists = (union.values(), [*union.values(), *ever])
        variants = [_newest_lists(one, lists) for one in variants for lists in known_lists]
    authors = frozenset(len({sender(one) for one in variant}) for variant in variants)
    events = frozenset(len(variant) for variant in variants)
    once = _counting(world, {one.id: one for one in (*union.values(), *ever)}.values())
    most_authors, most_events = len({sender(one) for one in once}), len(once)
    return Truth(authors, events, most_authors, most_events)


def _hidden(world: World, relay: SimRelay) -> set[str]:
    """What nobody can know of: amid what the relay names in NIP-77, not named and never sent.

    What it leaves out at the ends is no such thing: one REQ shows it.
    """
    named = relay.listing(world.wire) if world.is_listed else None
    if not named or relay.asked["NEG-OPEN"] == 0:
        return set()
    newest, oldest = max(at for at, _ in named), min(at for at, _ in named)
    ids = {key for _, key in named}
    return {
        one.id
        for one in relay.served()
        if one.id not in ids | relay.sent and oldest < one.created_at < newest
    }


def _counting(world: World, held: Iterable[Made]) -> list[Made]:
    """The events that count for a question."""
    return [
        one for one in held if one.valid and one.item.sort not in JUNK and matches(world.wire, one)
    ]


def _newest_lists(counted: Iterable[Made], held: Iterable[Made]) -> list[Made]:
    """Without the lists of authors whose newest list is another one."""
    newest: dict[str, Made] = {}
    for one in sorted(held, key=lambda one: (-one.created_at, one.id)):
        if one.kind == 3 and one.valid:
            newest.setdefault(one.pubkey, one)
    return [one for one in counted if newest[one.pubkey].id == one.id]


def _deleted(held: Iterable[Made]) -> set[str]:
    """Ids that their own author asked to delete."""
    listed = list(held)
    by_author = {(one.id, one.pubkey) for one in listed}
    return {
        tag[1]
        for one in listed
        if one.kind == 5 and one.valid
        for tag in one.tags
        if tag[0] == "e" and (tag[1], one.pubkey) in by_author
    }


def astray(ever: Iterable[Made]) -> int:
    """How many receipts hold and pay somebody else than the author of what they zap."""
    return len({one.id for one in ever if one.valid and one.item.sort == "astray zap"})


def missing_here(world: World, relay: SimRelay, local: Sequence[Made]) -> list[Made]:
    """What the relay sends, matches, and the store ought to have and has not."""
    ids = {one.id for one in local}
    kept = [one for one in relay.served() if one.valid and matches(world.wire, one)]
    return [one for one in kept if one.id not in ids and not settled(one, local)]


def missing_there(world: World, relay: SimRelay, local: Sequence[Made]) -> list[Made]:
    """What is in the store, matches, and the relay ought to have and has not."""
    held = list(relay.held.values())
    ids = {one.id for one in held} | relay.gone
    mine = [one for one in local if matches(world.wire, one) and not world.stays(one.item)]
    return [one for one in mine if one.id not in ids and not settled(one, held)]


def settled(one: Made, held: Iterable[Made]) -> bool:
    """Whether whoever holds these has a reason not to hold that: a newer version, a deletion."""
    return any(_replaces(other, one) or _deletes(other, one) for other in held)


def _replaces(other: Made, one: Made) -> bool:
    newer = (-other.created_at, other.id) < (-one.created_at, one.id)
    return one.address is not None and other.address == one.address and newer


def _deletes(other: Made, one: Made) -> bool:
    named = other.kind == 5 and other.pubkey == one.pubkey
    return named and any(tag[0] == "e" and tag[1] == one.id for tag in other.tags)
