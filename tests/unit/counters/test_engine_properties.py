"""Properties that are easier to state one by one than in the state machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nostr_client.counters.config import StreamConfig
from nostr_client.counters.engine import read, rows, streams
from nostr_client.counters.engine.publish import publish
from nostr_client.counters.rules import format_integer
from nostr_client.errors import CounterError
from tests.unit.counters.engine import Engine, counter, source

if TYPE_CHECKING:
    import random

SMALL = st.lists(st.integers(-1_000, 1_000), min_size=1, max_size=12)


@pytest.fixture
def engine() -> Engine:
    return Engine()


@settings(max_examples=30, deadline=None)
@given(SMALL, st.randoms(use_true_random=False))
def test_the_order_of_increments_does_not_matter(numbers: list[int], rng: random.Random) -> None:
    shuffled = list(numbers)
    rng.shuffle(shuffled)
    values = []
    for order in (numbers, shuffled):
        engine = Engine()
        engine.create(counter("C", "c"))
        for n in order:
            engine.add("c", n)
        values.append(engine.value("C", "c"))
        engine.close()
    assert values == [sum(numbers)] * 2


@settings(max_examples=30, deadline=None)
@given(SMALL)
def test_as_of_a_sequence_is_the_value_then(numbers: list[int]) -> None:
    engine = Engine()
    engine.create(counter("C", "c"))
    for n in numbers:
        engine.add("c", n)
    for seq in range(1, len(numbers) + 1):
        row, _ = read.newest(engine.conn, engine.id("C"), "c", seq)
        assert read.entry(row, {}).value == sum(numbers[:seq])
    with pytest.raises(CounterError):
        read.newest(engine.conn, engine.id("C"), "c", 0)
    engine.close()


@pytest.mark.parametrize("digits", [4_299, 4_300, 4_301])
def test_many_digits_round_trip(engine: Engine, digits: int) -> None:
    engine.create(counter("ES", "es"))
    engine.create(counter("AGG", sources=(source("ES", "es", "all"),)))
    n = -(10**digits) + 1
    stored = engine.add("es", n)
    assert stored.val == format_integer(n)
    assert engine.value("AGG", "all") == n
    assert read.entry(*read.newest(engine.conn, engine.id("AGG"), "all")).sources == {
        "ES": {"es": n}
    }
    assert engine.add("es", -n).val == "0"
    assert engine.value("AGG", "all") == 0


def test_after_a_reset_the_next_of_a_source_is_one(engine: Engine) -> None:
    engine.create(counter("ES", "es"))
    engine.create(counter("AGG", "all", sources=(source("ES", "es", "all"),)))
    engine.add("es", 30)
    stored = engine.add("all", -30)
    engine.purge("AGG", "all", seq=stored.seq)
    assert engine.value("AGG", "all") == 0
    assert engine.sources("AGG", "all") == {"ES": {"es": "30"}}
    engine.add("es", 1)
    assert engine.value("AGG", "all") == 1


def test_a_source_that_is_made_anew_brings_the_difference(engine: Engine) -> None:
    engine.create(counter("ES", "es"))
    engine.create(counter("AGG", sources=(source("ES", "es", "all"),)))
    engine.add("es", 40)
    engine.run(lambda s: streams.delete(s, "ES"))
    assert engine.value("AGG", "all") == 40
    engine.create(counter("ES", "es"))
    engine.add("es", 2)
    assert engine.value("AGG", "all") == 2
    assert [m.headers[0][1] for m in engine.dump("AGG")] == ["40", "-38"]


def test_a_stalled_source_goes_on_when_its_message_is_removed(engine: Engine) -> None:
    engine.create(StreamConfig(name="P", subjects=("p.*",)))
    engine.run(lambda s: publish(s, "p.a", (), b"an ordinary message"))
    engine.create(counter("AGG", sources=(source("P", "p.*", "n.{{wildcard(1)}}"),)))
    (stalled,) = engine.conn.execute("SELECT stalled FROM counter_source_cursor").fetchone()
    assert stalled.startswith("sequence 1: message counter increment is missing")
    engine.delete("P", 1)
    engine.settle()
    engine.run(lambda s: publish(s, "p.a", (), b"another"))
    assert engine.dump("AGG") == []


def test_cycles_are_refused_with_their_path(engine: Engine) -> None:
    engine.create(counter("A", "a"))
    engine.create(counter("B", sources=(source("A", "a", "b"),)))
    engine.create(counter("C", sources=(source("B", "b", "c"),)))
    with pytest.raises(CounterError, match="A <- C <- B <- A") as caught:
        engine.update(counter("A", "a", sources=(source("C", "c", "a"),)))
    assert caught.value.code == 10052


def test_a_diamond_counts_twice_as_on_the_server(engine: Engine) -> None:
    engine.create(counter("A", "a"))
    for name in ("L", "R"):
        engine.create(counter(name, sources=(source("A", "a", name.lower()),)))
    both = (source("L", "l", "x"), source("R", "r", "x"))
    engine.create(counter("X", sources=both))
    engine.add("a", 7)
    assert engine.value("X", "x") == 14


def test_deleting_the_newest_goes_back_to_the_one_before(engine: Engine) -> None:
    engine.create(counter("ES", "es"))
    engine.create(counter("AGG", "all", sources=(source("ES", "es", "all"),)))
    engine.add("es", 5)
    engine.add("es", 6)
    engine.delete("AGG", 2)
    assert engine.value("AGG", "all") == 5
    assert engine.sources("AGG", "all") == {"ES": {"es": "5"}}
    engine.add("es", 1)
    assert engine.value("AGG", "all") == 12


def test_a_message_larger_than_a_page_of_patterns(engine: Engine) -> None:
    engine.create(counter("C", "c.>"))
    for number in range(30):
        engine.add(f"c.{number:02}.x", number)
    stream = engine.id("C")
    for pattern, count in (("c.>", 30), ("c.*.x", 30), ("c.0*.x", 0), ("c.05.*", 1), ("c.05", 0)):
        found, after = [], ""
        while after is not None:
            page = rows.page(engine.conn, stream, pattern, after, limit=7)
            found += [item.subject for item in page.found]
            after = page.after
        assert len(found) == count
        assert found == sorted(set(found))


QUERIES = {
    "load": (read.LOAD, (1, "c.x")),
    "get by sequence": (read.BY_SEQ, (1, 5)),
    "as of": (read.AS_OF, (1, "c.x", 5)),
    "history": (read.HISTORY, (1, "c.x", 0, 10)),
    "since": (read.SINCE, (1, 0, 10)),
    "one subject": (rows.EXACT, (1, "c.x")),
    "subjects": (rows.WITHIN, (1, "c.", "c/", 10)),
    "all subjects": (rows.ABOVE, (1, "", 10)),
}


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_no_query_scans(engine: Engine, name: str) -> None:
    sql, bound = QUERIES[name]
    plan = engine.conn.execute("EXPLAIN QUERY PLAN " + sql, bound).fetchall()
    details = [row[3] for row in plan]
    assert details
    assert all(detail.startswith("SEARCH") for detail in details), details


def scans(engine: Engine, sql: str) -> list[str]:
    """Tables that a statement walks through; the catalog (a row a stream) and the rows that a
    subquery found do not count."""
    plan = engine.conn.execute("EXPLAIN QUERY PLAN " + sql)
    details = [row[3] for row in plan if row[3].startswith("SCAN")]
    small = ("SCAN counter_store", "SCAN counter_stream", "SCAN (subquery")
    return [detail for detail in details if not detail.startswith(small)]


def test_no_statement_of_a_write_scans(engine: Engine) -> None:
    """Every statement that a publish, a pull, a trim and a purge run, as SQLite plans it."""
    engine.create(counter("ES", "es", max_msgs=4, max_msgs_per_subject=3))
    engine.create(counter("AGG", sources=(source("ES", "es", "all"),), max_age=10**9))
    statements: set[str] = set()
    engine.conn.set_trace_callback(statements.add)
    for _ in range(6):
        engine.add("es", 1, ("Nats-Msg-Id", str(engine.now)))
    engine.purge("ES", "es", keep=1)
    engine.conn.set_trace_callback(None)
    written = [
        sql for sql in statements if sql.startswith(("SELECT", "INSERT", "UPDATE", "DELETE"))
    ]
    assert len(written) > 30
    assert {found for sql in written for found in scans(engine, sql)} == set()
