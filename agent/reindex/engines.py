"""Chooses the engine of a rebuild, and says why."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from agent.reindex.inputs import is_url, open_store
from nostr_client.codecs.display import plural
from nostr_client.errors import InvalidInput, missing
from nostr_client.store.file.faults import store_error

if TYPE_CHECKING:
    from pathlib import Path

    from agent.reindex.inputs import Input
    from agent.reindex.protocol import EngineName

Wanted = Literal["auto", "spark", "reference"]

SPARK: Final = ("pyspark", "pyarrow", "pandas")
"""What its engine imports."""

PLAIN_S: Final = 25.0
START_S: Final = 6.5
PUBLISH_S: Final = 5.3
WORKERS_S: Final = 28.4
"""Seconds for a million events of a store: of the plain engine, of Spark's one writing thread, and
of all its workers together; and those of Spark's start. Measured at 1 and 3 million events on two
cores (docs/how-to/reindex.md). That more cores share the work of the workers is an assumption."""


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
        return Choice("reference", "Spark, which makes the tables for analysts, is not installed")
    events, cores = events_of(source.store), os.cpu_count() or 1
    found = f"{plural(events, 'event')} on {plural(cores, 'core')}"
    if not spark_is_quicker(events, cores):
        return Choice("reference", f"{found}: Spark would take longer")
    if not has_spark():
        return Choice("reference", f"{found}, but Spark is not installed")
    return Choice("spark", found)


def spark_is_quicker(events: int, cores: int) -> bool:
    """Whether Spark rebuilds a store of so many events in less time than the plain engine."""
    millions = events / 1_000_000
    spark = START_S + millions * (PUBLISH_S + WORKERS_S / cores)
    return spark < PLAIN_S * millions


def events_of(store: Path) -> int:
    """How many events a store has. Raises StoreError."""
    try:
        with closing(open_store(store)) as conn:
            (number,) = conn.execute("SELECT count(*) FROM event").fetchone()
    except sqlite3.Error as error:
        raise store_error(error) from error
    return int(number)
