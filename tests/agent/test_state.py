"""What the agent keeps: history that is thinned, specs, lines that are crossed."""

from __future__ import annotations

import io
import itertools
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from agent import state
from agent.log import Log
from agent.service.specs import Specs
from agent.specs import StoredNames, SyncSpec, in_words
from agent.state import AGENT
from nostr_client.count.claims import CLAIMS
from nostr_client.errors import InvalidInput
from nostr_client.store.file.database import Database
from nostr_client.watch import WATCHES, Point, points, repository
from nostr_client.watch.clock import SystemClock
from nostr_client.watch.definition import AlertSpec, Name, Watch
from nostr_client.watch.history import DAY
from nostr_client.watch.moved import Moved, moved

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Sequence


T0 = 1_700_006_400.0  # midnight, UTC
TARGET = "ab" * 32
UNIT = "distinct_authors"


def spec(name: str = "w", **more: object) -> Watch:
    fields = {"name": name, "query": "followers", "target": TARGET, **more}
    return msgspec.convert(fields, Watch)


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    async with await Database.open(":memory:", migrations=[CLAIMS, WATCHES, AGENT]) as opened:
        await opened.write(lambda c: state.put_spec(c, "watch", spec(), T0))
        yield opened


def point(at: float, value: int) -> Point:
    return Point.sample(int(at), value, value - 1, None, exact=False, unit=UNIT)


def note(conn: sqlite3.Connection, name: str, point: Point, **how: Any) -> None:
    repository.asked(conn, name, point.at, point, **how)


async def fill(database: Database, days: int, every: int = 600) -> float:
    """A value for each point in time: its number; the end."""
    times = [T0 + n * every for n in range(days * DAY // every)]

    def work(conn: sqlite3.Connection) -> None:
        for n, at in enumerate(times):
            note(conn, "w", point(at, n))

    await database.write(work)
    return times[-1]


async def test_history_is_fine_then_hourly_then_daily(database: Database) -> None:
    now = await fill(database, 120)
    found = await database.read(lambda c: points.series(c, "w", 0, most=100_000))
    assert await database.write(lambda c: points.thin_next(c, now, "", 5)) is None
    assert await database.read(lambda c: points.series(c, "w", 0, most=100_000)) == found
    gaps = [b.at - a.at for a, b in itertools.pairwise(found)]
    old = [g for p, g in zip(found, gaps, strict=False) if p.at < now - 93 * DAY]
    new = [g for p, g in zip(found, gaps, strict=False) if p.at > now - 2 * DAY]
    assert set(old) == {DAY}
    assert set(new) == {600}
    assert found[-1].value == 120 * DAY // 600 - 1
    assert len(found) < 28 + 24 * 92 + 300


async def test_the_limit_keeps_the_newest(database: Database) -> None:
    now = await fill(database, 3)
    found = await database.read(lambda c: points.series(c, "w", 0, most=5))
    assert [p.value for p in found] == [427, 428, 429, 430, 431]
    late = await database.read(lambda c: points.series(c, "w", int(now - 600), most=5))
    assert [p.value for p in late] == [430, 431]


async def kept(database: Database, values: Sequence[tuple[int, int]]) -> list[Point]:
    """What is kept of numbers at seconds after T0."""

    def work(conn: sqlite3.Connection) -> None:
        for at, value in values:
            note(conn, "w", point(T0 + at, value))

    await database.write(work)
    return await database.read(lambda c: points.series(c, "w"))


async def test_a_number_that_moves_within_a_minute_is_kept(database: Database) -> None:
    found = await kept(database, [(14, 1), (15, 1), (25, 0), (59, 1)])
    assert [(p.at - T0, p.value, p.samples) for p in found] == [(15, 1, 2), (25, 0, 1), (59, 1, 1)]


async def test_of_a_flood_six_numbers_a_minute_are_kept(database: Database) -> None:
    found = await kept(database, [(n, 50 - n) for n in range(62)])
    assert [(p.at - T0, p.value, p.most, p.samples) for p in found] == [
        *((n, 50 - n, 50 - n, 1) for n in range(5)),
        (59, -9, 45, 55),
        (60, -10, -10, 1),
        (61, -11, -11, 1),
    ]


async def test_changes_and_the_spark(database: Database) -> None:
    now = await fill(database, 8)
    newest = point(now, 8 * 144 - 1)
    found = await database.read(lambda c: moved(c, "w", spec().question, newest))
    assert found.changes == {"1h": 6, "1d": 144, "1w": 7 * 144}
    assert len(found.spark) == 24
    assert list(found.spark) == sorted(found.spark)
    nothing = await database.read(lambda c: moved(c, "other", spec().question, newest))
    assert nothing == Moved({}, ())


@pytest.mark.parametrize(
    ("every", "step"), [(30, 60), (150, 300), (900, 900), (3600, 3600), (86_400, 3600)]
)
async def test_the_spark_of_a_young_watch_has_minutes_then_hours(
    database: Database, every: int, step: int
) -> None:
    times = [T0 + n * every for n in range(20)]

    def work(conn: sqlite3.Connection) -> None:
        for n, at in enumerate(times):
            note(conn, "w", point(at, n))

    await database.write(work)
    found = await database.read(lambda c: moved(c, "w", spec().question, point(times[-1], 19)))
    last = {int(at) // step: n for n, at in enumerate(times)}
    assert list(found.spark) == list(last.values())
    assert found.since == T0


async def test_the_spark_of_a_watch_that_is_asked_daily(database: Database) -> None:
    now = await fill(database, 40, DAY)
    found = await database.read(lambda c: moved(c, "w", spec().question, point(now, 39)))
    assert found.spark == tuple(range(16, 40))
    assert found.changes == {"1d": 1, "1w": 7}


async def test_watches_are_where_the_sdk_has_them(database: Database) -> None:
    changed = spec(interval="2h", alerts=[{"when": "> 5", "command": ["true"]}])
    await database.write(lambda c: state.put_spec(c, "watch", changed, T0))
    (text,) = await database.read(lambda c: state.specs(c, "watch"))
    assert msgspec.json.decode(text, type=Watch) == changed
    ((known, asked),) = await database.read(repository.watches)
    assert (known, known.every) == (changed, 7200)
    assert asked is None
    await database.write(lambda c: note(c, "w", point(T0, 1)))
    assert await database.write(lambda c: state.remove_spec(c, "watch", "w"))
    assert not await database.write(lambda c: state.remove_spec(c, "watch", "w"))
    assert not await database.read(lambda c: points.series(c, "w", 0, most=10))


async def test_a_watch_is_read_as_it_was_written(database: Database) -> None:
    made = Watch(
        name="z",
        filters=({"kinds": [1], "#t": ["nostr"]}, {"kinds": [7], "authors": [TARGET]}),
        relays=("wss://a.example.com", "B.example.com"),
        excluded=("wss://b.example.com",),
        trusted=("wss://a.example.com",),
        policy="off",
        interval="1000000.5s",
        live=False,
        keep=True,
        alerts=(AlertSpec(when="> 5", webhook="https://hook.example/x"),),
    )
    await database.write(lambda c: repository.add(c, made))
    assert [watch for watch, _ in await database.read(repository.watches)] == [spec(), made]
    _, text = await database.read(lambda c: state.specs(c, "watch"))
    assert msgspec.json.decode(text, type=Watch) == made


@pytest.mark.parametrize("name", ["a", "A.b-c_1", "9", "x" * 64])
async def test_a_name_for_the_agent_is_one_for_the_sdk(database: Database, name: str) -> None:
    assert msgspec.convert(name, Name) == name
    made = Watch(name=name, query="followers", target=TARGET)
    await database.write(lambda c: repository.add(c, made))


@pytest.mark.parametrize("name", ["x y", "-a", "a.é", "a+b", "_"])
async def test_no_name_for_the_agent_is_none_for_the_sdk(database: Database, name: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(name, Name)
    assert "1 to 64 letters" in in_words(str(refused.value))
    assert "regex" not in in_words(str(refused.value))
    made = Watch(name=name, query="followers", target=TARGET)
    with pytest.raises(InvalidInput, match="1 to 64 letters"):
        await database.write(lambda c: repository.add(c, made))


async def test_what_the_agent_cannot_read_is_told_and_stops_nothing(database: Database) -> None:
    made = Watch(name="two words", query="followers", target=TARGET)
    await database.write(lambda c: repository.put(c, made))  # which an earlier version's `add` took
    await database.write(
        lambda c: c.execute("INSERT INTO watch (name, definition) VALUES ('x', '{}')")
    )
    texts = await database.read(lambda c: state.specs(c, "watch"))
    refused = []
    for text in texts:
        try:
            msgspec.json.decode(text, type=Watch)
        except msgspec.ValidationError as error:
            refused.append(str(error))
    assert len(refused) == 2
    assert len(texts) == 3


async def test_watches_of_the_file_have_a_history_and_stay_the_files(database: Database) -> None:
    await database.write(lambda c: state.take_file(c, "watch", [spec("f")]))
    await database.write(lambda c: note(c, "f", point(T0, 1)))
    await database.write(lambda c: state.take_file(c, "watch", [spec("f", interval="1h")]))
    assert len(await database.read(lambda c: state.specs(c, "watch"))) == 1
    assert len(await database.read(lambda c: points.series(c, "f", 0, most=10))) == 1
    assert [w.name for w, _ in await database.read(repository.watches)] == ["f", "w"]


async def test_another_question_begins_another_history(database: Database) -> None:
    def work(conn: sqlite3.Connection) -> None:
        asked, other = spec().question, spec(query=None, target="", filters=[{"kinds": [7]}])
        note(conn, "w", point(T0, 521), query=asked)
        state.set_crossed(conn, "w", "> 1", T0, on=True)
        state.put_spec(conn, "watch", spec(interval="1h"), T0)
        assert values(conn) == [521]
        assert state.crossed(conn, "w") == {"> 1"}
        state.put_spec(conn, "watch", other, T0)
        assert values(conn) == []
        assert not state.crossed(conn, "w")
        note(conn, "w", point(T0 + 60, 522), query=asked)  # came too late
        note(conn, "w", point(T0 + 120, 3), query=other.question)
        assert values(conn) == [3]
        assert [w.name for w, _ in repository.watches(conn)] == ["w"]
        assert len(state.specs(conn, "watch")) == 1
        assert state.added(conn, "watch") == {"w"}
        assert points.thin_next(conn, T0 + 400 * DAY, "", 100) is None
        state.put_spec(conn, "watch", spec(), T0)
        assert values(conn) == [521]
        assert state.remove_spec(conn, "watch", "w")
        assert conn.execute("SELECT count(*) FROM watch, watch_point").fetchone() == (0,)

    def values(conn: sqlite3.Connection) -> list[int]:
        return [one.value for one in points.series(conn, "w", 0, most=10)]

    await database.write(work)


async def test_whom_a_watch_asks_trusts_and_leaves_out_is_known_to_both_programs(
    database: Database,
) -> None:
    one, other = "wss://one.example", "wss://other.example"

    def work(conn: sqlite3.Connection) -> None:
        state.put_spec(conn, "watch", spec(excluded=(one,), trusted=(other,)), T0)
        ((watch, _),) = repository.watches(conn)
        assert (watch.excluded, watch.trusted) == ((one,), (other,))
        assert repository.relays(conn, "w") is None
        note(conn, "w", point(T0, 1), relays=[one, other])
        note(conn, "w", point(T0 + 60, 1))
        assert repository.relays(conn, "w") == (one, other)
        repository.add(conn, msgspec.structs.replace(watch, name="added"))
        (text, _) = state.specs(conn, "watch")
        found = msgspec.json.decode(text, type=Watch)
        assert (found.name, found.excluded, found.trusted) == ("added", (one,), (other,))

    await database.write(work)


async def test_a_store_without_watches_is_brought_up_to_date_too() -> None:
    async with await Database.open(":memory:", migrations=[AGENT]) as opened:
        assert await opened.read(state.all_added) == StoredNames(frozenset(), frozenset())


async def test_lines_are_crossed_until_they_are_not(database: Database) -> None:
    await database.write(lambda c: state.set_crossed(c, "a", "> 1", T0, on=True))
    await database.write(lambda c: state.set_crossed(c, "a", "> 1", T0, on=True))
    assert await database.read(lambda c: state.crossed(c, "a")) == {"> 1"}
    await database.write(lambda c: state.set_crossed(c, "a", "> 1", T0, on=False))
    assert not await database.read(lambda c: state.crossed(c, "a"))


async def test_notes_by_prefix(database: Database) -> None:
    await database.write(lambda c: state.note(c, "sync:a%", {"x": 1}))
    await database.write(lambda c: state.note(c, "watch:a", 2))
    assert await database.read(lambda c: state.notes(c, "sync:")) == {"sync:a%": '{"x":1}'}


async def test_a_stored_interval_that_is_too_short_becomes_the_shortest(database: Database) -> None:
    sync = SyncSpec(name="s", filters=({},), interval="1ms")
    hasty = spec(interval="1ms")
    await database.write(lambda c: state.put_spec(c, "watch", hasty, T0))
    await database.write(lambda c: state.put_spec(c, "sync", sync, T0))
    log = Log(lambda: T0, out=io.StringIO())
    watches = Specs("watch", Watch, database, SystemClock())
    syncs = Specs("sync", SyncSpec, database, SystemClock())
    await watches.load([], log)
    await syncs.load([], log)
    assert watches.all()["w"][0].interval == syncs.all()["s"][0].interval == "10s"
    assert [(line.event, line.level) for line in log.lines] == [("interval", "warning")] * 2
