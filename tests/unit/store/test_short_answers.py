"""Short answers equal what a look at every event finds, or are none."""

from __future__ import annotations

import random
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs.event import Event, nip01_order
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.errors import StoreCorrupt, StoreError
from nostr_client.store.file import readers
from nostr_client.store.query import select
from nostr_client.store.query.json_answers import JsonCache
from nostr_client.store.query.short_answers import MOST_BYTES, MOST_EVENTS, MOST_VALUES
from nostr_client.store.rows import JsonEvent, TagHasher, encode_tags, read_event, read_json
from nostr_client.store.sqlite import SqliteStore
from tests.turns import another_task

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator
    from pathlib import Path

NOW = 1_700_000_000
AUTHORS = [sha256(f"author {n}".encode()).hexdigest() for n in range(4)]
TOPICS = [f"topic {n}" for n in range(12)]


def row_of(event: Event) -> list[Any]:
    """The columns of an event, as the store keeps them."""
    hexes = (bytes.fromhex(text) for text in (event.id, event.pubkey, event.sig))
    id_, pubkey, sig = hexes
    tags = encode_tags(event.tags)
    return [id_, pubkey, event.created_at, event.kind, tags, event.content.encode(), sig]


def events_of_any_text() -> st.SearchStrategy[Event]:
    """Events with any text in tags and content."""
    text = st.text(st.characters(exclude_categories=["Cs"]))
    tags = st.lists(st.lists(text, min_size=1).map(tuple)).map(tuple)
    return st.builds(
        Event, st.just("ab" * 32), st.just("cd" * 32), st.integers(0, 2**63 - 1),
        st.integers(0, 65_535), tags, text, st.just("ef" * 64),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("column", "damaged"),
    [
        (0, "text"),
        (1, None),
        (2, "1"),
        (3, None),
        (4, b'[["e"'),
        (4, b'[["e",1]]'),
        (4, b"[[]]}"),
        (4, None),
        (5, b"\xff"),
        (5, 7),
        (6, 1.5),
    ],
)
def test_a_damaged_row_is_never_an_event(column: int, damaged: object) -> None:
    row = row_of(Event("ab" * 32, "cd" * 32, NOW, 1, (("e", "x"),), "text", "ef" * 64))
    row[column] = damaged
    with pytest.raises(StoreCorrupt):
        read_event(row)
    with pytest.raises(StoreCorrupt):
        read_json(row)


@given(events_of_any_text())
def test_the_json_of_a_row_is_that_of_its_event(event: Event) -> None:
    found = read_json(row_of(event))
    assert found.json.decode() == event.to_json()
    assert found[:3] == (event.id, event.created_at, event.kind)


def made(rng: random.Random, number: int) -> VerifiedEvent:
    """An event that nobody signed; many share a second, some expire, few are large."""
    id_ = sha256(f"{rng.random()} {number}".encode()).hexdigest()
    tags = [("t", topic) for topic in rng.sample(TOPICS, rng.randrange(3))]
    tags += [("expiration", str(NOW + rng.choice([5, 50])))] if rng.random() < 0.05 else []
    size = 30_000 if rng.random() < 0.02 else 20
    at = NOW - rng.randrange(150)
    kind, content = rng.choice([1, 1, 7, 1111]), str(number).ljust(size)
    return VerifiedEvent(Event(id_, rng.choice(AUTHORS), at, kind, tuple(tags), content, "0" * 128))


def filters(rng: random.Random, ids: list[str]) -> Filter:
    """A question of any shape, mostly short."""
    fields: dict[str, Any] = {"limit": rng.choice([0, 1, 3, 10, 50, 300, None])}
    if rng.random() < 0.2:
        fields["ids"] = rng.sample(ids, rng.randrange(1, 9))
    if rng.random() < 0.5:
        fields["authors"] = rng.sample([*AUTHORS, "0" * 64], rng.randrange(1, 4))
    if rng.random() < 0.5:
        fields["kinds"] = rng.sample([1, 7, 1111, 9], rng.randrange(1, 3))
    if rng.random() < 0.4:
        fields["tags"] = {"#t": rng.sample(TOPICS, rng.randrange(1, 4))}
    if rng.random() < 0.3:
        fields["since"] = NOW - rng.randrange(150)
    if rng.random() < 0.3:
        fields["until"] = NOW - rng.randrange(150)
    return Filter(**fields)


class Clock:
    """Seconds that a test sets."""

    now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A store in a file whose tag values often share a hash; its events expire by `Clock`."""
    async with await SqliteStore.open(tmp_path / "s.db", clock=Clock()) as opened:
        opened._hasher = opened._saver.hasher = TagHasher(b"key", bits=3)
        yield opened


@pytest.mark.parametrize("seed", range(3))
async def test_short_answers_are_what_a_look_at_every_event_finds(
    store: SqliteStore, seed: int
) -> None:
    rng = random.Random(seed)
    saved = [made(rng, number) for number in range(600)]
    await store.save(saved)
    assert isinstance(store._clock, Clock)
    store._clock.now += 20
    gone = {one.event.id for one in saved if one.event.first_tag("expiration") == str(NOW + 5)}
    held = sorted((one.event for one in saved if one.event.id not in gone), key=nip01_order)
    answered = 0
    for _ in range(250):
        asked = filters(rng, [one.event.id for one in saved])
        matching = [event for event in held if asked.matches(event)]
        right = matching[: asked.limit]
        assert await store.query([asked]) == right, asked
        found = store.look(asked)
        if found is not None:
            answered += 1
            assert found.events == right
            as_json = store.look_json(asked)
            assert as_json is not None
            assert [one.json.decode() for one in as_json.events] == [e.to_json() for e in right]
            assert as_json.more == found.more
            assert found.more or len(right) == len(matching), asked
    assert answered > 80


CONDITIONS: list[dict[str, Any]] = [
    {},
    {"kinds": [1, 7]},
    {"authors": AUTHORS[:2], "since": NOW - 90},
    {"tags": {"#t": TOPICS[:3]}, "until": NOW - 20},
    {"limit": 10},
    {"limit": 5_000},
]


@pytest.mark.parametrize("conditions", CONDITIONS, ids=str)
async def test_many_ids_are_what_a_look_at_every_event_finds(
    store: SqliteStore, conditions: dict[str, Any]
) -> None:
    rng = random.Random(7)
    saved = [made(rng, number) for number in range(600)]
    await store.save(saved)
    assert isinstance(store._clock, Clock)
    store._clock.now += 20
    gone = {one.event.id for one in saved if one.event.first_tag("expiration") == str(NOW + 5)}
    ids = [one.event.id for one in saved[:500]]
    asked = Filter(ids=[*ids, *ids[:9], "ab" * 32], **conditions)
    held = sorted((one.event for one in saved if one.event.id not in gone), key=nip01_order)
    right = [event for event in held if asked.matches(event)]
    assert len(right) > 10
    assert await store.query([asked]) == right[: asked.limit]


async def test_ids_without_a_limit_are_read_by_one_pass(store: SqliteStore) -> None:
    rng = random.Random(7)
    saved = [made(rng, number) for number in range(300)]
    await store.save(saved)
    asked = Filter(ids=[one.event.id for one in saved[:256]])
    statements: list[str] = []

    def traced(conn: sqlite3.Connection) -> list[Event]:
        conn.set_trace_callback(statements.append)
        try:
            return select.events(conn, store._context(), [asked])
        finally:
            conn.set_trace_callback(None)

    assert len(await store.database.read(traced)) > 200
    assert len([one for one in statements if "event_id" in one]) == 1
    assert not [one for one in statements if "seq IN" in one]


async def test_remembered_json_is_only_of_what_the_store_has_now(store: SqliteStore) -> None:
    rng, asked = random.Random(3), Filter(authors=AUTHORS, limit=500)
    assert isinstance(store._clock, Clock)
    held: dict[str, Event] = {}
    for round_ in range(12):
        saved = [made(rng, 100 * round_ + number) for number in range(20)]
        await store.save(saved)
        held |= {one.event.id: one.event for one in saved}
        gone = rng.sample(sorted(held), 5)
        await store.delete([Filter(ids=gone)])
        store._clock.now += 4
        ended = [
            e.id
            for e in held.values()
            if int(e.first_tag("expiration") or 2**40) <= store._clock.now
        ]
        for id_ in {*gone, *ended}:
            held.pop(id_)
        found = store.look_json(asked)
        assert found is not None
        right = [event.to_json() for event in sorted(held.values(), key=nip01_order)]
        assert [one.json.decode() for one in found.events] == right


def test_the_cache_keeps_what_is_asked_for_and_is_bounded() -> None:
    cache = JsonCache(100_000)
    events = [JsonEvent(f"{n:064x}", NOW, 1, b"x" * 600) for n in range(1_000)]
    for n, event in enumerate(events):
        cache.add(n, event)
        assert cache.get([0, n]) == [events[0], event]
    kept = [one for one in cache.get(range(1_000)) if one is not None]
    assert 40 < len(kept) <= 100


async def test_what_is_not_short_is_left_to_the_longer_way(store: SqliteStore) -> None:
    large = Event("ab" * 32, AUTHORS[0], NOW, 1, (), "x" * (MOST_BYTES + 1), "0" * 128)
    await store.save([VerifiedEvent(large)])
    assert store.look(Filter(kinds=[1], limit=10)) is None
    assert await store.query([Filter(kinds=[1], limit=10)]) == [large]
    for long in (
        Filter(kinds=[2]),
        Filter(kinds=[2], limit=MOST_EVENTS + 1),
        Filter(kinds=range(MOST_VALUES + 1), limit=1),
        Filter(kinds=[2], limit=1, search="word"),
    ):
        assert store.look(long) is None
    assert store.look(Filter(kinds=[2], limit=1)) == ([], False)


async def test_a_store_in_memory_and_a_closed_one_answer_nothing_at_once() -> None:
    async with await SqliteStore.open(":memory:") as store:
        assert store.look(Filter(kinds=[1], limit=1)) is None
        assert await store.query([Filter(kinds=[1], limit=1)]) == []
    with pytest.raises(StoreError, match="closed"):
        store.look(Filter(kinds=[1], limit=1))


async def test_a_damaged_row_is_an_error_and_no_answer(store: SqliteStore) -> None:
    saved = [made(random.Random(5), number) for number in range(5)]
    await store.save(saved)
    damage = "UPDATE event SET tags = ? WHERE id = ?"
    params = (b"[[", bytes.fromhex(saved[2].event.id))
    await store.database.write(lambda conn: conn.execute(damage, params).rowcount)
    with pytest.raises(StoreCorrupt):
        store.look(Filter(authors=AUTHORS, limit=10))
    with pytest.raises(StoreCorrupt):
        store.look_json(Filter(authors=AUTHORS, limit=10))
    with pytest.raises(StoreCorrupt):
        await store.query([Filter(authors=AUTHORS, limit=10)])


LONG = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT count(*) FROM n
"""


def counted(conn: sqlite3.Connection, most: int) -> int:
    number: int = conn.execute(LONG, (most,)).fetchone()[0]
    return number


async def test_a_long_read_ends_and_short_ones_never_do(store: SqliteStore) -> None:
    look, read = store.database.look, store.database.read
    for _ in range(50):  # one statement, whose steps SQLite adds up over all its runs
        assert look(lambda conn: counted(conn, 100)) == 100
    assert look(lambda conn: counted(conn, 1_000_000)) is None
    assert look(lambda conn: counted(conn, 100)) == 100
    assert await read(lambda conn: counted(conn, 100_000), small=True) == 100_000


async def test_steps_of_several_statements_are_not_those_of_a_long_read(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite adds up the steps of each statement, so that several may report in one read."""
    monkeypatch.setattr(readers, "monotonic", lambda: 0.0)

    def several(conn: sqlite3.Connection) -> int:
        return sum(conn.execute(f"{LONG} -- {n}", (300,)).fetchone()[0] for n in range(4))

    for _ in range(50):
        assert store.database.look(several) == 1_200


async def test_reads_rest_after_one_that_waited_for_a_disk(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks: list[int] = []
    monkeypatch.setattr(readers, "SLOW_S", -1.0)
    monkeypatch.setattr(readers, "REST_S", 3_600.0)
    monkeypatch.setattr(readers, "_disk_reads", lambda: len(blocks))
    look = store.database.look
    for _ in range(3):  # slow without a disk: the machine is busy
        assert look(lambda conn: counted(conn, 1)) == 1
    assert look(lambda conn: blocks.append(1) or counted(conn, 1)) == 1
    assert look(lambda conn: counted(conn, 1)) is None
    assert await store.database.read(lambda conn: counted(conn, 1), small=True) == 1


async def test_the_end_of_a_transaction_is_never_cut_short(store: SqliteStore) -> None:
    """SQLite adds up the steps of BEGIN and ROLLBACK over all their runs too."""
    for _ in range(15_000):
        assert store.database.look(lambda conn: counted(conn, 1)) in (1, None)
    assert store.database.look(lambda conn: conn.in_transaction)


async def test_a_short_count_needs_no_thread(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(3)
    await store.save([made(rng, number) for number in range(200)])
    wanted = [Filter(kinds=[1]), Filter(authors=AUTHORS[:1], since=NOW - 50), Filter()]
    right = [len(await store.query([one])) for one in wanted]
    threads: list[object] = []
    read = store.database.read

    async def noted(work: Any, **how: Any) -> Any:
        threads.append(work)
        return await read(work, **how)

    monkeypatch.setattr(store.database, "read", noted)
    assert [await store.count([one]) for one in wanted] == right
    assert len(threads) == 1  # for the one without values, whose count is one step of SQLite


async def test_a_long_count_runs_in_a_thread(store: SqliteStore) -> None:
    rng = random.Random(3)
    await store.save([made(rng, number) for number in range(600)])
    store.database._readers._here.set_progress_handler(lambda: True, 1)
    assert await store.count([Filter(kinds=[1])]) == len(await store.query([Filter(kinds=[1])]))


async def test_a_loop_of_counts_lets_others_run(store: SqliteStore) -> None:
    async with another_task() as turns:
        for _ in range(20):
            await store.count([Filter(kinds=[1])])
    assert turns.taken >= 20


async def test_a_loop_of_queries_lets_others_run(store: SqliteStore) -> None:
    async with another_task() as turns:
        for _ in range(20):
            await store.query([Filter(kinds=[1], limit=1)])
    assert turns.taken >= 20
