"""What an event says about another one: what a reaction is to, where in a thread a reply is. Pure.

Registers and counts of relays know tags only, so they cannot show any of this. Sources: NIP-10
(replies), NIP-22 (comments), NIP-25 (reactions), NIP-57 (splits of zaps).
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.errors import clip

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nostr_client.codecs.event import Event

DIRECT: Final = "direct"
THREAD: Final = "thread"

LABEL_BYTES: Final = 64
"""Bytes of a reaction's content that are shown: an emoji of several characters has up to 35."""


def reacted_to(reaction: Event) -> str | None:
    """The id that a reaction is to: the last `e`, as clients may copy the `e` of a thread."""
    ids = [tag[1] for tag in reaction.tags if len(tag) > 1 and tag[0] == "e"]
    return ids[-1] if ids else None


def targets_named(event: Event, names: Iterable[str]) -> set[str]:
    """Return the ids and addresses that tags `e`, `E`, `a` and `A` name.

    Only an address has a colon. An `a` without one names no address, and an `e` with one no event.
    So a caller may keep ids and addresses in one table.
    """
    return {
        value
        for name in names
        for value in event.tag_values(name)
        if (":" in value) == (name in "aA")
    }


def identifiers_named(event: Event, names: Iterable[str]) -> dict[str, set[str]]:
    """Return the identifiers (NIP-73) that tags `I` and `i` name, with the kinds they have there.

    `K` is the kind of `I`, and `k` that of `i` (NIP-22). Of as many identifiers as kinds, each has
    its own kind, in their order; else all have the first.
    """
    found: dict[str, set[str]] = {}
    for name in names:
        values = [*event.tag_values(name)]
        given = [*event.tag_values("K" if name == "I" else "k")]
        kinds = given if len(given) == len(values) else given[:1] * len(values)
        for value, kind in zip_longest(values, kinds):
            found.setdefault(value, set()).update(() if kind is None else (kind,))
    return found


def reaction_targets(reaction: Event) -> set[str]:
    """Return the id and the addresses that a reaction is to."""
    target = reacted_to(reaction)
    ids = set() if target is None or ":" in target else {target}
    return ids | targets_named(reaction, "a")


def reaction_label(reaction: Event) -> str:
    """What a reaction says: `+` for a like (or no content), `-` for a dislike, else its text."""
    return clip(reaction.content.strip() or "+", LABEL_BYTES)


def reply_place(reply: Event, target: str) -> str | None:
    """DIRECT for a reply to `target`, THREAD for one below it, None for a mere mention.

    `target` is an event id, or an address, which `a` names beside an `e` for its version or the
    parent.
    """
    thread = thread_of(reply, addresses=":" in target)
    if target in thread.parents:
        return DIRECT
    return THREAD if target in thread.roots else None


class Thread(NamedTuple):
    """What a note replies to, and what its thread began with: ids and addresses."""

    parents: frozenset[str]
    roots: frozenset[str]


def thread_of(note: Event, *, addresses: bool = True) -> Thread:
    """Where a note stands in a thread; both sets are empty for one that replies to nothing.

    With markers `reply` names the parent, and `root` alone is a direct reply to the root. Without
    markers the first `e` is the root and the last `e` the parent, as NIP-10 had it before. Those in
    between are mentions: NIP-10 says that they may or may not be in the thread. An `a` without a
    marker is a root, and so the parent where no `e` is. Without `addresses` no `a` is read.
    """
    names = ("e", "a") if addresses else ("e",)
    tags = [tag for tag in note.tags if len(tag) > 1 and tag[0] in names]
    plain = [tag for tag in tags if len(tag) < 4 or tag[3] not in _MARKERS]
    roots, parents = (_marked(tags, marker) for marker in ("root", "reply"))
    if roots | parents:
        roots |= {tag[1] for tag in plain if tag[0] == "a"}
        parents = parents or roots
    else:
        events = [tag for tag in plain if tag[0] == "e"]
        roots = {tag[1] for tag in (*events[:1], *events[-1:])}
        roots |= {tag[1] for tag in plain if tag[0] == "a"}
        parents = {tag[1] for tag in (events or plain)[-1:]}
    return Thread(frozenset(parents), frozenset(roots))


_MARKERS: Final = ("root", "reply", "mention")


def _marked(tags: Iterable[tuple[str, ...]], marker: str) -> set[str]:
    return {tag[1] for tag in tags if len(tag) > 3 and tag[3] == marker}


def address_of(event: Event) -> str:
    """The address of an addressable event, as `a` tags hold it: `kind:pubkey:d` (NIP-01)."""
    return f"{event.kind}:{event.pubkey}:{event.first_tag('d') or ''}"


def receivers(event: Event) -> frozenset[str]:
    """Whom a zap of an event may pay: those of its `zap` tags (splits), and its author."""
    return frozenset(event.tag_values("zap")) | {event.pubkey}


def people_named(event: Event) -> frozenset[str]:
    """Return the distinct values of the `p` tags: the keys that a follow list (kind 3) names."""
    return frozenset(tag[1] for tag in event.tags if len(tag) > 1 and tag[0] == "p")
