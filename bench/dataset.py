"""Realistic signed events for benchmarks: made once from a seed, kept in the user's cache folder.

The mix of kinds, tags and sizes follows what public relays hold: many reactions to few notes,
a few very active authors, follow lists with hundreds of tags, zap receipts with a request inside.
"""

from __future__ import annotations

import base64
import json
import math
import os
import random
from bisect import bisect
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from nostr_client.codecs.event import EventTemplate, parse_event
from nostr_client.codecs.keys import KeySigner, VerifiedEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHARED = Path(os.environ.get("NOSTR_TALLY_SHARED", Path(__file__).parents[2] / "shared"))
SEED = 20261101
START = 1_750_000_000
SPAN = 90 * 86_400
VERSION = 3
"""Raise it when the events change: the cached files of older ones are then not used."""

_TEXT = (
    "bitcoin nostr relay zap note people about because there would think today never world great"
    " really still going something thanks morning building client protocol freedom privacy signal"
    " network follow reply event money time good just like with this that have from they know"
)
WORDS = _TEXT.split()
KINDS = {
    1: 36.0, 7: 34.0, 6: 6.0, 9735: 6.0, 0: 4.0, 1059: 2.5, 1111: 2.5, 10002: 2.0,
    3: 1.2, 5: 1.0, 30078: 1.0, 16: 0.8, 30023: 0.6, 1984: 0.4,
}  # fmt: skip
RELAYS = ("wss://relay.one.example", "wss://nos.two.example", "wss://relay.three.example/", "")

Tags = list[tuple[str, ...]]


class _Zipf:
    """Picks 0..n-1 with weights 1 / rank^s."""

    def __init__(self, rng: random.Random, n: int, s: float) -> None:
        self._rng = rng
        self._sums = list(accumulate((rank + 1) ** -s for rank in range(n)))

    def __call__(self) -> int:
        return min(bisect(self._sums, self._rng.random() * self._sums[-1]), len(self._sums) - 1)


class Generator:
    """Makes events one after another, in the order of their time, give or take a minute."""

    def __init__(self, count: int, *, seed: int = SEED) -> None:
        self._rng = random.Random(seed)
        self._count = count
        authors = max(50, count // 30)
        self._signers = [KeySigner(self._rng.randbytes(32), rand=_zeros) for _ in range(authors)]
        self._author = _Zipf(self._rng, authors, 0.9)
        self._target = _Zipf(self._rng, 2_000, 1.05)
        self._notes: list[tuple[str, str]] = [
            (self._rng.randbytes(32).hex(), self._signers[0].pubkey)
        ]
        self._hot: list[tuple[str, str]] = list(self._notes)
        self._kinds = list(KINDS)
        self._weights = list(accumulate(KINDS.values()))
        self._makers: dict[int, Callable[[], tuple[Tags, str]]] = {
            0: self._profile, 1: self._note, 3: self._contacts, 5: self._deletion, 6: self._repost,
            7: self._reaction, 16: self._repost, 1059: self._wrap, 1111: self._comment,
            1984: self._report, 9735: self._zap, 10002: self._relays, 30023: self._article,
            30078: self._app_data,
        }  # fmt: skip

    def __iter__(self) -> Iterator[VerifiedEvent]:
        for index in range(self._count):
            kind = self._rng.choices(self._kinds, cum_weights=self._weights)[0]
            self._signer = self._signers[self._author()]
            tags, content = self._makers[kind]()
            at = START + index * SPAN // self._count + self._rng.randint(-60, 60)
            event = self._signer.sign_now(
                EventTemplate(kind=kind, content=content, tags=tuple(tags), created_at=at)
            )
            if kind == 1:
                self._remember(event.event.id, event.event.pubkey)
            yield event

    def _remember(self, note: str, pubkey: str) -> None:
        self._notes.append((note, pubkey))
        if len(self._hot) < 2_000:
            self._hot.append((note, pubkey))
        elif self._rng.random() < 0.02:
            self._hot[self._rng.randrange(50, 2_000)] = (note, pubkey)

    def _pick(self) -> tuple[str, str]:
        """A note to answer: mostly one of the hot ones, else a recent one."""
        if self._rng.random() < 0.6:
            return self._hot[self._target() % len(self._hot)]
        return self._notes[-1 - int(self._rng.random() ** 3 * min(len(self._notes), 5_000))]

    def _someone(self) -> str:
        return self._signers[self._author()].pubkey

    def _text(self, mean: float) -> str:
        words = max(1, round(self._rng.lognormvariate(math.log(mean / 6), 0.8)))
        text = " ".join(self._rng.choices(WORDS, k=words))
        return text + " 🤙" if self._rng.random() < 0.2 else text

    def _note(self) -> tuple[Tags, str]:
        tags: Tags = []
        if self._rng.random() < 0.55:
            (root, first), (reply, second) = self._pick(), self._pick()
            tags += [("e", root, self._rng.choice(RELAYS), "root"), ("p", first)]
            if self._rng.random() < 0.5:
                tags += [("e", reply, self._rng.choice(RELAYS), "reply"), ("p", second)]
        if self._rng.random() < 0.15:
            tags += [("t", word) for word in self._rng.sample(WORDS, 3)]
        return tags, self._text(170)

    def _reaction(self) -> tuple[Tags, str]:
        note, author = self._pick()
        return [("e", note, self._rng.choice(RELAYS)), ("p", author), ("k", "1")], "+"

    def _repost(self) -> tuple[Tags, str]:
        note, author = self._pick()
        inner = json.dumps({"id": note, "pubkey": author, "content": self._text(170)})
        return [("e", note, self._rng.choice(RELAYS)), ("p", author)], inner

    def _profile(self) -> tuple[Tags, str]:
        return [], json.dumps({"name": self._text(15), "about": self._text(120)})

    def _contacts(self) -> tuple[Tags, str]:
        size = min(1_500, round(self._rng.lognormvariate(math.log(80), 1.0)))
        return [("p", key) for key in dict.fromkeys(self._someone() for _ in range(size))], ""

    def _deletion(self) -> tuple[Tags, str]:
        mine = [note for note, author in self._notes[-3_000:] if author == self._signer.pubkey]
        return [("e", mine[-1] if mine else self._pick()[0]), ("k", "1")], ""

    def _zap(self) -> tuple[Tags, str]:
        note, author = self._pick()
        sender, bolt = self._someone(), "lnbc" + self._rng.randbytes(140).hex()
        request = {"kind": 9734, "pubkey": sender, "tags": [["e", note], ["p", author]]}
        tags: Tags = [("p", author), ("P", sender), ("e", note), ("bolt11", bolt)]
        tags += [("description", json.dumps(request)), ("preimage", self._rng.randbytes(32).hex())]
        return tags, ""

    def _relays(self) -> tuple[Tags, str]:
        return [("r", f"wss://relay{self._rng.randrange(300)}.example/") for _ in range(5)], ""

    def _wrap(self) -> tuple[Tags, str]:
        sealed = self._rng.randbytes(self._rng.randrange(600, 1_800))
        return [("p", self._someone())], base64.b64encode(sealed).decode()

    def _comment(self) -> tuple[Tags, str]:
        note, author = self._pick()
        return [("E", note), ("K", "1"), ("P", author), ("e", note), ("k", "1"), ("p", author)], (
            self._text(120)
        )

    def _report(self) -> tuple[Tags, str]:
        note, author = self._pick()
        return [("e", note, "spam"), ("p", author, "spam")], ""

    def _article(self) -> tuple[Tags, str]:
        name = f"article-{self._rng.randrange(1_000)}"
        return [("d", name), ("title", name), ("t", self._rng.choice(WORDS))], self._text(5_000)

    def _app_data(self) -> tuple[Tags, str]:
        return [("d", f"settings:{self._rng.randrange(20)}")], self._text(300)


def _zeros(count: int) -> bytes:
    """No auxiliary randomness: the same seed gives the same signatures."""
    return bytes(count)


def cached(count: int) -> Path:
    """The JSONL file of `count` events; made on first use, about 150 µs an event."""
    folder = Path(platformdirs.user_cache_dir("nostr-tally")) / "bench"
    path = folder / f"events-v{VERSION}-{count}.jsonl"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("w", encoding="utf-8", newline="\n") as out:
            out.writelines(made.event.to_json() + "\n" for made in Generator(count))
        part.replace(path)
    return path


def load(count: int) -> list[VerifiedEvent]:
    """The events, taken as verified: this program signed them."""
    with cached(count).open("rb") as lines:
        return [VerifiedEvent(parse_event(line)) for line in lines]


def shared_lines(limit: int) -> list[str]:
    """Up to `limit` of the real events, spread over the file; [] where it is absent."""
    path = SHARED / "data" / "events.jsonl"
    if not path.exists():
        return []
    lines = path.read_text("utf-8").rstrip("\n").split("\n")
    return lines[:: max(1, len(lines) // limit)][:limit]
