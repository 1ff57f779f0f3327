"""The tables for analysts by DuckDB, from events and how the rules judge them: the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from nostr_client.codecs.private_kinds import is_private
from nostr_client.codecs.zaps import read_zap
from nostr_client.store.base import SaveStatus
from nostr_client.store.tombstones import row_of, tombstones

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.event import Event

    Rows = list[tuple[Any, ...]]

ROOT = Path(__file__).parents[3]

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("pubkey", pa.string()),
        ("created", pa.int64()),
        ("kind", pa.int32()),
        ("tags", pa.list_(pa.list_(pa.string()))),
        ("content", pa.string()),
        ("status", pa.string()),
        ("private", pa.bool_()),
    ]
)

DAY = "CASE WHEN created // 86400 <= 2932896 THEN DATE '1970-01-01' + (created // 86400)::INT END"

PREPARE = """
CREATE VIEW public AS SELECT * FROM event WHERE status = 'stored' AND NOT private;
CREATE MACRO named(tags, names) AS list_filter(tags, lambda t: len(t) > 1 AND t[1] IN names);
CREATE MACRO the_values(tags) AS list_transform(tags, lambda t: t[2]);
CREATE MACRO marked(tags, marks) AS list_filter(tags, lambda t: len(t) > 3 AND t[4] IN marks);
CREATE MACRO plain(tags) AS
    list_filter(tags, lambda t: len(t) < 4 OR t[4] NOT IN ('root', 'reply', 'mention'));
CREATE MACRO the_last(tags) AS CASE WHEN len(tags) > 0 THEN tags[-1:] ELSE [] END;
CREATE MACRO parents(tags) AS CASE
    WHEN len(marked(tags, ['reply'])) > 0 THEN marked(tags, ['reply'])
    WHEN len(marked(tags, ['root'])) > 0 THEN marked(tags, ['root'])
    WHEN len(named(plain(tags), ['e'])) > 0 THEN the_last(named(plain(tags), ['e']))
    ELSE the_last(plain(tags)) END;
CREATE MACRO thread(tags) AS CASE
    WHEN len(marked(tags, ['root', 'reply'])) > 0
    THEN list_concat(marked(tags, ['root', 'reply']), named(plain(tags), ['a']))
    ELSE list_concat(named(plain(tags), ['a']), list_concat(
        named(plain(tags), ['e'])[1:1], the_last(named(plain(tags), ['e'])))) END;
CREATE MACRO addresses(the_list) AS list_filter(the_list, lambda v: contains(v, ':'));
CREATE VIEW note AS SELECT *, named(tags, ['e']) AS es, named(tags, ['e', 'a']) AS eas
    FROM public WHERE kind = 1;
CREATE MACRO things(tags, es, a_s) AS the_values(list_concat(
    list_filter(named(tags, es), lambda t: NOT contains(t[2], ':')),
    list_filter(named(tags, a_s), lambda t: contains(t[2], ':'))));
CREATE MACRO kind_of(name) AS CASE WHEN contains(name, ':') THEN 30384 ELSE 30383 END;
CREATE VIEW reply AS
    SELECT id, pubkey, created, target, coalesce(given, kind_of(target)) AS target_kind,
        list_contains(direct, target) AS is_direct FROM (
        SELECT id, pubkey, created, given, direct, unnest(list_distinct(everything)) AS target
        FROM (
            SELECT id, pubkey, created, NULL AS given,
                list_concat(the_values(parents(es)), addresses(the_values(parents(eas))))
                    AS direct,
                list_concat(the_values(thread(es)), addresses(the_values(thread(eas))))
                    AS everything
            FROM note
            UNION ALL
            SELECT id, pubkey, created, NULL, things(tags, ['e'], ['a']),
                things(tags, ['e', 'E'], ['a', 'A'])
            FROM public WHERE kind = 1111
            UNION ALL
            SELECT id, pubkey, created, 30385, the_values(named(tags, ['i'])),
                the_values(named(tags, ['i', 'I']))
            FROM public WHERE kind = 1111));
CREATE VIEW reaction AS
    SELECT id, pubkey, created, content, unnest(list_distinct(things(
        list_concat(the_last(named(tags, ['e'])), named(tags, ['a'])), ['e'], ['a']))) AS target
    FROM public WHERE kind = 7;
CREATE VIEW list AS
    SELECT pubkey, created, the_values(named(tags, ['p'])) AS keys,
        row_number() OVER versions AS n, lead(created) OVER versions AS until
    FROM event WHERE kind = 3 AND status IN ('stored', 'superseded')
    WINDOW versions AS (PARTITION BY pubkey ORDER BY created, id DESC);
CREATE VIEW naming AS
    SELECT id, target FROM reaction
    UNION ALL SELECT id, target FROM reply WHERE target_kind <> 30385
    UNION ALL SELECT id, unnest(the_values(named(tags, ['q']))) FROM public WHERE kind IN (1, 1111)
    UNION ALL SELECT id, unnest(things(tags, ['e'], ['a'])) FROM public WHERE kind IN (6, 16);
CREATE VIEW held AS
    SELECT DISTINCT relay, 'events' AS what, id AS thing FROM copy JOIN public USING (id)
    UNION SELECT relay, 'people', pubkey FROM copy JOIN public USING (id)
    UNION SELECT relay, 'targets', target FROM copy JOIN naming USING (id);
"""

COUNTED = "count(*), count(DISTINCT pubkey)"
SEEN = "min(created), max(created)"
HELD = ", ".join(f"count(*) FILTER (what = '{one}')" for one in ("events", "people", "targets"))


def _distinct(names: str, kinds: str) -> str:
    return (
        f"SELECT target, {COUNTED}, {SEEN} FROM (SELECT pubkey, created,"
        f" unnest(list_distinct({names})) AS target"
        f" FROM public WHERE kind IN {kinds}) GROUP BY target"
    )


QUERIES = {
    "daily_actives": f"SELECT {DAY} AS day, {COUNTED} FROM public GROUP BY day",
    "weekly_actives": f"SELECT date_trunc('week', {DAY})::DATE AS week, {COUNTED} FROM public"
    " GROUP BY week",
    "authors": f"""SELECT pubkey, count(*), {SEEN},
        count(*) FILTER (kind = 1 AND len(thread(named(tags, ['e', 'a']))) = 0),
        count(*) FILTER (kind = 1 AND len(thread(named(tags, ['e', 'a']))) > 0 OR kind = 1111),
        min(created) FILTER (kind = 1) FROM public GROUP BY pubkey""",
    "follows": """SELECT pubkey, key, min(created), max(created), last(until ORDER BY n) FROM (
        SELECT pubkey, created, n, until, unnest(list_distinct(keys)) AS key FROM list)
        WHERE regexp_full_match(key, '[0-9a-f]{64}') GROUP BY pubkey, key""",
    "reactions": f"""SELECT target, {COUNTED}, count(*) FILTER (trim(content) = '-'), {SEEN}
        FROM reaction GROUP BY target""",
    "reposts": _distinct("things(tags, ['e'], ['a'])", "(6, 16)"),
    "quotes": _distinct("the_values(named(tags, ['q']))", "(1, 1111)"),
    "replies": f"SELECT target, target_kind, {COUNTED}, count(*) FILTER (is_direct), {SEEN}"
    " FROM reply GROUP BY target, target_kind",
    "hashtags": f"""SELECT tag, {COUNTED}, {SEEN} FROM (SELECT pubkey, created, unnest(
        list_distinct(list_transform(the_values(named(tags, ['t'])), lambda v: lower(v)))) AS tag
        FROM public) GROUP BY tag""",
    "relays": """SELECT relay, count(*) FILTER (what = 'events'),
        count(*) FILTER (what = 'events')
            / (SELECT count(DISTINCT thing) FROM held WHERE what = 'events'),
        count(*) FILTER (what = 'events' AND thing NOT IN (
            SELECT id FROM copy GROUP BY id HAVING count(DISTINCT relay) > 1)),
        count(*) FILTER (what = 'people'), count(*) FILTER (what = 'targets')
        FROM held GROUP BY relay""",
    "relay_overlap": f"""SELECT one.relay, other.relay, {HELD}
        FROM held AS one JOIN held AS other USING (what, thing)
        WHERE one.relay <> other.relay GROUP BY ALL""",
}
"""Each table that SQL alone can make, with its columns in order; actives without the sketches."""


def judged(events: Sequence[Event], urls: Sequence[str], now: int) -> list[tuple[Event, str]]:
    """Each event, and its status by the one statement of the rules."""
    blocked = tombstones(lambda: map(row_of, events), urls, now)
    return [(event, blocked.status(row_of(event)).value) for event in events]


def tables(
    found: Sequence[tuple[Event, str]], copies: Sequence[tuple[str, str]]
) -> dict[str, Rows]:
    """The tables of judged events, by name; `copies` are ids and the relays that had them."""
    rows = [
        (e.id, e.pubkey, e.created_at, e.kind, e.tags, e.content, status, is_private(e))
        for e, status in found
    ]
    columns = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    with duckdb.connect() as conn:
        conn.register("event", pa.table(columns, schema=SCHEMA))
        ids, relays = map(list, zip(*copies, strict=True))
        conn.register("copy", pa.table({"id": ids, "relay": relays}))
        conn.execute(PREPARE)
        made = {name: conn.execute(sql).fetchall() for name, sql in QUERIES.items()}
        made["zaps"] = _zaps(conn, [event for event, status in found if status == _STORED])
    return made


_STORED = SaveStatus.STORED.value


def _zaps(conn: duckdb.DuckDBPyConnection, living: Sequence[Event]) -> Rows:
    """The sums of payments; what a receipt says is read in Python."""
    first: dict[bytes, tuple[Any, ...]] = {}
    for event in sorted(living, key=lambda one: (one.created_at, one.id)):
        zap = read_zap(event)
        if zap is not None:
            row = (zap.receiver, zap.sender, event.created_at, zap.amount)
            first.setdefault(zap.payment, row)
    conn.execute("CREATE TABLE zap (recipient TEXT, sender TEXT, created BIGINT, msats BIGINT)")
    conn.executemany("INSERT INTO zap VALUES (?, ?, ?, ?)", list(first.values()))
    sql = f"SELECT recipient, sender, {DAY} AS day, count(*), sum(msats)::BIGINT FROM zap"
    return conn.execute(f"{sql} GROUP BY ALL").fetchall()
