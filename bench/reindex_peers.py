"""The same tables by DuckDB and by polars, from a Parquet of the store's events,
and by DuckDB from JSONL: `NAME FILE OUT`.

Each runs in a process of its own, so that its CPU and memory can be told.
"""

from __future__ import annotations

import sys
from pathlib import Path

from nostr_client.store.index.schema import DAY, HOT, TRACKED

PAIRS = ", ".join(f"('{name}', {kind})" for name, kind in sorted(TRACKED))


def by_duckdb(file: Path, out: Path) -> dict[str, int]:
    """Everything in SQL; two threads."""
    import duckdb

    conn = duckdb.connect()
    conn.execute("SET threads = 2")
    if file.suffix == ".parquet":
        conn.execute(f"CREATE VIEW event AS SELECT * FROM read_parquet('{file}')")
    else:
        conn.execute(
            f"""CREATE TABLE event AS SELECT unhex(id) AS id, unhex(pubkey) AS pubkey, created_at,
            kind, tags FROM read_json('{file}', format = 'newline_delimited', columns = {{
            id: 'VARCHAR', pubkey: 'VARCHAR', created_at: 'BIGINT', kind: 'INTEGER',
            tags: 'JSON'}})"""
        )
    conn.execute(
        f"""CREATE TABLE tag AS SELECT DISTINCT id, pubkey, kind, name, value FROM (
            SELECT id, pubkey, kind, t->>0 AS name, t->>1 AS value
            FROM (SELECT id, pubkey, kind, unnest(from_json(tags, '["json"]')) AS t FROM event))
        WHERE value IS NOT NULL AND (name, kind) IN ({PAIRS})"""
    )
    conn.execute(
        f"""CREATE TABLE hot AS SELECT name, value, kind, count(*) AS events FROM tag
        GROUP BY ALL HAVING count(*) >= {HOT}"""
    )
    conn.execute(
        """CREATE TABLE hot_author AS SELECT name, value, kind, pubkey, count(*) AS n
        FROM tag JOIN hot USING (name, value, kind) GROUP BY ALL"""
    )
    conn.execute(
        """CREATE TABLE registers AS SELECT name, value, kind, cell, max(57 - length(ltrim(
            bin(rest), '0'))) AS rank FROM (
            SELECT name, value, kind, ('0x' || substr(k, 2 * o + 1, 2))::INTEGER AS cell,
                ('0x' || substr(k, 2 * o + 3, 14))::UBIGINT AS rest
            FROM (SELECT *, lower(hex(pubkey)) AS k, ('0x' || substr(value, 33, 1))::INTEGER + 8
                  AS o FROM hot_author)) GROUP BY ALL"""
    )
    conn.execute(
        f"""CREATE TABLE daily_author AS SELECT created_at // {DAY} AS day, kind, pubkey,
        count(*) AS n FROM event GROUP BY ALL"""
    )
    conn.execute(
        """CREATE TABLE daily AS SELECT day, kind, sum(n) AS events, count(*) AS authors
        FROM daily_author GROUP BY ALL"""
    )
    found = {}
    for table in ("hot", "hot_author", "registers", "daily_author", "daily"):
        conn.execute(f"COPY {table} TO '{out / table}.parquet' (COMPRESSION zstd)")
        row = conn.execute(f"SELECT count(*) FROM {table}").fetchone()
        found[table] = 0 if row is None else int(row[0])
    return found


def by_polars(file: Path, out: Path) -> dict[str, int]:
    """Lazy frames, and numpy for the registers."""
    import numpy as np
    import polars as pl

    from nostr_client import hll

    events = pl.scan_parquet(file)
    tracked = pl.DataFrame(sorted(TRACKED), schema=["name", "kind"], orient="row")
    names = tracked.with_columns(pl.col("kind").cast(pl.Int32)).lazy()
    tags = (
        events.select("id", "pubkey", "kind", "tags")
        .with_columns(pl.col("tags").str.json_decode(pl.List(pl.List(pl.String))))
        .explode("tags")
        .with_columns(name=pl.col("tags").list.get(0, null_on_oob=True))
        .join(names, on=["name", "kind"], how="semi")
        .with_columns(value=pl.col("tags").list.get(1, null_on_oob=True))
        .drop("tags")
        .drop_nulls("value")
        .unique(["id", "name", "value"])
    ).collect()
    key = ["name", "value", "kind"]
    hot = tags.group_by(key).agg(events=pl.len()).filter(pl.col("events") >= HOT)
    hot_author = tags.join(hot, on=key, how="semi").group_by([*key, "pubkey"]).agg(n=pl.len())
    made = []
    for (name, value, kind), rows in hot_author.partition_by(key, as_dict=True).items():
        keys = np.frombuffer(b"".join(rows["pubkey"].to_list()), np.uint8).reshape(-1, 32)
        offset = hll.offset({f"#{name}": [value]}) or 8
        made.append((name, value, kind, hll.from_raw(keys, offset)))
    registers = pl.DataFrame(made, schema=[*key, "registers"], orient="row")
    days = events.group_by((pl.col("created_at") // DAY).alias("day"), "kind", "pubkey")
    daily_author = days.agg(n=pl.len()).collect()
    daily = daily_author.group_by("day", "kind").agg(events=pl.sum("n"), authors=pl.len())
    tables = {
        "hot": hot,
        "hot_author": hot_author,
        "registers": registers,
        "daily_author": daily_author,
        "daily": daily,
    }
    for name, table in tables.items():
        table.write_parquet(out / f"{name}.parquet")
    return {name: table.height for name, table in tables.items()}


if __name__ == "__main__":
    run = by_duckdb if sys.argv[1] == "duckdb" else by_polars
    print(run(Path(sys.argv[2]), Path(sys.argv[3])))
