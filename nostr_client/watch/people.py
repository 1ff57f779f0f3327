"""Say who did what: the people behind a watch's number, newest first. Pure.

What is known of a person comes from verified events: those that the watch's relays gave and give no
longer, their live events, and newer lists that lack the key. A relay can hide people by omission
and invent nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from nostr_client.codecs import nip19
from nostr_client.codecs.display import said, sats
from nostr_client.codecs.profiles import is_address, person
from nostr_client.count.figures import Figure

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

Act = Literal[
    "followed",
    "follows",
    "unfollowed",
    "reacted",
    "reposted",
    "quoted",
    "replied",
    "commented",
    "zapped",
    "wrote",
    "no longer seen",
]

ACTS: Final[dict[str, Act]] = {
    "followers": "followed",
    "reactions": "reacted",
    "reposts": "reposted",
    "quotes": "quoted",
    "replies": "replied",
    "comments": "commented",
    "replies+comments": "replied",
    "zaps": "zapped",
}
"""What the author of a matching event did, by the question; of any other question, `wrote`."""

WIPED: Final = 10
"""A list that keeps less than this part of its keys was replaced by a client that lost it."""

LEAST_WIPED: Final = 20
"""Keys of a list below which an unfollow is nothing unusual, whatever part of it is left."""


class Person(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one person did, and when. Times are Unix seconds.

    - `act`: what the person did. `follows`: a list names the key, but may not be new. `no longer
      seen`: no relay gives the event any more, for an unknown reason.
    - `at`: time in the event.
    - `seen_at`: when this store first saw the event, or first missed it.
    - `event`: id of the event.
    - `amount`: millisats that a zap receipt claims.
    - `keys`: number of keys in a follow list now, if known.
    - `keys_before`: number of keys in the list before an unfollow, if known.
    """

    act: Act
    pubkey: str
    at: int
    seen_at: int
    event: str
    name: Annotated[
        str | None, Meta(description="name in the stored profile; a name is no proof of identity")
    ] = None
    amount: int | None = None
    keys: int | None = None
    keys_before: int | None = None

    @property
    def wiped(self) -> bool:
        """Whether a list lost nearly all its keys at once."""
        now, before = self.keys, self.keys_before
        if now is None or before is None or before < LEAST_WIPED:
            return False
        return now * WIPED < before

    @property
    def short(self) -> str:
        """The key as an npub, cut in the middle."""
        npub = nip19.PublicKey(self.pubkey).encode()
        return f"{npub[:12]}...{npub[-6:]}"

    def __str__(self) -> str:
        return f"{self.who} {self.what}"

    @property
    def person(self) -> str:
        """The name with the whole key behind it, or the whole key."""
        return person(self.pubkey, {} if self.name is None else {self.pubkey: self.name})

    @property
    def who(self) -> str:
        """The name with the key behind it, or the key."""
        return self.short if self.name is None else f"{self.name} ({self.short})"

    @property
    def what(self) -> str:
        """What the person did, in words."""
        if self.wiped:
            return f"unfollowed: the list was wiped, {self.keys_before:,} to {self.keys:,}"
        if self.act == "zapped" and self.amount is not None:
            return f"zapped {sats(self.amount)} (claimed)"
        if self.act == "follows":
            return "follows, since when is not known"
        return self.act


class People(msgspec.Struct, frozen=True, kw_only=True):
    """What people did since a time, newest first.

    - `more`: number of people that the limit left out.
    - `known`: number of distinct authors in the events now.
    - `unnamed`: number of further people that only registers show. It is null if all relays give
      events.
    """

    since: int
    people: tuple[Person, ...]
    more: int = 0
    known: int = 0
    unnamed: Figure | None = None

    @property
    def nameless(self) -> str:
        """How many more there are by no name, in words; "" if there is nobody else."""
        if self.unnamed is None or self.unnamed.high == 0:
            return ""
        others = said(self.unnamed, "other person", "other people")
        return f"without names, from registers alone: {others}"


class Fact(NamedTuple):
    """One event as a relay gave it, or as it was received; raw ids and keys.

    `member` stands for it: the author of a follow list, else the event's id. `known_at`: since when
    it is known, None for what relays gave from the start. `found_at`: when it last came.
    `lost_at`: since when its relay gives it no longer. `is_new`: whether its author was provably
    not there before.
    """

    member: bytes
    author: bytes
    id: bytes
    created_at: int
    amount: int = 0
    known_at: int | None = None
    found_at: int | None = None
    lost_at: int | None = None
    is_new: bool = True


class Left(NamedTuple):
    """A newer list that lacks the key: how many keys it names, and how many did before (0: not
    known)."""

    created_at: int
    id: bytes
    size: int
    earlier: int
    proven_at: int


def of_lists(
    facts: Iterable[Fact],
    constant: Collection[bytes],
    left: Mapping[bytes, Left],
    since: int,
) -> list[Person]:
    """Return who followed, unfollowed or is no longer seen since a time.

    `constant`: authors that some relay has given from the start. `left`: by author, the newest
    list that lacks the key.
    """
    by_author: dict[bytes, list[Fact]] = {}
    for fact in facts:
        by_author.setdefault(fact.author, []).append(fact)
    found = [
        _follower(author, by_author.get(author, ()), left.get(author), author in constant)
        for author in by_author.keys() | left.keys()
    ]
    return [one for one in found if one is not None and one.seen_at >= since]


def _follower(
    author: bytes, facts: Sequence[Fact], left: Left | None, is_constant: bool
) -> Person | None:
    """Return the newest thing that is known of one author."""
    given = [fact for fact in facts if fact.lost_at is None]
    newest = max(facts, key=_version, default=None)
    if left is not None and (newest is None or _version(left) > _version(newest)):
        return _person("unfollowed", author, left, left.proven_at, left=left)
    if newest is None:
        return None
    if not given and not is_constant:
        gone = max(fact.lost_at or 0 for fact in facts)
        return _person("no longer seen", author, newest, gone)
    if left is not None:
        back = [fact for fact in given if _version(fact) > _version(left)]
        came = min((one.found_at for one in back if one.found_at is not None), default=None)
        return None if came is None else _person("followed", author, max(back, key=_version), came)
    known = [fact.known_at for fact in facts]
    times = [at for at in known if at is not None]
    if is_constant or len(times) < len(known):
        return None
    is_new = all(fact.is_new for fact in facts)
    return _person("followed" if is_new else "follows", author, newest, min(times))


def _version(one: Fact | Left) -> tuple[int, tuple[int, ...]]:
    """Order versions: the newer is larger, of equals the one with the lower id (NIP-01)."""
    return one.created_at, tuple(-byte for byte in one.id)


def of_events(facts: Iterable[Fact], act: Act, since: int, now: int) -> list[Person]:
    """Return who acted since a time, and whose events relays give no longer; each event once.

    An event that relays gave from the start counts as seen at the time that it says. One that says
    a time after `now` is left out until then: it would be the newest of all for ever.
    """
    by_member: dict[bytes, list[Fact]] = {}
    for fact in facts:
        by_member.setdefault(fact.member, []).append(fact)
    found = (_actor(same, act, now) for same in by_member.values())
    return [one for one in found if one is not None and one.seen_at >= since]


def _actor(same: Sequence[Fact], act: Act, now: int) -> Person | None:
    one = same[0]
    if all(fact.lost_at is not None for fact in same):
        gone = max(fact.lost_at or 0 for fact in same)
        return _person("no longer seen", one.author, one, gone)
    times = [fact.created_at if fact.known_at is None else fact.known_at for fact in same]
    seen = min((at for at in times if at <= now), default=None)
    amount = one.amount if act == "zapped" else None
    return None if seen is None else _person(act, one.author, one, seen, amount=amount)


def _person(
    act: Act,
    author: bytes,
    event: Fact | Left,
    seen_at: int,
    *,
    amount: int | None = None,
    left: Left | None = None,
) -> Person:
    return Person(
        act=act,
        pubkey=author.hex(),
        at=event.created_at,
        seen_at=seen_at,
        event=event.id.hex(),
        amount=amount,
        keys=None if left is None else left.size,
        keys_before=(left.earlier or None) if left is not None else None,
    )


def newest_first(people: Iterable[Person]) -> list[Person]:
    """Return people in the order in which they are shown."""
    return sorted(people, key=lambda one: (-one.seen_at, -one.at, one.pubkey, one.event))


def unnamed(figure: Figure | None, known: int, possible: int = 0) -> Figure | None:
    """Return how many of a number of people nobody can name, if the keys of `known` of them are
    known, and those of `possible` more may be."""
    if figure is None:
        return None
    return msgspec.structs.replace(
        figure,
        value=max(0, figure.value - known - possible),
        low=max(0, figure.low - known - possible),
        high=None if figure.high is None else max(0, figure.high - known),
    )


def _is_link(one: Person) -> bool:
    return one.name is not None and is_address(one.name)


def newest_names(people: Sequence[Person], most: int, watch: str) -> str:
    """Return the newest people of a watch as one line, such as `Alice (npub1…) followed`.

    Of more than `most` it has how many others there are, and the command that names them.

    The line goes to programs that make links and mentions: whose name would be one is shown by key.
    """
    shown = [f"{one.short if _is_link(one) else one.who} {one.what}" for one in people[:most]]
    left = len(people) - len(shown)
    more = [f"and {left:,} more: nostr-client watch people {watch}"] if left else []
    return "; ".join([*shown, *more])
