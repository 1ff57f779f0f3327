"""Define the tables of the embedded counters in the store's file.

A message stores its increment and value as text, because they have any length. It stores only the
entry of the source map that it changed. Bodies and headers are built on read.

`counter_latest` exists because the planner would need a scan to find the last message of a subject.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.store.file.migrate import Schema

if TYPE_CHECKING:
    import sqlite3

_TABLES = (
    # Identity of this store for stores that read it. `generation` changes with every configuration.
    """CREATE TABLE counter_store (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        uuid TEXT NOT NULL,
        generation INTEGER NOT NULL
    )""",
    # `epoch` is new each time that a stream of this name is created.
    """CREATE TABLE counter_stream (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        epoch TEXT NOT NULL,
        config TEXT NOT NULL,
        created INTEGER NOT NULL,
        last_seq INTEGER NOT NULL,
        messages INTEGER NOT NULL,
        subjects INTEGER NOT NULL
    )""",
    # `counted`: this stream computed the value. Otherwise the message was stored unchanged. `body`
    # is set only if it differs from the body of the value. `old`: superseded, in streams with
    # limits.
    """CREATE TABLE counter_message (
        stream INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        subject TEXT NOT NULL,
        ts INTEGER NOT NULL,
        counted INTEGER NOT NULL,
        incr TEXT,
        val TEXT,
        source INTEGER,
        src_subject TEXT,
        src_val TEXT,
        src_seq INTEGER,
        headers TEXT,
        body BLOB,
        old INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (stream, seq)
    ) WITHOUT ROWID""",
    "CREATE INDEX counter_message_subject ON counter_message (stream, subject, seq)",
    "CREATE INDEX counter_message_old ON counter_message (stream, seq) WHERE old = 1",
    """CREATE TABLE counter_latest (
        stream INTEGER NOT NULL,
        subject TEXT NOT NULL,
        seq INTEGER NOT NULL,
        val TEXT,
        PRIMARY KEY (stream, subject)
    ) WITHOUT ROWID""",
    # The source map of a subject's newest message.
    """CREATE TABLE counter_source_map (
        stream INTEGER NOT NULL,
        subject TEXT NOT NULL,
        name TEXT NOT NULL,
        src_subject TEXT NOT NULL,
        val TEXT NOT NULL,
        PRIMARY KEY (stream, subject, name, src_subject)
    ) WITHOUT ROWID""",
    # Map entries of removed messages. They are needed for the map as of an older sequence.
    """CREATE TABLE counter_source_past (
        stream INTEGER NOT NULL,
        subject TEXT NOT NULL,
        name TEXT NOT NULL,
        src_subject TEXT NOT NULL,
        seq INTEGER NOT NULL,
        val TEXT NOT NULL,
        PRIMARY KEY (stream, subject, name, src_subject, seq)
    ) WITHOUT ROWID""",
    # Position in each source. It stays after the source is removed, so that the source can resume.
    """CREATE TABLE counter_source_cursor (
        id INTEGER PRIMARY KEY,
        stream INTEGER NOT NULL,
        name TEXT NOT NULL,
        filters TEXT NOT NULL,
        destinations TEXT NOT NULL,
        epoch TEXT NOT NULL,
        seq INTEGER NOT NULL,
        stalled TEXT NOT NULL DEFAULT '',
        UNIQUE (stream, name, filters, destinations)
    )""",
    """CREATE TABLE counter_msgid (
        stream INTEGER NOT NULL,
        id TEXT NOT NULL,
        seq INTEGER NOT NULL,
        ts INTEGER NOT NULL,
        PRIMARY KEY (stream, id)
    ) WITHOUT ROWID""",
    "CREATE INDEX counter_msgid_ts ON counter_msgid (stream, ts)",
    # Push in flight for a target and subject, with the message id that it uses.
    """CREATE TABLE counter_outbox (
        target TEXT NOT NULL,
        subject TEXT NOT NULL,
        have TEXT NOT NULL,
        want TEXT NOT NULL,
        msg_id TEXT NOT NULL,
        ts INTEGER NOT NULL,
        PRIMARY KEY (target, subject)
    ) WITHOUT ROWID""",
    "INSERT INTO counter_store VALUES (1, lower(hex(randomblob(16))), random())",
)


_REMOTE_TABLES = (
    # Runs of programs that write this store, and the sequence of each stream at which a run began.
    """CREATE TABLE counter_run (
        n INTEGER PRIMARY KEY AUTOINCREMENT,
        run TEXT NOT NULL,
        ts INTEGER NOT NULL
    )""",
    """CREATE TABLE counter_run_start (
        n INTEGER NOT NULL,
        stream INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        PRIMARY KEY (n, stream)
    ) WITHOUT ROWID""",
    # Source in another store: its identity, the position in it, and statistics. `accepted`: key of
    # the head whose lower values were confirmed. `pending`: key of the head that waits for a
    # confirmation.
    """CREATE TABLE counter_remote (
        name TEXT PRIMARY KEY,
        stream INTEGER NOT NULL,
        cursor INTEGER NOT NULL,
        active INTEGER NOT NULL DEFAULT 1,
        store TEXT NOT NULL DEFAULT '',
        epoch TEXT NOT NULL DEFAULT '',
        run TEXT NOT NULL DEFAULT '',
        runs TEXT NOT NULL DEFAULT '[]',
        seq INTEGER NOT NULL DEFAULT 0,
        version_at INTEGER NOT NULL DEFAULT -1,
        version_id TEXT NOT NULL DEFAULT '',
        lineage TEXT NOT NULL DEFAULT '[]',
        pending TEXT NOT NULL DEFAULT '',
        accepted TEXT NOT NULL DEFAULT '',
        subjects INTEGER NOT NULL DEFAULT 0,
        moved INTEGER NOT NULL DEFAULT 0,
        gaps INTEGER NOT NULL DEFAULT 0,
        lost INTEGER NOT NULL DEFAULT 0,
        left_out INTEGER NOT NULL DEFAULT 0,
        last_subject TEXT NOT NULL DEFAULT '',
        last_value TEXT,
        changed INTEGER
    ) WITHOUT ROWID""",
    # Messages that could not be applied. Each is tried again, or replaced by the next message of
    # its subject.
    """CREATE TABLE counter_parked (
        name TEXT NOT NULL,
        subject TEXT NOT NULL,
        seq INTEGER NOT NULL,
        val TEXT,
        why TEXT NOT NULL,
        PRIMARY KEY (name, subject)
    ) WITHOUT ROWID""",
)


_PUSH_TABLES = (
    # Push state of a subject: the acknowledged value, and the increments that may arrive late.
    # `seq`: message on which a push in flight builds. `origin`: stream and store that pushed the
    # subject.
    """CREATE TABLE counter_push (
        target TEXT NOT NULL,
        subject TEXT NOT NULL,
        origin TEXT NOT NULL,
        acked TEXT,
        seq INTEGER,
        late TEXT NOT NULL,
        ts INTEGER NOT NULL,
        PRIMARY KEY (target, subject)
    ) WITHOUT ROWID""",
)


def _create(conn: sqlite3.Connection) -> None:
    """Create the tables, and give the store its identity."""
    for statement in (*_TABLES, *_REMOTE_TABLES, *_PUSH_TABLES):
        conn.execute(statement)


MIGRATIONS: Final = Schema("counters", _create)
