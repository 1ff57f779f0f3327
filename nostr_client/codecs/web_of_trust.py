"""Who is within a person's web of trust, and how near: from follow and mute lists. Pure.

The web of a key is the people whom it follows (depth 1) and those whom they follow (depth 2). Mutes
are subtracted: whom the key mutes is not in its web, and at depth 2 each mute by a followed person
cancels one follow by another. Only public lists count: kind 3 (NIP-02), and the `p` tags of kind
10000 (NIP-51). Encrypted entries are never read.

`rank`, 0 to 100: let n be the people whom the key follows and does not mute, and s the number of
them who follow someone, less the number who mute that one, but at least 0.

- followed: 50 + the root of 2500 * s / n
- depth 2, with s of 1 or more: 1 + the root of 2304 * s / n
- anybody else, and the key itself: 0

Divisions and roots are rounded down, so ranks are the same on every machine. The root spreads small
shares: most people are followed by a few of those whom one follows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from math import isqrt
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.codecs import nip19
from nostr_client.codecs.event import nip01_order
from nostr_client.codecs.kinds import CONTACTS, MUTE_LIST
from nostr_client.errors import InvalidInput, clip

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nostr_client.codecs.event import Event

ME: Final = "me"
"""How a person names the own key."""

DEEPEST: Final = 2
"""At depth 3 nearly everybody is in everybody's web, so it would say nothing."""

LISTS: Final = (CONTACTS, MUTE_LIST)
"""Kinds of the events that make a web."""

_KEY: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class FollowsAndMutes(NamedTuple):
    """Whom one person follows and mutes in public, pubkeys in hex; `follows` None: no list."""

    follows: frozenset[str] | None = None
    mutes: frozenset[str] = frozenset()


NO_LINKS: Final = FollowsAndMutes()


class Root(NamedTuple):
    """Whose web is meant, and how deep: 1 or 2."""

    pubkey: str
    depth: int = 1

    def __str__(self) -> str:
        return f"{nip19.PublicKey(self.pubkey).encode()}:{self.depth}"


class Web(msgspec.Struct, frozen=True, kw_only=True):
    """The people within a web, with their ranks, 1 to 100.

    `lists`: how many of the followed people have a follow list that is known; below `followed` the
    web may lack people of depth 2.
    """

    root: Root
    ranks: Mapping[str, int]
    followed: int
    lists: int

    @property
    def nearest_first(self) -> list[str]:
        """The people by rank, highest first, then by key."""
        return sorted(self.ranks, key=lambda key: (-self.ranks[key], key))

    def rank(self, pubkey: str) -> int:
        """Return the rank of anybody; 0 for a key that is not in the web."""
        return self.ranks.get(pubkey, 0)

    @property
    def complete(self) -> bool:
        """Whether every list that the web is made from is known."""
        return self.root.depth == 1 or self.lists == self.followed


def read_root(text: str, me: str | None = None) -> Root:
    """Return the root that a person named: `me` or a key in any form, with `:1` or `:2`.

    `me`: the own key in hex, if it is known. Raises InvalidInput, InvalidIdentifier.
    """
    named, sign, depth = text.strip().rpartition(":")
    if not (sign and depth.isdigit()):
        named, depth = text.strip(), "1"
    if depth not in map(str, range(1, DEEPEST + 1)):
        raise InvalidInput(f"a web of trust has depth 1 or 2, not {clip(depth, 20)}")
    if named != ME:
        return Root(nip19.decode_pubkey(named), int(depth))
    if me is None:
        raise InvalidInput("whose web is 'me'? name a key file, or an npub instead of 'me'")
    return Root(me, int(depth))


def links_of(events: Iterable[Event]) -> dict[str, FollowsAndMutes]:
    """Return the links of each author by the newest list of each kind; other kinds are skipped."""
    newest: dict[tuple[str, int], Event] = {}
    for event in events:
        key = event.pubkey, event.kind
        known = newest.get(key)
        if event.kind in LISTS and (known is None or nip01_order(event) < nip01_order(known)):
            newest[key] = event
    found: dict[str, FollowsAndMutes] = {}
    for (author, kind), event in newest.items():
        named = frozenset(filter(_KEY.fullmatch, event.tag_values("p")))
        links = found.get(author, NO_LINKS)
        own = links._replace(follows=named) if kind == CONTACTS else links._replace(mutes=named)
        found[author] = own
    return found


def followed(root: Root, links: Mapping[str, FollowsAndMutes]) -> frozenset[str]:
    """Return whom the root follows and does not mute: depth 1 of its web."""
    own = links.get(root.pubkey, NO_LINKS)
    return (own.follows or frozenset()) - own.mutes - {root.pubkey}


def web_of(root: Root, links: Mapping[str, FollowsAndMutes]) -> Web:
    """Return the web of a root. `links`: those of the root and of all whom it follows."""
    near = followed(root, links)
    theirs = [links.get(key, NO_LINKS) for key in near]
    score = Counter(key for one in theirs for key in one.follows or ())
    score.subtract(key for one in theirs for key in one.mutes)
    ranks = {key: 50 + isqrt(2500 * max(score[key], 0) // len(near)) for key in near}
    if root.depth > 1:
        out = near | links.get(root.pubkey, NO_LINKS).mutes | {root.pubkey}
        far = {key: number for key, number in score.items() if number > 0 and key not in out}
        ranks |= {key: 1 + isqrt(2304 * number // len(near)) for key, number in far.items()}
    known = sum(one.follows is not None for one in theirs)
    return Web(root=root, ranks=ranks, followed=len(near), lists=known)
