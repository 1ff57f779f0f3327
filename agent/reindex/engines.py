"""Chooses the engine of a rebuild, and says why."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from agent.reindex.inputs import is_url, open_store
from nostr_client.codecs.display import plural
from nostr_client.errors import InvalidInput, missing
from nostr_client.store.faults import store_error

if TYPE_CHECKING:
    from pathlib import Path

    from agent.reindex.inputs import Input
    from agent.reindex.protocol import EngineName

Wanted = Literal["auto", "spark", "reference"]

SPARK: Final = ("pyspark", "pyarrow", "pandas")
"""What its engine imports."""

SMALL: Final = 3_000_000
"""Events of a store below which the plain engine is the faster one on any machine: it takes two
fifths of Spark's CPU at a million events, and 0.5 GB of memory for each, which Spark bounds."""


class Choice(NamedTuple):
    """An engine and the reason for it."""

    engine: EngineName
    why: str


def choose(wanted: Wanted, source: Input, out: str = "") -> Choice:
    """The engine for an input, and where its tables go. Raises InvalidInput where it cannot do
    it, MissingExtra."""
    if wanted == "spark":
        if not has_spark():
            lacking = [name for name in SPARK if not find_spec(name)]
            raise missing("Spark", " and ".join(lacking), "spark")
        return Choice("spark", "as asked")
    if wanted == "reference":
        if source.remote or is_url(out):
            raise InvalidInput("only Spark reads and writes URLs")
        return Choice("reference", "as asked")
    return _chosen(source, out)


def has_spark() -> bool:
    """Whether pyspark is here; it is not loaded."""
    return all(find_spec(name) for name in SPARK)


def _chosen(source: Input, out: str) -> Choice:
    if source.remote or is_url(out):
        return choose("spark", source)
    if source.kind != "store":
        if has_spark():
            return Choice("spark", "an archive: only Spark makes the tables for analysts")
        return Choice("reference", "Spark is not installed")
    events = events_of(source.store)
    if events < SMALL:
        why = f"fewer than {SMALL:,} events: Spark would take longer"
        return Choice("reference", why)
    if not has_spark():
        return Choice("reference", f"{plural(events, 'event')}, but Spark is not installed")
    return Choice("spark", plural(events, "event"))


def events_of(store: Path) -> int:
    """How many events a store has. Raises StoreError."""
    try:
        with closing(open_store(store)) as conn:
            (number,) = conn.execute("SELECT count(*) FROM event").fetchone()
    except sqlite3.Error as error:
        raise store_error(error) from error
    return int(number)
