"""Words in contents (NIP-50), by SQLite's FTS5 over trigrams: parts of words and CJK work.

Every word must occur, in any place and case. The `key:value` extensions that NIP-50 defines are
ignored, as it asks of those who do not support them; any other word with a colon is text, as
in `std::vector` or `mailto:`. Results come newest first, like those of any other filter.
Words of one or two characters are no trigram: they are looked for in the events that the rest of
the filter leaves, which without any longer word is all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs.kinds import GIFT_WRAP, SEAL
from nostr_client.store.migrate import Schema

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from nostr_client.codecs.event import Event

ENCRYPTED = frozenset({4, SEAL, GIFT_WRAP})
"""Kinds whose contents nobody can search."""

_KINDS = ",".join(map(str, sorted(ENCRYPTED)))
_INSERT = "INSERT INTO search (rowid, content) VALUES (?, ?)"
_CONTENTS = f"SELECT seq, content FROM event WHERE kind NOT IN ({_KINDS})"
_REMOVE = "INSERT INTO search (search, rowid, content) VALUES ('delete', ?, ?)"
_TRIGRAM = 3

EXTENSIONS = frozenset({"include", "domain", "language", "sentiment", "nsfw"})
"""The words that NIP-50 defines before a colon."""


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
    """What a filter's `search` asks for; no conditions at all when it names no word."""
    words = [word for word in text.split() if not _is_extension(word)]
    long = " ".join(f'"{_quoted(word)}"' for word in words if len(word) >= _TRIGRAM)
    short = [word.casefold() for word in words if len(word) < _TRIGRAM]
    conditions = [_MATCH] * bool(long) + [_HOLDS] * len(short)
    return SearchConditions(tuple(conditions), tuple([long] * bool(long) + short))


_MATCH = "k.seq IN (SELECT rowid FROM search WHERE search MATCH ?)"
_HOLDS = f"""EXISTS (SELECT 1 FROM event s WHERE s.seq = k.seq AND s.kind NOT IN ({_KINDS})
 AND holds_word(s.content, ?))"""


def add_functions(conn: sqlite3.Connection) -> None:
    """What conditions call: SQLite's LIKE stops at a NUL, and folds the case of ASCII alone."""
    conn.create_function("holds_word", 2, _holds_word, deterministic=True)


def _holds_word(content: bytes, folded: str) -> bool:
    return folded in content.decode().casefold()


def _is_extension(word: str) -> bool:
    key, colon, value = word.partition(":")
    return bool(colon and value) and key in EXTENSIONS


def _quoted(word: str) -> str:
    return _text(word).replace('"', '""')


def _text(content: str) -> str:
    """What FTS5 is given: it stops at a NUL."""
    return content.replace("\x00", " ")


def add(conn: sqlite3.Connection, events: Iterable[tuple[int, Event]]) -> None:
    """Index the contents of events by seq."""
    rows = [(seq, _text(event.content)) for seq, event in events if event.kind not in ENCRYPTED]
    conn.executemany(_INSERT, rows)


def remove(conn: sqlite3.Connection, contents: Iterable[tuple[int, int, bytes]]) -> None:
    """Take contents out, given as (seq, kind, content): FTS5 needs what it held."""
    rows = [(seq, _text(raw.decode())) for seq, kind, raw in contents if kind not in ENCRYPTED]
    conn.executemany(_REMOVE, rows)


def count(conn: sqlite3.Connection) -> tuple[int, int]:
    """Contents that are indexed, and that should be."""
    (indexed,) = conn.execute("SELECT count(*) FROM search_docsize").fetchone()
    sql = f"SELECT count(*) FROM event WHERE kind NOT IN ({_KINDS})"
    (expected,) = conn.execute(sql).fetchone()
    return indexed, expected


def check_words(conn: sqlite3.Connection) -> None:
    """Check the text index within itself. Raises sqlite3.DatabaseError where it is damaged.

    SQLite writes nothing, but the connection has to be one that may.
    """
    conn.execute("INSERT INTO search (search) VALUES ('integrity-check')")
