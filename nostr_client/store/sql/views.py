"""Define the views that `store sql` queries and that exports write as tables.

Ids and keys are lower-case hex. Times are ISO 8601 in UTC, beside Unix seconds. A time after the
year 9999 has only seconds. No view has expired events (NIP-40). Private events are visible only if
their kinds are named.

In the SQL, `{s}` is the schema of the attached store. `{events}` and `{tags}` are the visible
events and their tags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs.private_kinds import JOBS, LISTS, PRIVATE_KINDS, REPOST_KINDS

if TYPE_CHECKING:
    from collections.abc import Collection

ISO: Final = "strftime('%Y-%m-%dT%H:%M:%SZ', {0}, 'unixepoch')"
_HEX_KEY: Final = "length(t.value) = 64 AND t.value NOT GLOB '*[^0-9a-f]*'"


class ViewColumn(NamedTuple):
    """Column of a view: its name, SQLite's type of its values, and its meaning."""

    name: str
    type: str
    about: str


class View(NamedTuple):
    """One view: the meaning of a row, the columns, and the SQL of the rows.

    - `key`: columns that identify a row.
    - `indexes`: columns that an export indexes.
    - `needs`: tables of the store that the view reads. If one is missing, the view is empty,
      because that part of the program was never used.
    """

    name: str
    about: str
    columns: tuple[ViewColumn, ...]
    sql: str
    key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...] = ()
    needs: tuple[str, ...] = ("event", "author")

    def select(self, schema: str, events: str, tags: str) -> str:
        """Return the SELECT of the view's rows, over the schema and the two named views."""
        body = self.sql.format(s=schema, events=events, tags=tags)
        names = ", ".join(column.name for column in self.columns)
        return f"SELECT {names} FROM ({body})"

    def empty(self) -> str:
        """Return a SELECT of the view's columns without rows."""
        nothing = ", ".join(f"NULL AS {column.name}" for column in self.columns)
        return f"SELECT {nothing} WHERE 0"


def _iso(expression: str) -> str:
    return ISO.format(expression)


_ID: Final = ViewColumn("event_id", "TEXT", "id of the event, 64 hex characters")
_AT: Final = ViewColumn("created_at", "TEXT", "time of the event, ISO 8601 in UTC")
_TS: Final = ViewColumn("created_ts", "INTEGER", "the same time in Unix seconds")

EVENTS: Final = View(
    "events",
    "An event (NIP-01).",
    (
        ViewColumn("id", "TEXT", "id of the event, 64 hex characters"),
        ViewColumn("pubkey", "TEXT", "author of the event, 64 hex characters"),
        ViewColumn("kind", "INTEGER", "kind of the event"),
        _AT,
        _TS,
        ViewColumn("content", "TEXT", "content of the event"),
        ViewColumn("tags", "TEXT", "tags of the event, as JSON"),
        ViewColumn("sig", "TEXT", "signature of the event, 128 hex characters"),
        ViewColumn("expires_at", "TEXT", "expiration of the event (NIP-40), ISO 8601 in UTC"),
    ),
    f"""SELECT lower(hex(e.id)) AS id, lower(hex(e.pubkey)) AS pubkey, e.kind AS kind,
 {_iso("e.created_at")} AS created_at, e.created_at AS created_ts,
 CAST(e.content AS TEXT) AS content, CAST(e.tags AS TEXT) AS tags, lower(hex(e.sig)) AS sig,
 {_iso("e.exp")} AS expires_at FROM {{events}} e""",
    key=("id",),
    indexes=(("pubkey", "kind"), ("kind", "created_ts"), ("created_ts",)),
)

JOINED_EVENTS: Final = EVENTS._replace(
    sql=EVENTS.sql.replace("lower(hex(e.id)) AS id", "i.id AS id")
    + " JOIN temp.{s}_ids i ON i.seq = e.seq"
)
"""`events` for joins by id.

SQLite cannot index an expression of a view, so a table has the ids.
"""

IDS: Final = (
    "CREATE TEMP TABLE {s}_ids (id TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO {s}_ids SELECT lower(hex(id)), seq FROM {s}.event ORDER BY id",
)
"""Statements that create and fill the table of ids. They take a second for a million events."""

TAGS: Final = View(
    "tags",
    "A tag of an event.",
    (
        _ID,
        ViewColumn("position", "INTEGER", "position of the tag in the event, from 0"),
        ViewColumn("name", "TEXT", "first element of the tag, such as p"),
        ViewColumn("value", "TEXT", "second element of the tag, or NULL"),
        ViewColumn("tag", "TEXT", "all elements of the tag, as JSON; U+FFFD replaces a NUL"),
        ViewColumn("kind", "INTEGER", "kind of the event"),
        ViewColumn("pubkey", "TEXT", "author of the event, 64 hex characters"),
        ViewColumn("created_ts", "INTEGER", "time of the event in Unix seconds"),
    ),
    """SELECT lower(hex(t.id)) AS event_id, t.position AS position, t.name AS name,
 t.value AS value, t.tag AS tag, t.kind AS kind, lower(hex(t.pubkey)) AS pubkey,
 t.created_at AS created_ts FROM {tags} t""",
    key=("event_id", "position"),
    indexes=(("name", "value"),),
)

AUTHORS: Final = View(
    "authors",
    "An author of events in the store.",
    (
        ViewColumn("pubkey", "TEXT", "key of the author, 64 hex characters"),
        ViewColumn("npub", "TEXT", "the same key in the form of NIP-19"),
        ViewColumn("events", "INTEGER", "number of the author's events in the store"),
        ViewColumn("first_at", "TEXT", "time of the oldest event, ISO 8601 in UTC"),
        ViewColumn("last_at", "TEXT", "time of the newest event, ISO 8601 in UTC"),
        ViewColumn("name", "TEXT", "`name` in the author's profile (kind 0)"),
        ViewColumn("display_name", "TEXT", "`display_name` in the profile"),
        ViewColumn("nip05", "TEXT", "`nip05` in the profile, which nobody has checked"),
    ),
    f"""SELECT g.hex AS pubkey, npub(g.pubkey) AS npub, g.events AS events,
 {_iso("g.first")} AS first_at, {_iso("g.last")} AS last_at,
 profile(p.content, 'name') AS name, profile(p.content, 'display_name') AS display_name,
 profile(p.content, 'nip05') AS nip05
 FROM (SELECT pubkey, lower(hex(pubkey)) AS hex, count(*) AS events, min(created_at) AS first,
 max(created_at) AS last FROM {{events}} GROUP BY pubkey) g
 LEFT JOIN (SELECT pubkey, content FROM {{events}} WHERE kind = 0) p ON p.pubkey = g.pubkey""",
    key=("pubkey",),
)

FOLLOWERS: Final = View(
    "followers",
    "A key in a follow list (kind 3).",
    (
        ViewColumn("followed", "TEXT", "followed key, 64 hex characters"),
        ViewColumn("follower", "TEXT", "author of the follow list, 64 hex characters"),
        ViewColumn("event_id", "TEXT", "id of the follow list, 64 hex characters"),
        _AT,
        _TS,
    ),
    f"""SELECT f.value AS followed, lower(hex(f.pubkey)) AS follower,
 lower(hex(f.id)) AS event_id, {_iso("f.created_at")} AS created_at, f.created_at AS created_ts
 FROM (SELECT t.value, t.pubkey, t.id, t.created_at FROM {{tags}} t
 WHERE t.kind = 3 AND t.name = 'p' AND {_HEX_KEY} GROUP BY t.value, t.pubkey) f""",
    key=("followed", "follower"),
    indexes=(("follower",),),
)

_TARGET: Final = ViewColumn("target", "TEXT", "target of the event: an event id or an address")
_BY: Final = ViewColumn("pubkey", "TEXT", "author of the event, 64 hex characters")

REACTIONS: Final = View(
    "reactions",
    "A reaction (kind 7) to an event or an address. The last `e` tag names the event (NIP-25).",
    (
        _TARGET,
        _BY,
        ViewColumn("reaction", "TEXT", "`+` for a like, `-` for a dislike, or another content"),
        _ID,
        _AT,
        _TS,
    ),
    f"""SELECT r.target AS target, lower(hex(r.pubkey)) AS pubkey,
 reaction_label(r.content) AS reaction, lower(hex(r.id)) AS event_id,
 {_iso("r.created_at")} AS created_at, r.created_at AS created_ts FROM (
 SELECT target, pubkey, content, id, created_at FROM (
 SELECT reacted_to(e.tags) AS target, e.pubkey, e.content, e.id, e.created_at
 FROM {{events}} e WHERE e.kind = 7
 UNION ALL SELECT t.value, t.pubkey, t.content, t.id, t.created_at
 FROM {{tags}} t WHERE t.kind = 7 AND t.name = 'a')
 WHERE target IS NOT NULL GROUP BY id, pubkey, target) r""",
    key=("event_id", "target"),
    indexes=(("target",),),
)

REPOSTS: Final = View(
    "reposts",
    "A repost (NIP-18) of an event (kinds 6 and 16) or of an address (kind 16).",
    (_TARGET, _BY, _ID, _AT, _TS),
    f"""SELECT r.value AS target, lower(hex(r.pubkey)) AS pubkey,
 lower(hex(r.id)) AS event_id, {_iso("r.created_at")} AS created_at, r.created_at AS created_ts
 FROM (SELECT t.value, t.pubkey, t.id, t.created_at FROM {{tags}} t WHERE t.value IS NOT NULL
 AND ((t.kind IN (6, 16) AND t.name = 'e') OR (t.kind = 16 AND t.name = 'a'))
 GROUP BY t.id, t.pubkey, t.value) r""",
    key=("event_id", "target"),
    indexes=(("target",),),
)

REPLIES: Final = View(
    "replies",
    "A reply (kind 1) to an event or an address, or deeper in the thread (NIP-10).",
    (
        _TARGET,
        _BY,
        ViewColumn(
            "place", "TEXT", "`direct` for a reply to the target, `thread` for a deeper reply"
        ),
        _ID,
        _AT,
        _TS,
    ),
    f"""SELECT r.target AS target, lower(hex(r.pubkey)) AS pubkey, r.place AS place,
 lower(hex(r.id)) AS event_id, {_iso("r.created_at")} AS created_at, r.created_at AS created_ts
 FROM (SELECT t.value AS target, reply_place(t.raw, t.value) AS place, t.pubkey, t.id, t.created_at
 FROM {{tags}} t WHERE t.kind = 1 AND t.name IN ('e', 'a') AND t.value IS NOT NULL
 GROUP BY t.id, t.pubkey, t.value) r WHERE r.place IS NOT NULL""",
    key=("event_id", "target"),
    indexes=(("target",),),
)

ZAPS: Final = View(
    "zaps",
    "A valid zap receipt (NIP-57). The receipt claims a payment and does not prove it.",
    (
        ViewColumn("target", "TEXT", "event id or address; NULL for a zap of a person"),
        ViewColumn("sender", "TEXT", "key of the sender, 64 hex characters"),
        ViewColumn("receiver", "TEXT", "key of the recipient, 64 hex characters"),
        ViewColumn("msats", "INTEGER", "claimed amount in millisats"),
        ViewColumn("wallet", "TEXT", "key of the receipt's signer, 64 hex characters"),
        _ID,
        _AT,
        _TS,
    ),
    f"""SELECT json_extract(z.zap, '$[3]') AS target, json_extract(z.zap, '$[1]') AS sender,
 json_extract(z.zap, '$[2]') AS receiver, json_extract(z.zap, '$[0]') AS msats,
 lower(hex(z.pubkey)) AS wallet, lower(hex(z.id)) AS event_id,
 {_iso("z.created_at")} AS created_at, z.created_at AS created_ts
 FROM (SELECT zap(e.tags) AS zap, e.pubkey, e.id, e.created_at
 FROM {{events}} e WHERE e.kind = 9735) z WHERE z.zap IS NOT NULL""",
    key=("event_id",),
    indexes=(("target",), ("receiver",)),
)

CLAIMS: Final = View(
    "claims",
    "The newest answer of one relay to one question, and a failure after the answer.",
    (
        ViewColumn("question", "TEXT", "name of the question: followers, reactions, …, or filter"),
        ViewColumn("target", "TEXT", "target of the question: hex or an address; NULL for filters"),
        ViewColumn("filters", "TEXT", "filters of the question, as JSON"),
        ViewColumn("relay", "TEXT", "URL of the relay"),
        ViewColumn("answered", "INTEGER", "1 for an answer, 0 for a failure"),
        ViewColumn("status", "TEXT", "status: ok, refused, timeout, …"),
        ViewColumn("method", "TEXT", "method of the count: count, hll, events, …"),
        ViewColumn("count", "INTEGER", "number from the relay; NULL if unknown"),
        ViewColumn("approximate", "INTEGER", "1 if the relay calls the number approximate"),
        ViewColumn("limited", "INTEGER", "1 if the number is a lower bound"),
        ViewColumn("events_read", "INTEGER", "number of events read"),
        ViewColumn("asked_at", "TEXT", "time of the question, ISO 8601 in UTC"),
        ViewColumn("answered_at", "TEXT", "time of the answer, ISO 8601 in UTC"),
    ),
    f"""SELECT q.name AS question, q.target AS target, q.filters AS filters, r.url AS relay,
 c.answered AS answered, c.status AS status, c.method AS method, c.count AS count,
 c.approximate AS approximate, c.limited AS limited, c.events_read AS events_read,
 {_iso("c.asked_at")} AS asked_at, {_iso("c.answered_at")} AS answered_at
 FROM {{s}}.claim c JOIN {{s}}.claim_query q ON q.q = c.q JOIN {{s}}.claim_relay r ON r.r = c.r""",
    key=("filters", "relay", "answered"),
    needs=("claim", "claim_query", "claim_relay"),
)

WATCH_HISTORY: Final = View(
    "watch_history",
    "A number of a watch at one time, or several older numbers of an hour or a day.",
    (
        ViewColumn("watch", "TEXT", "name of the watch"),
        ViewColumn("at", "TEXT", "time of the number, ISO 8601 in UTC"),
        ViewColumn("at_ts", "INTEGER", "the same time in Unix seconds"),
        ViewColumn("step", "INTEGER", "seconds that the row stands for; 1 for one number"),
        ViewColumn("value", "INTEGER", "the number, or the last of several"),
        ViewColumn("low", "INTEGER", "lower end of the interval"),
        ViewColumn("high", "INTEGER", "upper end of the interval; NULL if there is none"),
        ViewColumn("exact", "INTEGER", "1 if the number is exact"),
        ViewColumn("unit", "TEXT", "distinct_authors or events"),
        ViewColumn("least", "INTEGER", "smallest of the numbers"),
        ViewColumn("most", "INTEGER", "largest of the numbers"),
        ViewColumn("samples", "INTEGER", "how many numbers the row stands for"),
    ),
    f"""SELECT w.name AS watch, {_iso("p.at")} AS at, p.at AS at_ts, p.step AS step,
 p.value AS value, p.low AS low, p.high AS high, p.exact AS exact, p.unit AS unit,
 p.least AS least, p.most AS most, p.samples AS samples
 FROM {{s}}.watch_point p JOIN {{s}}.watch w ON w.w = p.w WHERE instr(w.name, '/') = 0""",
    key=("watch", "step", "at_ts"),
    indexes=(("watch", "at_ts"),),
    needs=("watch", "watch_point"),
)

WATCH_WITHIN: Final = View(
    "watch_within",
    "How many of the authors in a number of `watch_history` are within the watch's web of trust.",
    (
        ViewColumn("watch", "TEXT", "name of the watch"),
        ViewColumn("at", "TEXT", "the time of the number in `watch_history`, ISO 8601 in UTC"),
        ViewColumn("at_ts", "INTEGER", "the same time in Unix seconds"),
        ViewColumn("step", "INTEGER", "seconds that the row stands for; 1 for one number"),
        ViewColumn("key", "TEXT", "key in the centre of the web, 64 hex characters"),
        ViewColumn("depth", "INTEGER", "depth of the web: 1 or 2"),
        ViewColumn("people", "INTEGER", "number of people in the web"),
        ViewColumn("value", "INTEGER", "number of authors within the web"),
        ViewColumn("low", "INTEGER", "lower end of the interval of `value`"),
        ViewColumn("high", "INTEGER", "upper end of the interval; NULL if there is none"),
        ViewColumn("exact", "INTEGER", "1 if `value` is exact"),
        ViewColumn("counted_at", "TEXT", "time of this count, ISO 8601 in UTC"),
        ViewColumn("counted_ts", "INTEGER", "the same time in Unix seconds"),
    ),
    f"""SELECT w.name AS watch, {_iso("p.at")} AS at, p.at AS at_ts, p.step AS step,
 n.key AS key, n.depth AS depth, n.people AS people, n.authors AS value, n.authors_low AS low,
 n.authors_high AS high, n.authors_exact AS exact,
 {_iso("n.counted_at")} AS counted_at, n.counted_at AS counted_ts
 FROM {{s}}.watch_point_within n JOIN {{s}}.watch_point p USING (w, step, slot)
 JOIN {{s}}.watch w ON w.w = p.w WHERE instr(w.name, '/') = 0""",
    key=("watch", "step", "at_ts"),
    indexes=(("watch", "at_ts"),),
    needs=("watch", "watch_point", "watch_point_within"),
)

COUNTERS: Final = View(
    "counters",
    "The value of a counter (ADR-49).",
    (
        ViewColumn("stream", "TEXT", "name of the stream"),
        ViewColumn("subject", "TEXT", "subject of the counter"),
        ViewColumn("value", "TEXT", "value in digits, of any length; CAST it to add values"),
        ViewColumn("seq", "INTEGER", "sequence of the newest message"),
        ViewColumn("updated_at", "TEXT", "time of this message, ISO 8601 in UTC"),
    ),
    f"""SELECT s.name AS stream, l.subject AS subject, l.val AS value, l.seq AS seq,
 {_iso("m.ts / 1000000000")} AS updated_at FROM {{s}}.counter_latest l
 JOIN {{s}}.counter_stream s ON s.id = l.stream
 LEFT JOIN {{s}}.counter_message m ON m.stream = l.stream AND m.seq = l.seq
 WHERE l.val IS NOT NULL""",
    key=("stream", "subject"),
    needs=("counter_latest", "counter_stream", "counter_message"),
)

VIEWS: Final = (
    EVENTS, TAGS, AUTHORS, FOLLOWERS, REACTIONS, REPOSTS, REPLIES, ZAPS, CLAIMS, WATCH_HISTORY,
    WATCH_WITHIN, COUNTERS,
)  # fmt: skip


def visible_events(schema: str, now: int, named: Collection[int] | None) -> str:
    """Return the SELECT of the events that views show at `now`, as rows of the store.

    `named` are the private kinds that are visible. None means all.
    """
    shown = "" if named is None else f" AND NOT {private_condition(named)}"
    return f"{all_events(schema)} WHERE (e.exp IS NULL OR e.exp > {now:d}){shown}"


def all_events(schema: str) -> str:
    """Return the SELECT of all events with the columns that views read.

    The caller adds WHERE.
    """
    return (
        "SELECT e.seq, e.id, u.pubkey, e.created_at, e.kind, e.tags, e.content, e.sig, e.exp"
        f" FROM {schema}.event e JOIN {schema}.author u ON u.a = e.a"
    )


def private_condition(named: Collection[int]) -> str:
    """Return the condition that an event `e` is private and its kind is not named."""
    return f"({_may_be_private(named)} AND is_private(e.kind, e.tags, e.content))"


_TAGS_TEXT: Final = (
    "CASE WHEN instr(e.tags, CAST('\\u0000' AS BLOB)) THEN tags_json(e.tags)"
    " ELSE CAST(e.tags AS TEXT) END"
)
"""Tags as JSON that SQLite can read. Only tags with an escaped NUL need the Python function."""


def visible_tags(events: str) -> str:
    """Return the SELECT of the tags of visible events.

    `raw` has all tags of the event.
    """
    return (
        "SELECT e.id, e.pubkey, e.created_at, e.kind, e.content, e.tags AS raw,"
        " j.key AS position, json_extract(j.value, '$[0]') AS name,"
        " json_extract(j.value, '$[1]') AS value, j.value AS tag"
        f" FROM {events} e, json_each({_TAGS_TEXT}) j"
    )


def _may_be_private(named: Collection[int]) -> str:
    """Return a condition for the kinds whose events may be private.

    If a repost kind is named, the private content of reposts stays hidden.
    """
    kinds = {*PRIVATE_KINDS, *LISTS}.difference(named).union(REPOST_KINDS)
    jobs = _numbers([kind for kind in named if kind in JOBS])
    between = f"e.kind BETWEEN {JOBS.start} AND {JOBS.stop - 1} AND e.kind NOT IN ({jobs})"
    return f"(e.kind IN ({_numbers(kinds)}) OR ({between}))"


def _numbers(kinds: Collection[int]) -> str:
    return ", ".join(str(kind) for kind in sorted(kinds))
