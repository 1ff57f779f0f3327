"""Draws made-up people over a week from a seed: who follows, reacts, reposts and replies when."""

from __future__ import annotations

import random
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client import hll
from nostr_client.codecs import kinds
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner

if TYPE_CHECKING:
    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import VerifiedEvent

SEED: Final = 11
PEOPLE: Final = 1500
WEEK: Final = 7 * 86_400
OFFSET: Final = 8
"""The HyperLogLog offset (NIP-45) of questions about the notes."""


class Post(NamedTuple):
    """An event, its time, and the relays (by number) that it was sent to."""

    event: VerifiedEvent
    at: int
    relays: tuple[int, ...]


class World:
    """One author, two notes, and the people around them; `now` ends the week.

    The same seed gives the same people, whatever the time is, and the same estimates of them.
    """

    def __init__(self, now: int, relays: int, *, people: int = PEOPLE) -> None:
        """`relays`: how many relays the posts are spread over."""
        self._rng = random.Random(SEED)
        self.now = now
        self._relays = relays
        self._n = 0
        self._author = _signer("author")
        self.author = self._author.pubkey
        self.launch = self._note("It is out.", now - WEEK + 3600)
        self.thread = self._note("What do you count?", now - 2 * 86_400)
        everywhere = tuple(range(relays))
        self.posts = [
            Post(one, one.event.created_at, everywhere) for one in (self.launch, self.thread)
        ]
        for _ in range(people):  # more people each day, a burst after each note
            self._person(int(self._rng.triangular(0, WEEK, 0.2 * WEEK)))

    def join(self, now: int) -> list[Post]:
        """Posts of somebody new, who comes now."""
        self.now = now
        before = len(self.posts)
        self._person(0)
        return self.posts[before:]

    def matching(self, filter: Filter) -> list[Post]:
        """All posts so far that match."""
        return [one for one in self.posts if filter.matches(one.event.event)]

    def _person(self, ago: int) -> None:
        self._n += 1
        signer, at = _signer(f"person {self._n}"), self.now - ago
        self._post(signer, kinds.CONTACTS, "", (("p", self.author),), at)
        for share, kind, content, note in (
            (0.45, kinds.REACTION, "+", self.launch),
            (0.12, kinds.REPOST, "", self.launch),
            (0.30, kinds.REACTION, "+", self.thread),
            (0.10, kinds.REACTION, "🤙", self.thread),
            (0.08, kinds.TEXT_NOTE, "People.", self.thread),
        ):
            if self._rng.random() < share:
                later = max(note.event.created_at, at) + self._rng.randrange(40_000)
                tags = (("e", note.event.id), ("p", self.author))
                self._post(signer, kind, content, tags, min(self.now, later))

    def _post(
        self,
        signer: KeySigner,
        kind: int,
        content: str,
        tags: tuple[tuple[str, ...], ...],
        at: int,
    ) -> None:
        event = EventTemplate(kind=kind, tags=tags, content=content, created_at=at)
        many = self._rng.choice((1, 2, 2, 3))
        where = tuple(sorted(self._rng.sample(range(self._relays), min(many, self._relays))))
        self.posts.append(Post(signer.sign_now(event), at, where))

    def _note(self, text: str, at: int) -> VerifiedEvent:
        """The last note up to `at` whose id gives `OFFSET`.

        Its id depends on the time, and estimates depend on the id by its offset alone.
        """
        for earlier in count():
            template = EventTemplate(kind=kinds.TEXT_NOTE, content=text, created_at=at - earlier)
            note = self._author.sign_now(template)
            if hll.offset({"#e": [note.event.id]}) == OFFSET:
                return note
        raise AssertionError


def _signer(name: str) -> KeySigner:
    return KeySigner(sha256(f"demo {SEED} {name}".encode()).digest(), rand=bytes)
