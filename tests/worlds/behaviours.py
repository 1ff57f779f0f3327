"""The catalogue: what a relay does otherwise than a plain one, each as a small value with hooks.

A plain relay sends newest first, at most 500 a page, says nothing after EOSE, and knows neither
COUNT nor NIP-77. Each behaviour changes one thing; a relay has any number of them, and hooks of
the same name are called one after the other. `spoils` names the proofs that a behaviour takes from
an honest client: `READ` (its events are all there), `COUNT` (its number is right), `SYNC`.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nostr_client import hll
from tests.worlds.items import lone_surrogate, random_id, too_big, too_deep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.worlds.items import Made
    from tests.worlds.relays import SimRelay

    Asked = Mapping[str, Any]

READ: Final = "read"
COUNT: Final = "count"
SYNC: Final = "sync"


@dataclass(frozen=True)
class Behaviour:
    """A plain relay's behaviour: every hook leaves things as they are."""

    spoils: ClassVar[frozenset[str]] = frozenset()

    def is_silent(self, relay: SimRelay) -> bool:
        """Whether the relay answers nothing in this round."""
        return False

    def is_away(self, relay: SimRelay) -> bool:
        """Whether no connection can be made in this round."""
        return False

    def sends_of(self, relay: SimRelay, message: Sequence[Any]) -> int | None:
        """How many events of an answer come, and never its end; None: it is answered."""
        return None

    def drops(self, key: str) -> bool:
        """Whether an event is accepted and not kept."""
        return False

    def refusal(self, relay: SimRelay, verb: str) -> str | None:
        """The reason by which a message is refused, if it is."""
        return None

    def chokes(self, id_: str) -> bool:
        """Whether the relay breaks the connection when it is sent this event."""
        return False

    def serves(self, relay: SimRelay, one: Made) -> bool:
        """Whether the relay sends an event that it holds."""
        return True

    def order(self, asked: Asked, found: list[Made]) -> list[Made]:
        """The matching events, newest first before, as this relay sorts them."""
        return found

    def cap(self) -> int | None:
        """Events of a page at most."""
        return None

    def arranged(self, page: list[Made]) -> list[Made]:
        """A page that was cut, in the order in which it is sent."""
        return page

    def frame(self, relay: SimRelay, one: Made) -> str | None:
        """The JSON sent in place of an event's own."""
        return None

    def hints(self, *, sent: int, limit: int, whole: bool) -> list[Any]:
        """What follows the subscription id in EOSE."""
        return []

    def count(self, relay: SimRelay, asked: Asked, found: Sequence[Made]) -> dict[str, Any] | None:
        """The body of the answer to a COUNT, None where this behaviour answers none."""
        return None

    def recounted(self, relay: SimRelay, asked: Asked, body: dict[str, Any]) -> dict[str, Any]:
        """The body as it goes out."""
        return body

    def listing(self, relay: SimRelay, found: Sequence[Made]) -> list[tuple[int, str]] | None:
        """Time and id of what NIP-77 is answered from, newest first; None: it is not spoken."""
        return None

    def too_many(self, size: int) -> int | None:
        """How many events a NIP-77 session may compare, where `size` is more than that."""
        return None

    def listed(self, relay: SimRelay, ids: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """The listing as it is compared."""
        return ids


# Pages.


@dataclass(frozen=True)
class Cap(Behaviour):
    """At most `size` events a page, whatever the limit."""

    size: int

    def cap(self) -> int | None:
        return self.size


@dataclass(frozen=True)
class OldestFirst(Behaviour):
    """Sends the oldest first; `of_all`: a page is the oldest that match, not the newest.

    `turned`: it sends a page of the oldest newest first, as if it were any other.
    """

    of_all: bool
    turned: bool = False
    spoils = frozenset({READ, SYNC})

    def order(self, asked: Asked, found: list[Made]) -> list[Made]:
        return found[::-1] if self.of_all else found

    def arranged(self, page: list[Made]) -> list[Made]:
        return page if self.of_all != self.turned else page[::-1]


@dataclass(frozen=True)
class Unordered(Behaviour):
    """Sends events in the order of their hashes; `of_all`: a page is any part of what matches."""

    of_all: bool
    spoils = frozenset({READ, SYNC})

    def order(self, asked: Asked, found: list[Made]) -> list[Made]:
        return self._shuffled(found) if self.of_all else found

    def arranged(self, page: list[Made]) -> list[Made]:
        return page if self.of_all else self._shuffled(page)

    @staticmethod
    def _shuffled(found: list[Made]) -> list[Made]:
        return sorted(found, key=lambda one: sha256(one.id.encode()).digest())


@dataclass(frozen=True)
class Finishes(Behaviour):
    """NIP-67 as it should be: `finish` where no more matches, `more` where there is."""

    def hints(self, *, sent: int, limit: int, whole: bool) -> list[Any]:
        return [["finish" if whole else "more"]]


@dataclass(frozen=True)
class OddHint(Behaviour):
    """Something after EOSE that means nothing."""

    hint: object

    def hints(self, *, sent: int, limit: int, whole: bool) -> list[Any]:
        return [self.hint]


@dataclass(frozen=True)
class FinishesAtTheLimit(Behaviour):
    """Takes a page of exactly `limit` events for the end."""

    spoils = frozenset({READ, SYNC})

    def hints(self, *, sent: int, limit: int, whole: bool) -> list[Any]:
        return [["finish" if sent == limit or whole else "more"]]


@dataclass(frozen=True)
class FinishesEarly(Behaviour):
    """Says `finish` after every page, cut or not; its COUNT shows that it is not true."""

    spoils = frozenset({READ, SYNC})

    def hints(self, *, sent: int, limit: int, whole: bool) -> list[Any]:
        return [["finish"]]


@dataclass(frozen=True)
class Unreadable(Behaviour):
    """The frame of one of its events, its lowest id, can not be read."""

    how: str
    spoils = frozenset({READ, SYNC})
    WAYS: ClassVar = {"lone surrogate": lone_surrogate, "deep": too_deep, "too big": too_big}

    def frame(self, relay: SimRelay, one: Made) -> str | None:
        return self.WAYS[self.how](one) if one.id == min(relay.held, default="") else None


# COUNT.


@dataclass(frozen=True)
class Counts(Behaviour):
    """COUNT, exact."""

    def count(self, relay: SimRelay, asked: Asked, found: Sequence[Made]) -> dict[str, Any] | None:
        return {"count": len(found)}


@dataclass(frozen=True)
class Sketches(Behaviour):
    """COUNT with registers where NIP-45 gives them."""

    def count(self, relay: SimRelay, asked: Asked, found: Sequence[Made]) -> dict[str, Any] | None:
        body: dict[str, Any] = {"count": len(found)}
        offset = hll.offset(asked)
        if offset is not None and hll.eligible(asked):
            body["hll"] = hll.to_hex(hll.from_pubkeys([one.pubkey for one in found], offset))
        return body


@dataclass(frozen=True)
class Limits(Behaviour):
    """Counts no further than `most`, and says that it did."""

    most: int
    spoils = frozenset({COUNT})

    def recounted(self, relay: SimRelay, asked: Asked, body: dict[str, Any]) -> dict[str, Any]:
        if body["count"] <= self.most:
            return body
        return body | {"count": self.most, "limited": True}


@dataclass(frozen=True)
class Approximates(Behaviour):
    """Says that its count, off by a twentieth, is approximate."""

    def recounted(self, relay: SimRelay, asked: Asked, body: dict[str, Any]) -> dict[str, Any]:
        return body | {"count": round(body["count"] * 1.05), "approximate": True}

    spoils = frozenset({COUNT})


@dataclass(frozen=True)
class LiesCount(Behaviour):
    """Says `factor` times its count, and `plus` more."""

    factor: float = 1.0
    plus: int = 0
    spoils = frozenset({COUNT})

    def recounted(self, relay: SimRelay, asked: Asked, body: dict[str, Any]) -> dict[str, Any]:
        told = min(int(body["count"] * self.factor) + self.plus, 2**63 - 1)
        return body | {"count": told}


@dataclass(frozen=True)
class FalseZero(Behaviour):
    """Refuses every COUNT by a 0; `says_so`: a NOTICE comes before it, as khatru sends one."""

    says_so: bool
    spoils = frozenset({COUNT})

    def recounted(self, relay: SimRelay, asked: Asked, body: dict[str, Any]) -> dict[str, Any]:
        if self.says_so:
            relay.notice("blocked: not for you")
        return {"count": 0}


@dataclass(frozen=True)
class MinedKeys(Behaviour):
    """Registers of keys that somebody mined: `n` of them say `rank`."""

    n: int
    rank: int
    spoils = frozenset({COUNT})

    def recounted(self, relay: SimRelay, asked: Asked, body: dict[str, Any]) -> dict[str, Any]:
        if "hll" not in body:
            return body
        raised = bytearray.fromhex(body["hll"])
        for i in range(self.n):
            raised[(37 * i + 11) % 256] = self.rank
        return body | {"hll": raised.hex(), "count": body["count"] + self.n}


# NIP-77.


@dataclass(frozen=True)
class Negentropy(Behaviour):
    """NIP-77, honest; `newest`: answers from its newest events alone, without a word."""

    newest: int | None = None

    def listing(self, relay: SimRelay, found: Sequence[Made]) -> list[tuple[int, str]] | None:
        return [(one.created_at, one.id) for one in found][: self.newest]


@dataclass(frozen=True)
class Omits(Behaviour):
    """Leaves `n` of the events that it held at first out of NIP-77: those of the lowest ids.

    `newest`: the newest ones in their place, which a first count sees and a later one may not.

    Nobody can see that of an event that he did not have before, so a world with it has no syncs.
    """

    n: int
    newest: bool = False
    spoils = frozenset({READ, SYNC})

    def listed(self, relay: SimRelay, ids: list[tuple[int, str]]) -> list[tuple[int, str]]:
        first = relay.first_newest if self.newest else relay.first_ids
        return [one for one in ids if one[1] not in first[: self.n]]


@dataclass(frozen=True)
class WorksThrough(Behaviour):
    """Refuses a NIP-77 session of more than `most` events, as strfry does."""

    most: int

    def too_many(self, size: int) -> int | None:
        return self.most if size > self.most else None


@dataclass(frozen=True)
class Invents(Behaviour):
    """Names ids in NIP-77 that nobody has; `below`: older than all else, else amid them."""

    n: int
    below: bool = False
    spoils = frozenset({READ, SYNC})

    def listed(self, relay: SimRelay, ids: list[tuple[int, str]]) -> list[tuple[int, str]]:
        times = [at for at, _ in ids] or [1_700_000_000]
        at = min(times) - 50 if self.below else max(times) - 1
        return ids + [(at, random_id(relay.url, i)) for i in range(self.n)]


@dataclass(frozen=True)
class Withholds(Behaviour):
    """Names its `n` lowest ids in NIP-77 and counts them, and never sends them."""

    n: int
    spoils = frozenset({READ, SYNC, COUNT})

    def serves(self, relay: SimRelay, one: Made) -> bool:
        return one.id not in sorted(relay.held)[: self.n]


# Refusals and silence.


@dataclass(frozen=True)
class Chokes(Behaviour):
    """Breaks the connection at every fourth event that it is sent: strfry does at a large one."""

    spoils = frozenset({SYNC})

    def chokes(self, id_: str) -> bool:
        return int(id_[:2], 16) % 4 == 0


@dataclass(frozen=True)
class Refuses(Behaviour):
    """Refuses messages of one verb, so many times in all."""

    verb: str
    reason: str
    times: int
    spoils = frozenset({READ, COUNT, SYNC})

    def refusal(self, relay: SimRelay, verb: str) -> str | None:
        if verb != self.verb or relay.spent[self] >= self.times:
            return None
        relay.spent[self] += 1
        relay.refused_at = relay.now()
        return self.reason

    def is_over(self, relay: SimRelay) -> bool:
        """Whether it refused for the last time more than a day and a half ago, and not for good."""
        final = self.verb == "EVENT" and self.reason.startswith(("invalid", "pow"))
        rested = relay.now() - relay.refused_at > 1.5 * 86_400
        return relay.spent[self] >= self.times and rested and not final


@dataclass(frozen=True)
class Drops(Behaviour):
    """Accepts every event, and keeps none."""

    spoils = frozenset({SYNC})

    def drops(self, key: str) -> bool:
        return True


@dataclass(frozen=True)
class Silent(Behaviour):
    """Answers nothing in this step of the world, counted from 0."""

    step: int
    spoils = frozenset({READ, COUNT, SYNC})

    def is_silent(self, relay: SimRelay) -> bool:
        return relay.step == self.step


@dataclass(frozen=True)
class Away(Behaviour):
    """Takes no connection in this step of the world."""

    step: int
    spoils = frozenset({READ, COUNT, SYNC})

    def is_away(self, relay: SimRelay) -> bool:
        return relay.step == self.step


@dataclass(frozen=True)
class Late(Behaviour):
    """In every other step, never ends an answer to some verbs; `sends`: events that come first.

    `by_author`: only the questions that name authors.
    """

    verbs: tuple[str, ...] = ("REQ", "COUNT", "NEG-OPEN")
    sends: int = 0
    by_author: bool = False
    spoils = frozenset({READ, COUNT, SYNC})

    def sends_of(self, relay: SimRelay, message: Sequence[Any]) -> int | None:
        if relay.step % 2 == 0 or message[0] not in self.verbs:
            return None
        if self.by_author and not any("authors" in asked for asked in message[2:]):
            return None
        return self.sends
