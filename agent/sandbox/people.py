"""Made-up people over a week: who follows, reacts, reposts and replies when. Of a seed."""

from __future__ import annotations

import random
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client import kinds
from nostr_client.event import EventTemplate
from nostr_client.keys import KeySigner

if TYPE_CHECKING:
    from nostr_client.keys import VerifiedEvent

SEED: Final = 11
PEOPLE: Final = 1500
WEEK: Final = 7 * 86_400
REPLY: Final = kinds.TEXT_NOTE


class Deed(NamedTuple):
    """An event, when it came to be, and the relays (by number) that it was sent to."""

    event: VerifiedEvent
    at: int
    relays: tuple[int, ...]


class World:
    """One author, two notes, and the people around them; `now` ends the week."""

    def __init__(self, now: int, *, people: int = PEOPLE) -> None:
        self._rng = random.Random(SEED)
        self._now = now
        self._n = 0
        self._people = people
        author = _signer("author")
        self.author = author.pubkey
        self.launch = author.sign_now(_note("It is out.", now - WEEK + 3600))
        self.thread = author.sign_now(_note("What do you count?", now - 2 * 86_400))

    def past(self, relays: int) -> list[Deed]:
        """All deeds of the week, in no order: more people each day, a burst after each note."""
        everywhere = tuple(range(relays))
        found = [Deed(one, one.event.created_at, everywhere) for one in (self.launch, self.thread)]
        for _ in range(self._people):
            found += self._person(int(self._rng.triangular(0, WEEK, 0.2 * WEEK)), relays)
        return found

    def next(self, now: int, relays: int) -> list[Deed]:
        """What somebody new does now."""
        self._now = now
        return self._person(0, relays)

    def _person(self, ago: int, relays: int) -> list[Deed]:
        self._n += 1
        signer, at = _signer(f"person {self._n}"), self._now - ago
        follow = EventTemplate(
            kind=kinds.CONTACTS, tags=(("p", self.author),), content="", created_at=at
        )
        found = [self._deed(signer, follow, relays)]
        for share, kind, target in _HABITS:
            note = self.launch if target == "launch" else self.thread
            if self._rng.random() < share:
                later = min(self._now, max(note.event.created_at, at) + self._rng.randrange(40_000))
                tags = (("e", note.event.id), ("p", self.author))
                event = EventTemplate(kind=kind, tags=tags, content="+", created_at=later)
                found.append(self._deed(signer, event, relays))
        return found

    def _deed(self, signer: KeySigner, template: EventTemplate, relays: int) -> Deed:
        many = self._rng.choice((1, 2, 2, 3))
        where = tuple(sorted(self._rng.sample(range(relays), min(many, relays))))
        return Deed(signer.sign_now(template), template.created_at, where)


_HABITS: Final = (
    (0.45, kinds.REACTION, "launch"),
    (0.12, kinds.REPOST, "launch"),
    (0.30, kinds.REACTION, "thread"),
    (0.08, REPLY, "thread"),
)


def _signer(name: str) -> KeySigner:
    return KeySigner(sha256(f"sandbox {SEED} {name}".encode()).digest(), rand=bytes)


def _note(text: str, at: int) -> EventTemplate:
    return EventTemplate(kind=kinds.TEXT_NOTE, content=text, created_at=at)
