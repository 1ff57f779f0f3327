"""Which counters changed since a time: a plain replay says the same, and nothing is guessed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nostr_client.counters.engine import moves
from nostr_client.counters.shown import CounterMove, StreamMoves
from tests.unit.counters.engine import Engine, counter

SECOND = 1_000_000_000
BEGIN = 1_700_000_000


class Timed(Engine):
    """An engine whose clock stands at full seconds."""

    def add_at(self, at: int, subject: str, n: int) -> None:
        self.now = at * SECOND - 1_000  # `run` adds that
        self.add(subject, n)


def made(**limits: int) -> Timed:
    engine = Timed()
    engine.create(counter("C", "c.*", **limits))
    return engine


ADDS = st.lists(
    st.tuples(
        st.integers(0, 3), st.sampled_from(["c.a", "c.b", "c.c"]), st.integers(-(10**30), 10**30)
    ),
    max_size=30,
)


@given(ADDS, st.integers(0, 60))
def test_moves_are_those_of_a_plain_replay(adds: list[tuple[int, str, int]], since: int) -> None:
    engine = made()
    at, then, now = BEGIN, {}, {}
    changed: set[str] = set()
    for wait, subject, n in adds:
        at += wait
        engine.add_at(at, subject, n)
        now[subject] = now.get(subject, 0) + n
        if at <= BEGIN + since:
            then[subject] = now[subject]
        else:
            changed.add(subject)
    found = moves.read(engine.conn, BEGIN + since)
    engine.close()
    if not now:
        assert found == ()
        return
    (one,) = found
    assert (one.stream, one.counters, one.changed) == ("C", len(now), len(changed))
    assert {move.subject: move for move in one.moves} == {
        name: CounterMove(
            subject=name,
            now=str(now[name]),
            then=str(then[name]) if name in then else None,
            is_new=name not in then,
        )
        for name in changed
    }
    sizes = [abs(int(m.now or "0") - int(m.then or "0")) for m in one.moves]
    assert [float(size) for size in sizes] == sorted(map(float, sizes), reverse=True)


def test_a_value_whose_messages_were_removed_is_not_known_and_no_zero() -> None:
    engine = made(max_msgs_per_subject=1)
    engine.add_at(BEGIN, "c.a", 40)
    engine.add_at(BEGIN + 20, "c.a", 2)
    engine.add_at(BEGIN + 20, "c.b", 5)
    (one,) = moves.read(engine.conn, BEGIN + 10)
    assert one.lines == [
        "c.a: 42; not known then, as its older changes are not stored",
        "c.b: 5; not known then, as its older changes are not stored",
    ]


def test_a_stored_body_that_is_no_value_is_not_known() -> None:
    engine = made()
    engine.add_at(BEGIN, "c.a", 40)
    engine.add_at(BEGIN + 20, "c.a", 2)
    engine.conn.execute("UPDATE counter_latest SET val = NULL")
    engine.conn.execute("UPDATE counter_message SET val = NULL, body = x'78' WHERE seq = 2")
    (one,) = moves.read(engine.conn, BEGIN + 10)
    assert one.lines == ["c.a: its value cannot be read"]


def test_only_streams_that_count_are_read() -> None:
    engine = made()
    assert moves.read(engine.conn, 0) == ()
    engine.add_at(BEGIN, "c.a", 1)
    assert [one.stream for one in moves.read(engine.conn, 0)] == ["C"]
    engine.conn.execute("DROP TABLE counter_stream")
    assert moves.read(engine.conn, 0) == ()


def test_the_sentences() -> None:
    found = StreamMoves(
        stream="C",
        counters=4_000,
        changed=4,
        moves=(
            CounterMove(subject="c.a", now="52113", then="52000"),
            CounterMove(subject="c.b", now="-1" + "0" * 60, then="7"),
            CounterMove(subject="c.c", now="3", is_new=True),
        ),
    )
    assert found.lines == [
        "c.a: 52,113; 52,000 then (+113)",
        "c.b: a number of 61 digits; 7 then",
        "c.c: 3, a new counter",
        "and 1 other counter changed",
    ]
    assert StreamMoves(stream="C", counters=4_000, changed=0).lines == [
        "no change in 4,000 counters"
    ]
