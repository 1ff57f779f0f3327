"""Publish the cards of a table of counts, such as Spark makes of an archive.

The table is read twice with bounded memory. The first time finds damage, and subjects that stand
twice, before anything is signed. The second time makes the cards.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from nostr_client.assertions.cards import Card, completed
from nostr_client.assertions.fields import USER, author_of
from nostr_client.assertions.ledger import Ledger
from nostr_client.assertions.publisher import Publisher
from nostr_client.assertions.run import CardMethod, Subject, publish_from
from nostr_client.assertions.tally import VANISHED
from nostr_client.codecs import kinds
from nostr_client.codecs.filters import Filter
from nostr_client.errors import InvalidInput
from nostr_client.store.rules import ALL_RELAYS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from typing import Self

    from nostr_client.assertions.cards import CardOptions
    from nostr_client.assertions.count_table import CountRow, CountTable
    from nostr_client.assertions.relays import CardRelays
    from nostr_client.assertions.report import PublishReport
    from nostr_client.codecs.keys import Signer
    from nostr_client.store.sqlite import SqliteStore

_METHOD: Final = "the counts of an archive and no zaps"
_COUNTS: Final = "followers, posts, reactions, reposts and replies over the events of an archive"

_NO_ZAPS: Final = "the tables have no zaps"
"""Why a card lacks the numbers of zaps."""

_CACHE_KIB: Final = 16 * 1024
"""Memory of the set of subjects; what is more goes to a temporary file."""


async def publish_table(
    store: SqliteStore,
    signer: Signer,
    table: CountTable,
    options: CardOptions,
    relays: CardRelays,
    *,
    prune: bool = False,
    name: str = "nostr-tally",
    now: Callable[[], float],
    dry_run: bool = False,
    adopt: bool = False,
) -> PublishReport:
    """Publish the cards of all rows of a table. `now` gives Unix seconds. A dry run signs and sends
    nothing.

    The store has the ledger, and the requests to vanish. `prune`: retract the cards of subjects
    that the table lacks. `name`: in the key's profile. `adopt`: take over a key that
    another store used. Raises InvalidInput if nothing may be
    published: of an empty or damaged table, or with the key of a person. Raises MissingExtra,
    StoreError, OSError. Safe to cancel: what was signed is in the ledger, and the next run sends
    it.
    """
    at = int(now())
    with closing(_SubjectSet()) as subjects:
        source = await _TableCards(store, table, subjects, at, prune).checked(signer.pubkey)
        publisher = Publisher(Ledger(store.database, signer.pubkey), signer, options, now)
        method = CardMethod(_METHOD, _COUNTS, name)
        return await publish_from(
            store, source, method, publisher, relays, dry_run=dry_run, adopt=adopt
        )


class _TableCards:
    """Cards of the rows of a table."""

    def __init__(
        self,
        store: SqliteStore,
        table: CountTable,
        subjects: _SubjectSet,
        at: int,
        prune: bool,
    ) -> None:
        self._store = store
        self._table = table
        self._subjects = subjects
        self._at = at
        self._prune = prune

    async def checked(self, signer: str) -> Self:
        """Read the table once, and note its subjects. Raises InvalidInput."""
        for rows in self._table.batches(self._at):
            self._subjects.add((one.kind, one.subject) for one in rows if one.has_subject)
            if any(one.subject == signer and _wrote(one) for one in rows):
                raise InvalidInput(
                    "the archive has notes or comments by this key: cards need a key of their own"
                )
            await asyncio.sleep(0)
        if not self._subjects:
            raise InvalidInput("nothing is published: the table has no rows with a subject")
        return self

    async def cards(self) -> AsyncIterator[Iterable[Card]]:
        """Yield the cards of the table."""
        for rows in self._table.batches(self._at):
            subjects = [(one.kind, one.subject) for one in rows if one.has_subject]
            vanished = await _vanished(self._store, subjects)
            yield [self._card(one, vanished) for one in rows]

    def _card(self, row: CountRow, vanished: frozenset[str]) -> Card:
        kind, subject = row.kind, row.subject
        why = row.why_not
        if not why and not self._subjects.is_once((kind, subject)):
            why = "a subject with two rows"
        if not why and author_of(kind, subject) in vanished:
            why = VANISHED
        if why:
            return Card(kind, subject, {}, {}, why_not=why)
        card = Card(kind, subject, {**row.values}, {}, identifier_kinds=row.identifier_kinds)
        return completed(card._replace(counted_at=row.as_of), {}, _NO_ZAPS)

    async def gone(self, subjects: Sequence[Subject]) -> list[Subject]:
        """Return those whose key vanished and, to prune, those that the table lacks."""
        vanished = await _vanished(self._store, subjects)
        return [
            one
            for one in subjects
            if author_of(*one) in vanished or (self._prune and one not in self._subjects)
        ]


def _wrote(row: CountRow) -> bool:
    """Whether the archive has notes or comments of a person."""
    written = row.values.get("post_cnt", 0) + row.values.get("reply_cnt", 0)
    return row.kind == USER and written > 0


async def _vanished(store: SqliteStore, subjects: Sequence[Subject]) -> frozenset[str]:
    """Return the authors of these subjects who asked all relays to forget them (NIP-62), and of
    whom the store has no later event."""
    authors = {author for one in subjects if (author := author_of(*one)) is not None}
    if not authors:
        return frozenset()
    latest: dict[str, int] = {}
    for event in await store.query([Filter(kinds=[kinds.VANISH], authors=sorted(authors))]):
        if ALL_RELAYS in event.tag_values("relay"):
            latest[event.pubkey] = max(latest.get(event.pubkey, 0), event.created_at)
    return frozenset([key for key, at in latest.items() if not await _came_back(store, key, at)])


async def _came_back(store: SqliteStore, key: str, at: int) -> bool:
    requests = Filter(kinds=[kinds.VANISH], authors=[key], since=at + 1)
    later = await store.count([Filter(authors=[key], since=at + 1)])
    return later > await store.count([requests])


class _SubjectSet:
    """Which subjects were added, and which of them once: a set that fits no memory."""

    def __init__(self) -> None:
        # An empty name: a private file, which SQLite removes, once the cache is full.
        self._conn = sqlite3.connect("", isolation_level=None)
        self._conn.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._conn.execute("CREATE TABLE seen (key BLOB PRIMARY KEY, n INTEGER) WITHOUT ROWID")

    def close(self) -> None:
        """Remove the set."""
        self._conn.close()

    def add(self, subjects: Iterable[Subject]) -> None:
        """Add subjects, each once more."""
        sql = "INSERT INTO seen VALUES (?, 1) ON CONFLICT DO UPDATE SET n = n + 1"
        self._conn.execute("BEGIN")
        self._conn.executemany(sql, ((_digest(one),) for one in subjects))
        self._conn.execute("COMMIT")

    def __contains__(self, subject: Subject) -> bool:
        return self._times(subject) > 0

    def __bool__(self) -> bool:
        return self._conn.execute("SELECT 1 FROM seen LIMIT 1").fetchone() is not None

    def is_once(self, subject: Subject) -> bool:
        """Whether a subject was added once."""
        return self._times(subject) == 1

    def _times(self, subject: Subject) -> int:
        sql = "SELECT n FROM seen WHERE key = ?"
        row = self._conn.execute(sql, (_digest(subject),)).fetchone()
        return 0 if row is None else int(row[0])


def _digest(subject: Subject) -> bytes:
    kind, name = subject
    return blake2b(f"{kind}:{name}".encode(), digest_size=16).digest()
