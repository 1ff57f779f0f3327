"""Sources in other stores: the delta rule over a network, and sources that lie."""

from __future__ import annotations

import sqlite3

import pytest

from nostr_client.counters import lineage
from nostr_client.counters.engine import remote, served
from nostr_client.counters.engine.take import MOST_DIGITS, Batch, BatchResult, check_batch
from nostr_client.counters.lineage import KEPT_RUNS, Arrival, StreamHead, StreamPosition, goes_on
from nostr_client.errors import CounterError, InvalidInput
from tests.unit.counters.engine import counter, source
from tests.unit.counters.fleet import STREAM, Store, node, settle


@pytest.fixture
def stores() -> list[Store]:
    return [Store(name) for name in "abcd"]


def test_a_source_is_met_before_it_is_taken(stores: list[Store]) -> None:
    a, b, *_ = stores
    b.add("hits", 5)
    from_b = a.source(b)
    assert a.take(from_b, b.page(0, 10)) == BatchResult("met")
    assert a.value("hits") == 0
    taken = a.take(from_b, b.page(0, 10))
    assert (taken.outcome, taken.moved) == ("taken", 1)
    assert a.value("hits") == 5
    assert a.engine.sources(STREAM, "a.hits") == {"from-b": {"b.hits": "5"}}


def test_tiers_show_their_totals_and_take_nothing_twice(stores: list[Store]) -> None:
    top, middle, leaf, _ = stores
    from_leaf, from_middle = middle.source(leaf), top.source(middle)
    for n in range(1, 4):
        leaf.add("hits", n)
        middle.add("hits", 10)
        for _ in range(2):
            settle(middle, from_leaf, leaf)
            settle(top, from_middle, middle)
    assert (leaf.value("hits"), middle.value("hits"), top.value("hits")) == (6, 36, 36)


def test_a_cycle_is_refused_by_whoever_comes_second(stores: list[Store]) -> None:
    a, b, c, _ = stores
    for into, of in ((a, b), (b, c), (c, a)):
        of.add("hits", 1)
        into.take(into.source(of), of.whole())
    outcomes = [into.take(into.source(of), of.whole()) for into, of in ((a, b), (b, c), (c, a))]
    refused = [taken for taken in outcomes if taken.outcome == "refused"]
    assert refused
    for taken in refused:
        assert "cycle" in taken.why
        assert taken.path[0] == taken.path[-1]
        assert len(taken.path) == 4
    for store in (a, b, c):
        assert store.value("hits") <= 2


def test_a_diamond_is_refused_with_both_ways(stores: list[Store]) -> None:
    top, left, right, leaf = stores
    leaf.add("hits", 1)
    settle(left, left.source(leaf), leaf)
    settle(right, right.source(leaf), leaf)
    settle(top, top.source(left), left)
    taken = top.take(top.source(right), right.whole())
    assert taken.outcome == "refused"
    assert "two ways" in taken.why
    ends = [one for one in taken.path if one == lineage.shown((node(leaf),))[0]]
    assert len(ends) == 2
    assert top.value("hits") == 1


def test_a_diamond_below_a_stream_of_the_same_store_is_found(stores: list[Store]) -> None:
    top, left, leaf, _ = stores
    leaf.add("hits", 1)
    settle(left, left.source(leaf), leaf)
    settle(top, top.source(left), left)
    top.engine.create(counter("BESIDE"))
    top.engine.create(
        counter("BOTH", sources=(source(STREAM, ">", ">"), source("BESIDE", ">", ">")))
    )
    beside = top.source(leaf)._replace(stream="BESIDE")
    assert top.take(beside, leaf.whole()).outcome == "refused"


def test_two_halves_of_one_stream_are_no_diamond(stores: list[Store]) -> None:
    a, b, *_ = stores
    b.add("hits", 2)
    b.add("plays", 3)
    for name in ("hits", "plays"):
        half = remote.Remote(STREAM, source(f"b-{name}", f"b.{name}", f"a.{name}"))
        settle(a, half, b)
    assert (a.value("hits"), a.value("plays")) == (2, 3)


@pytest.mark.parametrize(("src", "dest"), [("b.*", "a.$1"), ("b.hits", "a.hits"), (">", "a.>")])
def test_one_stream_under_two_names_is_a_diamond(stores: list[Store], src: str, dest: str) -> None:
    a, b, *_ = stores
    b.add("hits", 2)
    settle(a, a.source(b), b)
    again = remote.Remote(STREAM, source("again", src, dest))
    for _ in range(2):
        taken = a.take(again, b.whole())
        assert taken.outcome == "refused"
        assert "two ways" in taken.why
        assert taken.path == lineage.shown((node(a), node(b)) * 2)
    b.add("hits", 3)
    settle(a, a.source(b), b)  # the first one goes on
    assert a.value("hits") == 5


def test_two_views_of_one_stream_are_no_diamond(stores: list[Store]) -> None:
    a, b, *_ = stores
    b.add("hits", 2)
    settle(a, a.source(b), b)
    settle(a, remote.Remote(STREAM, source("view", "b.*", "a.view.$1")), b)
    assert (a.value("hits"), a.value("view.hits")) == (2, 2)


def test_a_source_under_another_stream_needs_another_name(stores: list[Store]) -> None:
    a, b, *_ = stores
    settle(a, a.source(b), b)
    a.engine.create(counter("OTHER"))
    with pytest.raises(CounterError, match="another stream"):
        a.take(a.source(b)._replace(stream="OTHER"), b.whole())


def test_what_was_gone_is_told_and_the_sum_is_right(stores: list[Store]) -> None:
    a, b, *_ = stores
    from_b = a.source(b)
    b.add("hits", 1)
    settle(a, from_b, b)
    for _ in range(4):
        b.add("hits", 1)
    b.engine.delete(STREAM, 3)
    b.engine.delete(STREAM, 4)
    taken = a.take(from_b, b.page(1, 10))
    assert [tuple(gap) for gap in taken.gaps] == [(2, 5)]
    assert a.value("hits") == 5
    known = remote.known(a.engine.conn, "from-b")
    assert known is not None
    assert (known.gaps, known.lost) == (1, 2)


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_an_answer_that_comes_late_moves_nothing_back(
    stores: list[Store], *, newest: bool, restarted: bool
) -> None:
    a, b, c, _ = stores
    from_b = a.source(b)
    b.add("hits", 1)
    settle(a, from_b, b)
    b.add("hits", 2)
    late = [b.page(after, 10, newest=newest) for after in (0, 1)]
    if restarted:
        b.restart()
    b.add("hits", -7)
    c.add("plays", 4)
    settle(b, b.source(c), c)  # a way that the late ones do not name
    settle(a, from_b, b)
    before = remote.known(a.engine.conn, "from-b")
    for batch in (*late, *reversed(late)):
        assert a.take(from_b, batch) == BatchResult("stale")
    assert remote.known(a.engine.conn, "from-b") == before
    assert (a.value("hits"), a.value("plays")) == (-4, 4)
    assert settle(a, from_b, b).moved == 0


def test_an_answer_that_begins_after_what_was_read_leaves_no_hole(stores: list[Store]) -> None:
    a, b, *_ = stores
    from_b = a.source(b)
    b.add("hits", 1)
    settle(a, from_b, b)
    b.add("plays", 2)
    b.add("hits", 3)
    assert a.take(from_b, b.page(2, 10)) == BatchResult("stale")
    assert (a.seq_of(from_b), a.value("hits")) == (1, 1)
    assert settle(a, from_b, b).gaps == ()
    assert (a.value("hits"), a.value("plays")) == (4, 2)


def test_a_store_put_back_from_a_backup_waits_for_a_word_where_values_fell(
    stores: list[Store],
) -> None:
    a, b, *_ = stores
    from_b = a.source(b)
    b.add("hits", 10)
    b.add("gone", 0)
    backup = b.back_up()
    b.add("hits", 10)
    b.add("new", 7)
    settle(a, from_b, b)
    b.restore(backup)
    b.add("hits", 1)
    b.add("hits", 1)
    b.add("hits", 1)  # further than was read: sequences alone would not show it
    assert a.take(from_b, b.page(a.seq_of(from_b), 10)).outcome == "again"
    taken = a.take(from_b, b.whole())
    assert taken.outcome == "backwards"
    assert "b.hits from 20 to 13 and 1 more" in taken.why
    assert (a.value("hits"), a.value("new")) == (20, 7)
    assert not a.confirm("from-c")
    assert a.confirm("from-b")
    settle(a, from_b, b)
    assert (a.value("hits"), a.value("new")) == (13, 0)


def test_a_store_put_back_that_has_caught_up_goes_on_by_itself(stores: list[Store]) -> None:
    a, b, *_ = stores
    from_b = a.source(b)
    b.add("hits", 10)
    backup = b.back_up()
    b.add("hits", 10)
    settle(a, from_b, b)
    b.restore(backup)
    b.add("hits", 25)
    assert a.take(from_b, b.page(a.seq_of(from_b), 10)).outcome == "again"
    assert a.take(from_b, b.whole()).outcome == "taken"
    assert a.value("hits") == 35


def test_a_confirmation_is_for_what_was_seen_and_no_later_fall(stores: list[Store]) -> None:
    a, b, *_ = stores
    from_b = a.source(b)
    empty = b.back_up()
    b.add("hits", 10)
    settle(a, from_b, b)
    b.restore(empty)
    assert a.take(from_b, b.whole()).outcome == "backwards"
    assert a.confirm("from-b")
    b.restore(empty)  # once more, after the word
    assert a.take(from_b, b.whole()).outcome == "backwards"


def test_a_broken_counter_parks_its_message_until_it_is_mended(stores: list[Store]) -> None:
    a, b, *_ = stores
    from_b = a.source(b)
    a.add("hits", 1)
    a.engine.conn.execute(
        "UPDATE counter_message SET val = NULL, body = x'78' WHERE subject = 'a.hits'"
    )
    a.engine.conn.execute("UPDATE counter_latest SET val = NULL WHERE subject = 'a.hits'")
    b.add("hits", 5)
    b.add("plays", 6)
    taken = settle(a, from_b, b)
    assert taken.parked == 1
    assert a.value("plays") == 6
    (parked,) = remote.parked(a.engine.conn, "from-b")
    assert (parked.subject, parked.value) == ("b.hits", "5")
    assert "10172" in parked.why
    a.engine.purge(STREAM, "a.hits")
    assert settle(a, from_b, b).parked == 0
    assert a.value("hits") == 5


class Liar(Store):
    """A store whose answers a test makes up."""

    def says(self, *values: tuple[str, str | None], last: int = 10**6) -> Batch:
        arrivals = tuple(Arrival(n, *pair) for n, pair in enumerate(values, 1))
        head = self.head()._replace(last_seq=last)
        return Batch(head, arrivals, last, True, ((node(self),),))


def test_a_hostile_source_changes_its_own_entries_alone() -> None:
    victim, honest, liar = Store("v"), Store("h"), Liar("l")
    victim.add("hits", 3)
    honest.add("hits", 4)
    settle(victim, victim.source(honest), honest)
    before = victim.maps()
    hostile = victim.source(liar, most_subjects=50)
    victim.take(hostile, liar.says())
    lies = [
        ("l.hits", "9"),
        ("l.hits", "1" * 1_000_000),  # a million digits
        ("l.hits", "1" * MOST_DIGITS + "0"),
        ("l.hits", "1e9"),
        ("l.hits", "\u0661"),
        ("l.hits", ""),
        ("l.hits", None),
        ("v.hits", "100"),  # foreign subjects
        ("h.hits", "100"),
        ("l.*", "5"),
        ("l.>", "5"),
        ("l.a b", "5"),
        ("", "5"),
        ("l." + "x" * 5_000, "5"),
    ]
    taken = victim.take(hostile, liar.says(*lies))
    assert taken.outcome == "taken"
    assert taken.left_out == 7
    assert taken.parked == 1
    assert victim.value("hits") == 16
    assert victim.maps(but="from-l") == before
    # Values that fall, far below nothing, within a run: that is what its own counters may do.
    victim.take(hostile, liar.says(("l.hits", "-" + "9" * 100), last=10**6 + 1))
    assert victim.value("hits") == 7 - int("9" * 100)
    assert victim.maps(but="from-l") == before


def test_a_million_subjects_are_cut_to_what_a_source_may_bring() -> None:
    victim, liar = Store("v"), Liar("l")
    hostile = victim.source(liar, most_subjects=100)
    victim.take(hostile, liar.says())
    for part in range(10):  # as pages of some thousand
        values = [(f"l.{part}x{n}", "1") for n in range(2_000)]
        taken = victim.take(hostile, liar.says(*values, last=10**6 + part))
        assert taken.outcome == "taken"
    known = remote.known(victim.engine.conn, "from-l")
    assert known is not None
    assert known.subjects == 100
    assert known.left_out == 20_000 - 100
    assert len(victim.maps()) == 100


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_million_subjects_leave_the_store_as_small_as_its_limit() -> None:
    victim, liar = Store("v"), Liar("l")
    hostile = victim.source(liar)
    victim.take(hostile, liar.says())
    for part in range(100):
        values = [(f"l.{part}x{n}", "1") for n in range(10_000)]
        victim.take(hostile, liar.says(*values, last=10**7 + part))
    known = remote.known(victim.engine.conn, "from-l")
    assert known is not None
    assert (known.subjects, known.left_out) == (10_000, 990_000)
    (messages,) = victim.engine.conn.execute("SELECT count(*) FROM counter_message").fetchone()
    assert messages == 10_000


def test_messages_map_and_place_change_together_or_not_at_all(
    stores: list[Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, *_ = stores
    from_b = a.source(b)
    b.add("hits", 5)
    settle(a, from_b, b)
    b.add("hits", 5)
    before = a.engine.everything()
    real = remote.change

    def fails(conn: sqlite3.Connection, name: str, **fields: object) -> None:
        real(conn, name, **fields)
        if "seq" in fields:
            raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(remote, "change", fails)
    with pytest.raises(sqlite3.OperationalError):
        a.take(from_b, b.page(1, 10))
    monkeypatch.undo()
    assert a.engine.everything() == before
    settle(a, from_b, b)
    assert a.value("hits") == 10


def test_a_liar_cannot_name_others_as_its_sources_to_stop_them() -> None:
    victim, honest, liar = Store("v"), Store("h"), Liar("l")
    honest.add("hits", 4)
    settle(victim, victim.source(honest), honest)
    victim.take(victim.source(liar), liar.says())
    lie = liar.says(("l.hits", "1"))._replace(ways=((node(liar),), (node(liar), node(honest))))
    taken = victim.take(victim.source(liar), lie)
    assert taken.outcome == "refused"
    honest.add("hits", 1)
    settle(victim, victim.source(honest), honest)
    assert victim.value("hits") == 5


@pytest.mark.parametrize(
    "batch",
    [
        Batch(StreamHead("s", "e", 1, 5), (), 6),
        Batch(StreamHead("s", "e", 1, 5), (), -1),
        Batch(StreamHead("s", "e", 1, 5), (Arrival(6, "a", "1"),), 5),
        Batch(StreamHead("s", "e", 1, 5), (Arrival(0, "a", "1"),), 5),
        Batch(StreamHead("s", "e", 1, 5), (Arrival(2, "a", "1"), Arrival(2, "a", "1")), 5),
        Batch(StreamHead("s", "e", 1, 5), (Arrival(3, "a", "1"), Arrival(2, "a", "1")), 5),
    ],
)
def test_an_answer_that_contradicts_itself_is_refused(batch: Batch) -> None:
    with pytest.raises(InvalidInput):
        check_batch(batch)


@pytest.mark.parametrize(
    "ways",
    [
        [["other"]],
        [[]],
        [["s"] * 33],
        [["s", "x" * 400]],
        [["s", "\x1b[31m"]],
        [["s", str(n)] for n in range(600)],
    ],
)
def test_a_lineage_that_is_none_is_refused(ways: list[list[str]]) -> None:
    with pytest.raises(InvalidInput):
        lineage.checked(ways, "s")


def test_marks_and_heads() -> None:
    head = StreamHead("s", "e", 1, 50, (("one", 0), ("two", 20), ("three", 40)))
    good = [("three", 50), ("two", 40), ("one", 20), ("", 0), ("never", 0)]
    bad = [("three", 51), ("two", 41), ("one", 21), ("never", 1), ("", 1)]
    for run, seq in good:
        assert goes_on(StreamPosition("s", "e", run, seq), head), (run, seq)
    for run, seq in bad:
        assert not goes_on(StreamPosition("s", "e", run, seq), head), (run, seq)
    assert not goes_on(StreamPosition("s", "f", "three", 1), head)
    assert not goes_on(StreamPosition("t", "e", "three", 1), head)
    assert goes_on(StreamPosition("s", "e", "", 10), head._replace(runs=(("one", 10),)))


def test_only_the_newest_runs_are_kept(stores: list[Store]) -> None:
    a, *_ = stores
    a.add("hits", 1)
    for _ in range(KEPT_RUNS + 5):
        a.restart()
    runs = a.head().runs
    assert len(runs) == KEPT_RUNS
    assert runs[-1] == (f"a-{KEPT_RUNS + 6}", 1)
    (starts,) = a.engine.conn.execute("SELECT count(*) FROM counter_run_start").fetchone()
    assert starts == KEPT_RUNS


def test_a_page_is_bounded_by_its_digits(stores: list[Store]) -> None:
    a, *_ = stores
    for n in range(8):
        for _ in range(4):
            a.engine.add(f"a.n{n}", 10**65_000)
    page = served.page(a.engine.conn, STREAM, 0, 1000)
    assert page.more
    assert len(page.arrivals) < 32


def test_the_newest_of_each_subject(stores: list[Store]) -> None:
    a, *_ = stores
    for subject in ("hits", "plays", "hits", "hits"):
        a.add(subject, 1)
    page = served.page(a.engine.conn, STREAM, 0, 10, newest=True)
    assert [(one.seq, one.subject, one.value) for one in page.arrivals] == [
        (2, "a.plays", "1"),
        (4, "a.hits", "3"),
    ]
    assert served.page(a.engine.conn, STREAM, 2, 1).more


def test_a_stream_that_goes_takes_all_about_its_sources_with_it(stores: list[Store]) -> None:
    from nostr_client.counters.engine import streams

    a, b, *_ = stores
    b.add("hits", 5)
    settle(a, a.source(b), b)
    a.engine.run(lambda s: streams.delete(s, STREAM))
    assert remote.known(a.engine.conn, "from-b") is None
    a.engine.create(counter(STREAM, "a.>"))
    settle(a, a.source(b), b)
    assert a.value("hits") == 5
