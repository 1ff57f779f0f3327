"""Search words in contents (NIP-50) with SQLite's FTS5 over trigrams.

Trigrams also find parts of words and CJK text. Every word of a search must occur, in any order and
case. The search ignores the `key:value` extensions of NIP-50, as NIP-50 requires if they are not
supported. Any other word with a colon is text, such as `std::vector` or `mailto:`. Results are in
the usual order, newest first.

Words of one or two characters have no trigram. They are searched in the contents of all events that
match the other words and conditions. Without a longer word or another condition, these are all
events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs.kinds import GIFT_WRAP, SEAL
from nostr_client.store.file.migrate import Schema

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from nostr_client.codecs.event import Event

ENCRYPTED = frozenset({4, SEAL, GIFT_WRAP})
"""Kinds whose contents are encrypted and not indexed."""

_KINDS = ",".join(map(str, sorted(ENCRYPTED)))
_INSERT = "INSERT INTO search (rowid, content) VALUES (?, ?)"
_CONTENTS = f"SELECT seq, content FROM event WHERE kind NOT IN ({_KINDS})"
_REMOVE = "INSERT INTO search (search, rowid, content) VALUES ('delete', ?, ?)"
_TRIGRAM = 3

EXTENSIONS = frozenset({"include", "domain", "language", "sentiment", "nsfw"})
"""The keys that NIP-50 defines for extensions."""


def _create(conn: sqlite3.Connection) -> None:
    conn.execute("CREATE VIRTUAL TABLE search USING fts5(content, content='', tokenize='trigram')")
    rows = conn.execute(_CONTENTS)
    conn.executemany(_INSERT, ((seq, _text(content.decode())) for seq, content in rows))


SEARCH: Final = Schema("nostr_tally.search", _create)


class SearchConditions(NamedTuple):
    """A search as conditions on `k.seq`, with their parameters."""

    conditions: tuple[str, ...]
    params: tuple[str, ...]


def wanted(text: str) -> SearchConditions:
    """Return the conditions of a filter's `search`.

    There are no conditions if the text has no word.
    """
    words = [word for word in text.split() if not _is_extension(word)]
    long = " ".join(f'"{_quoted(word)}"' for word in words if len(word) >= _TRIGRAM)
    short = [word.casefold() for word in words if len(word) < _TRIGRAM]
    conditions = [_MATCH] * bool(long) + [_HOLDS] * len(short)
    return SearchConditions(tuple(conditions), tuple([long] * bool(long) + short))


_MATCH = "k.seq IN (SELECT rowid FROM search WHERE search MATCH ?)"
_HOLDS = f"""EXISTS (SELECT 1 FROM event s WHERE s.seq = k.seq AND s.kind NOT IN ({_KINDS})
 AND holds_word(s.content, ?))"""


def add_functions(conn: sqlite3.Connection) -> None:
    """Add the SQL function that the conditions call.

    SQLite's LIKE is not enough: it stops at a NUL and folds the case of ASCII only.
    """
    conn.create_function("holds_word", 2, _holds_word, deterministic=True)


def _holds_word(content: bytes, folded: str) -> bool:
    return folded in content.decode().casefold()


def _is_extension(word: str) -> bool:
    key, colon, value = word.partition(":")
    return bool(colon and value) and key in EXTENSIONS


def _quoted(word: str) -> str:
    return _text(word).replace('"', '""')


def _text(content: str) -> str:
    """Return the text for FTS5, which stops at a NUL."""
    return content.replace("\x00", " ")


def add(conn: sqlite3.Connection, events: Iterable[tuple[int, Event]]) -> None:
    """Index the contents of events by seq."""
    rows = [(seq, _text(event.content)) for seq, event in events if event.kind not in ENCRYPTED]
    conn.executemany(_INSERT, rows)


def remove(conn: sqlite3.Connection, contents: Iterable[tuple[int, int, bytes]]) -> None:
    """Remove contents from the index, given as (seq, kind, content).

    FTS5 needs the content that was indexed.
    """
    rows = [(seq, _text(raw.decode())) for seq, kind, raw in contents if kind not in ENCRYPTED]
    conn.executemany(_REMOVE, rows)


def count(conn: sqlite3.Connection) -> tuple[int, int]:
    """Return how many contents are indexed, and how many should be."""
    (indexed,) = conn.execute("SELECT count(*) FROM search_docsize").fetchone()
    sql = f"SELECT count(*) FROM event WHERE kind NOT IN ({_KINDS})"
    (expected,) = conn.execute(sql).fetchone()
    return indexed, expected


def check_words(conn: sqlite3.Connection) -> None:
    """Check the text index for damage.

    Raises sqlite3.DatabaseError for a damaged index. SQLite writes nothing, but the connection must
    allow writes.
    """
    conn.execute("INSERT INTO search (search) VALUES ('integrity-check')")
