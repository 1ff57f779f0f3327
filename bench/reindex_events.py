"""Unsigned events in the shape of those of `bench.dataset`, a million a minute, into a store or an
archive of JSONL.

Signatures are no part of a rebuild, and would take two and a half minutes a million to make.
"""

from __future__ import annotations

import os
import random
import sqlite3
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from bench.dataset import KINDS, SPAN, START, WORDS
from nostr_client.codecs import kinds
from nostr_client.codecs.event import Event, compute_id
from nostr_client.store.lookup import Authors
from nostr_client.store.rows import TagHasher
from nostr_client.store.save import Saver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VERSION = 2
BATCH = 20_000
ONE_EACH = (kinds.METADATA, kinds.CONTACTS, kinds.RELAY_LIST)
"""Kinds of which a store keeps one a person: nobody writes a second, so that all events stay."""


TEXTS = (kinds.TEXT_NOTE, kinds.COMMENT, 30_023)
TEXT = (*WORDS, "café", "🤙", 'say "so"', "a\nline", "https://x.example/a.jpg")


class Fast:
    """Ids, keys and targets by seed; kinds and tags a person as public relays have them: 9.2 tags
    an event, two in three of them of contact lists."""

    def __init__(self, count: int, seed: int = 20261102) -> None:
        self._rng = random.Random(seed)
        self._count = count
        self._authors = [self._rng.randbytes(32).hex() for _ in range(max(50, count // 15))]
        self._notes = [self._rng.randbytes(32).hex() for _ in range(max(100, count // 10))]
        self._writers = {kind: self._shuffled() for kind in ONE_EACH}
        self._kinds = list(KINDS)
        self._weights = list(accumulate(KINDS.values()))

    def _shuffled(self) -> Iterator[str]:
        """Everybody once."""
        return iter(self._rng.sample(self._authors, len(self._authors)))

    def _one(self, of: list[str]) -> str:
        """Few are named often: the cube of an even choice."""
        return of[int(self._rng.random() ** 3 * len(of))]

    def _contacts(self) -> tuple[tuple[str, str], ...]:
        """A list that names nobody twice."""
        size = min(1_500, len(self._authors) // 4, round(self._rng.lognormvariate(6.0, 0.8)))
        named: dict[str, None] = {}
        while len(named) < size:
            named.update(dict.fromkeys(self._one(self._authors) for _ in range(size - len(named))))
        return tuple(("p", key) for key in named)

    def __iter__(self) -> Iterator[Event]:
        rng = self._rng
        drawn = rng.choices(self._kinds, cum_weights=self._weights, k=self._count)
        for index, kind in enumerate(drawn):
            at = START + index * SPAN // self._count
            once = self._writers.get(kind)
            author = self._one(self._authors) if once is None else next(once)
            tags = self._tags(kind)
            yield Event(rng.randbytes(32).hex(), author, at, kind, tags, "", "0" * 128)

    def _tags(self, kind: int) -> tuple[tuple[str, ...], ...]:
        note, author = self._one(self._notes), self._one(self._authors)
        if kind == 3:
            return self._contacts()
        if kind == 9735:
            return (("p", author), ("e", note), ("bolt11", f"lnbc{self._rng.randrange(1, 999)}u1p"))
        if kind in (30_023, 30_078):
            return (("d", str(self._rng.randrange(10**9))), ("t", "x"))
        if kind in (0, 5, 1059):
            return (("p", author),)
        extra = (("E", note), ("K", "1")) if kind == 1111 else ()
        return (("e", note), ("p", author), ("k", "1"), *extra)


def store_of(count: int) -> Path:
    """A store of `count` events, made on first use: its rows are those that a save would write."""
    return _made(count, "store.db", _fill)


def archive_of(count: int) -> Path:
    """JSONL of `count` events whose ids are right, made on first use; some have a text."""
    return _made(count, "events.jsonl", _write_lines)


def _made(count: int, name: str, make: Callable[[Path, int], None]) -> Path:
    """A file of the cache; `make` writes it whole before it gets its name."""
    folder = Path(platformdirs.user_cache_dir("nostr-tally")) / "bench"
    path = folder / f"reindex-v{VERSION}-{count}" / name
    if path.exists():
        return path
    part = path.with_name(f"part.{name}")
    part.parent.mkdir(parents=True, exist_ok=True)
    part.unlink(missing_ok=True)
    make(part, count)
    os.replace(part, path)
    return path


def _write_lines(part: Path, count: int) -> None:
    rng = random.Random(count)
    with part.open("w", encoding="utf-8", newline="\n") as out:
        for event in Fast(count):
            words = rng.choices(TEXT, k=rng.randrange(30)) if event.kind in TEXTS else ()
            out.write(f"{_hashed(event, ' '.join(words)).to_json()}\n")


def _hashed(event: Event, content: str) -> Event:
    id_ = compute_id(event.pubkey, event.created_at, event.kind, event.tags, content)
    return Event(id_, *_named(event), event.tags, content, event.sig)


def _named(event: Event) -> tuple[str, int, int]:
    return event.pubkey, event.created_at, event.kind


def _fill(path: Path, count: int) -> None:
    import asyncio

    from nostr_client.store.sqlite import SqliteStore

    async def make() -> None:
        async with await SqliteStore.open(path):
            """The tables alone."""

    asyncio.run(make())
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("PRAGMA synchronous = OFF")
        conn.execute("PRAGMA cache_size = -262144")
        (key,) = conn.execute("SELECT value FROM meta WHERE key = 'tag_hash_key'").fetchone()
        saver = Saver(TagHasher(key), Authors())
        batch: list[Event] = []
        for event in Fast(count):
            batch.append(event)
            if len(batch) == BATCH:
                _save(conn, saver, batch)
                batch = []
        _save(conn, saver, batch)
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _save(conn: sqlite3.Connection, saver: Saver, batch: list[Event]) -> None:
    conn.execute("BEGIN")
    saver.save(conn, batch, START)
    conn.execute("COMMIT")
