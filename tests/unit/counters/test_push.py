"""Push: the rules, and rounds against a store that loses, delays and repeats what is sent to it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nostr_client.counters.base import Ack, NoStream
from nostr_client.counters.config import SourceConfig, StreamConfig
from nostr_client.counters.push import Pusher, PushOptions, aggregate_stream, own_stream
from nostr_client.counters.push.report import full_note
from nostr_client.counters.push.rules import (
    LONGEST_ID,
    NOTHING,
    Even,
    Flight,
    PushRecord,
    RemoteValue,
    Send,
    Stop,
    decide,
    message_id,
)
from nostr_client.counters.sqlite import SqliteCounters, SqliteCounterStore
from nostr_client.errors import CounterError, DeadlineExceeded, InvalidInput, NetworkError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from nostr_client.counters.push.report import PushReport

OPTIONS = PushOptions(agent="es", into="AGENTS", total="TOTAL")
DELAY_NS = 3_000_000_000


class Clock:
    """Nanoseconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000_000

    def __call__(self) -> int:
        self.now += 1_000
        return self.now


class Faults:
    """What happens to each publish: by a seeded draw, or as a test sets it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rate = 0.6
        self.script: list[str] = []

    def next(self) -> str:
        if self.script:
            return self.script.pop(0)
        if self.random.random() >= self.rate:
            return "ok"
        return self.random.choice(["lost request", "lost ack", "late", "late and lost ack", "down"])


class FaultyCounters(SqliteCounters):
    """A server's counters behind a network that loses requests and acks, and delivers late."""

    def __init__(self, store: FaultyStore, name: str) -> None:
        super().__init__(store, name)
        self._faults = store

    async def publish(
        self,
        subject: str,
        n: int,
        *,
        headers: Mapping[str, str] | None = None,
        msg_id: str | None = None,
    ) -> Ack:
        async def arrive() -> Ack:
            return await super(FaultyCounters, self).publish(subject, n, msg_id=msg_id)

        return await self._faults.deliver(arrive)


class FaultyStore(SqliteCounterStore):
    """The server: its clock and what is under way are the test's."""

    faults: Faults
    time: Clock
    late: list[tuple[int, Any]]
    counted: int

    @classmethod
    async def make(cls, seed: int) -> FaultyStore:
        time = Clock()
        store = await cls.open(":memory:", clock=time)
        store.faults, store.time, store.late, store.counted = Faults(seed), time, [], 0
        await store.create_stream(own_stream("AGENTS"))
        await store.create_stream(aggregate_stream("TOTAL", "AGENTS"))
        return store

    async def counters(self, stream: str) -> SqliteCounters:
        await super().counters(stream)
        return FaultyCounters(self, stream)

    async def deliver(self, arrive: Callable[[], Any]) -> Ack:
        fault = self.faults.next()
        if fault == "down":
            raise NetworkError("connection lost")
        if fault.startswith("late"):
            self.late.append((self.time.now + DELAY_NS, arrive))
        if fault in ("late", "lost request"):
            raise DeadlineExceeded("no answer")
        ack: Ack = await arrive()
        if "lost ack" in fault:
            raise DeadlineExceeded("no answer")
        return ack

    async def pass_time(self, ns: int) -> None:
        """Let what is under way arrive."""
        self.time.now += ns
        due = [arrive for at, arrive in self.late if at <= self.time.now]
        self.late = [item for item in self.late if item[0] > self.time.now]
        for arrive in due:
            await arrive()


@pytest.fixture
async def server() -> AsyncIterator[FaultyStore]:
    store = await FaultyStore.make(1)
    store.faults.rate = 0
    async with store:
        yield store


@pytest.fixture
async def local() -> AsyncIterator[SqliteCounterStore]:
    async with await SqliteCounterStore.open(":memory:") as store:
        await store.create_stream(app())
        yield store


def app() -> StreamConfig:
    return StreamConfig(name="app", subjects=("plays.*",), allow_msg_counter=True)


async def add(store: SqliteCounterStore, subject: str, n: int) -> None:
    await (await store.counters("app")).add(subject, n)


async def total(server: SqliteCounterStore, name: str = "TOTAL") -> dict[str, int]:
    counters = await SqliteCounterStore.counters(server, name)
    return {subject: value async for subject, value in counters.load_many()}


def pusher(local: SqliteCounterStore, agent: str = "es", **more: Any) -> Pusher:
    return Pusher(local, "app", "hub", replace(OPTIONS, agent=agent, **more))


async def test_a_round_brings_everything_there(
    local: SqliteCounterStore, server: FaultyStore
) -> None:
    push = pusher(local)
    assert (await push.push(server)).settled
    await add(local, "plays.a", 5)
    await add(local, "plays.b", -3)
    report = await push.push(server)
    assert (report.subjects, report.even, report.sent) == (2, 2, 2)
    assert (report.last_subject, report.last_value) == ("count.es.plays.b", -3)
    assert await total(server) == {"total.plays.a": 5, "total.plays.b": -3}
    assert (await push.push(server)).sent == 0
    assert (await server.stream_info("AGENTS")).state.messages == 2


async def test_agents_add_up(server: FaultyStore) -> None:
    for agent, n in (("es", 5), ("fr", 7), ("pt", -1)):
        async with await SqliteCounterStore.open(":memory:") as local:
            await local.create_stream(app())
            await add(local, "plays.a", n)
            await pusher(local, agent).push(server)
    assert await total(server) == {"total.plays.a": 11}


async def exact(seed: int) -> tuple[int, int]:
    """One run: adds and rounds under faults, then rest; what is there must be what is here."""
    chance = random.Random(seed)
    server = await FaultyStore.make(seed)
    stores = {name: await SqliteCounterStore.open(":memory:") for name in ("es", "fr")}
    wanted: dict[str, int] = {}
    try:
        for store in stores.values():
            await store.create_stream(app())
        for _ in range(chance.randrange(5, 25)):
            name = chance.choice(list(stores))
            if chance.random() < 0.6:
                subject, n = f"plays.{chance.choice('ab')}", chance.choice([1, -1, 5, 10**20])
                await add(stores[name], subject, n)
                wanted[f"total.{subject}"] = wanted.get(f"total.{subject}", 0) + n
            await pusher(stores[name], name).push(server)
            await server.pass_time(chance.choice([0, DELAY_NS // 2, DELAY_NS]))
        await rest(server, stores)
        await server.pass_time(2 * DELAY_NS)
        await rest(server, stores)
        assert await total(server) == wanted
        return (await server.stream_info("AGENTS")).state.messages, len(wanted)
    finally:
        await server.close()
        for store in stores.values():
            await store.close()


async def rest(server: FaultyStore, stores: Mapping[str, SqliteCounterStore]) -> None:
    server.faults.rate = 0
    for name, store in stores.items():
        report: PushReport = await pusher(store, name).push(server)
        assert report.settled, report
        assert not report.notes, report
        assert not report.stopped, report


@pytest.mark.parametrize("seed", range(10))
async def test_exact_under_lost_requests_lost_acks_and_late_copies(seed: int) -> None:
    await exact(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 110))
async def test_exact_under_faults_long(seed: int) -> None:
    await exact(seed)


@pytest.mark.parametrize("fault", ["lost request", "lost ack", "late", "late and lost ack", "down"])
async def test_no_fault_is_ever_counted_twice_even_for_a_moment(
    local: SqliteCounterStore, server: FaultyStore, fault: str
) -> None:
    push = pusher(local, attempts=1)
    await add(local, "plays.a", 5)
    server.faults.script = [fault]
    report = await push.push(server)
    assert [subject for subject, _ in report.doubtful] == ["count.es.plays.a"]
    assert not report.settled
    await add(local, "plays.a", 2)
    for _ in range(3):
        report = await push.push(server)
    assert report.settled
    await server.pass_time(2 * DELAY_NS)
    assert await total(server) == {"total.plays.a": 7}
    history = (await SqliteCounterStore.counters(server, "AGENTS")).history("count.es.plays.a")
    assert [entry.incr async for entry in history] == [5, 2]


@pytest.mark.parametrize("status", [400, 503])
async def test_an_error_while_in_doubt_forgets_nothing(
    local: SqliteCounterStore, server: FaultyStore, status: int
) -> None:
    """Without the id of the first copy, the second would count beside it."""
    push = pusher(local, attempts=1)
    await add(local, "plays.a", 5)
    server.faults.script = ["late"]
    await push.push(server)
    await add(local, "plays.a", 2)
    for broken in ("last_message", "deliver"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server, broken, refusing(status))
            report = await push.push(server)
            assert not report.settled
            assert bool(report.refused) == (status == 400)
            assert bool(report.doubtful) == (status == 503)
    await push.push(server)
    await server.pass_time(2 * DELAY_NS)
    assert (await push.push(server)).settled
    assert await total(server) == {"total.plays.a": 7}
    history = (await SqliteCounterStore.counters(server, "AGENTS")).history("count.es.plays.a")
    assert [entry.incr async for entry in history] == [5, 2]


def refusing(status: int) -> Callable[..., Any]:
    async def refuse(*_: object) -> None:
        raise CounterError("no leader", code=10008, status=status)

    return refuse


async def test_a_value_that_comes_back_is_pushed_again(
    local: SqliteCounterStore, server: FaultyStore
) -> None:
    """5, 6, 5, 6 within the duplicate window: the id of the second 5->6 is another one."""
    push = pusher(local)
    for n in (5, 1, -1, 1):
        await add(local, "plays.a", n)
        assert (await push.push(server)).settled
    assert await total(server) == {"total.plays.a": 6}


async def test_a_late_copy_after_the_window_is_taken_back(
    local: SqliteCounterStore, server: FaultyStore
) -> None:
    short = replace(own_stream("AGENTS"), duplicate_window=10**9)
    await server.update_stream(short)
    push = pusher(local, attempts=1)
    await add(local, "plays.a", 5)
    server.faults.script = ["late"]
    await push.push(server)
    assert (await push.push(server)).settled
    await server.pass_time(2 * DELAY_NS)
    assert await total(server) == {"total.plays.a": 10}
    report = await push.push(server)
    assert report.settled
    assert not report.notes
    assert await total(server) == {"total.plays.a": 5}


async def test_a_crash_between_remembering_and_sending_changes_nothing(
    tmp_path: Path, server: FaultyStore
) -> None:
    path = tmp_path / "counters.db"
    for fault in ("down", "lost ack", "ok"):
        async with await SqliteCounterStore.open(path) as local:
            if fault == "down":
                await local.create_stream(app())
                await add(local, "plays.a", 5)
            server.faults.script = [fault]
            await pusher(local, attempts=1).push(server)
    assert await total(server) == {"total.plays.a": 5}


async def test_a_restored_store_stops_where_it_would_take_away(
    local: SqliteCounterStore, server: FaultyStore
) -> None:
    """An old backup, a new machine, or another agent of the same name: somebody has to look."""
    push = pusher(local)
    await add(local, "plays.a", 900)
    await push.push(server)
    bound = await SqliteCounterStore.counters(server, "AGENTS")
    await bound.add("count.es.plays.a", 100)
    report = await push.push(server)
    assert [(s.there, s.here) for s in report.stopped] == [(1_000, 900)]
    assert not report.settled
    assert await total(server) == {"total.plays.a": 1_000}
    assert (await push.push(server, confirmed=True)).settled
    assert await total(server) == {"total.plays.a": 900}
    assert (await push.push(server)).settled


async def test_a_stream_made_anew_is_another_origin(
    local: SqliteCounterStore, server: FaultyStore
) -> None:
    push = pusher(local)
    await add(local, "plays.a", 9)
    await push.push(server)
    await local.delete_stream("app")
    await local.create_stream(app())
    await add(local, "plays.a", 4)
    assert [(s.there, s.here) for s in (await push.push(server)).stopped] == [(9, 4)]
    await add(local, "plays.a", 8)
    report = await push.push(server)
    assert report.settled
    assert report.notes == ("count.es.plays.a was changed there by somebody else",)
    assert await total(server) == {"total.plays.a": 12}


async def test_what_the_server_refuses_is_told(
    local: SqliteCounterStore, server: FaultyStore
) -> None:
    push = pusher(local)
    await add(local, "plays.a", 10**65_480)
    await add(local, "plays.b", 1)
    report = await push.push(server)
    assert [subject for subject, _ in report.refused] == ["count.es.plays.a"]
    assert "header size" in report.refused[0][1]
    assert await total(server) == {"total.plays.b": 1}
    with pytest.raises(NoStream):
        await pusher(local, into="NONE").push(server)
    await server.create_stream(StreamConfig(name="PLAIN", subjects=("p",)))
    with pytest.raises(CounterError):
        await pusher(local, into="PLAIN").push(server)


async def test_limits_are_reported(local: SqliteCounterStore, server: FaultyStore) -> None:
    for letter in "abc":
        await add(local, f"plays.{letter}", 1)
    report = await pusher(local, most_subjects=2).push(server)
    assert (report.subjects, report.left_out) == (2, 1)
    assert "too many" in report.notes[0]
    missing = await pusher(local, total="GONE").push(server)
    assert "no stream for GONE" in missing.notes[0]


async def test_a_source_map_that_grows_full_is_told(
    local: SqliteCounterStore, server: FaultyStore
) -> None:
    agents = await SqliteCounterStore.counters(server, "AGENTS")
    items = [(f"count.{'long' * 60}{n:05}.plays.a", 1) for n in range(220)]
    assert not [a for a in await agents.add_many(items) if isinstance(a, CounterError)]
    await add(local, "plays.a", 1)
    (note,) = (await pusher(local).push(server)).notes
    assert "221 entries" in note
    assert "tiers" in note
    entry = await (await SqliteCounterStore.counters(server, "TOTAL")).get("total.plays.a")
    assert full_note(entry) == note
    few = replace(entry, headers=entry.headers[:1])
    assert full_note(few) is None


@pytest.mark.parametrize(
    "wrong", [{"agent": ""}, {"agent": "a.b"}, {"agent": "*"}, {"prefix": "a..b"}, {"at_once": 0}]
)
def test_what_is_no_option(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        PushOptions(**{"agent": "es", "into": "AGENTS", **wrong})


def test_the_streams_that_are_needed_fit_together() -> None:
    own, all_ = own_stream("AGENTS"), aggregate_stream("TOTAL", "AGENTS")
    assert own.subjects == ("count.*.>",)
    (source,) = all_.sources
    assert isinstance(source, SourceConfig)
    assert source.target(OPTIONS.target("plays.es.a")) == "total.plays.es.a"


NUMBERS = st.integers(-(10**30), 10**30) | st.integers(-3, 3)
KNOWN = st.builds(
    PushRecord,
    acked=st.none() | NUMBERS,
    flight=st.none() | st.builds(Flight, NUMBERS, st.integers(0, 3), NUMBERS, st.just("id")),
    late=st.lists(NUMBERS, max_size=3).map(tuple),
)


@given(KNOWN, NUMBERS, st.builds(RemoteValue, NUMBERS, st.integers(1, 3)) | st.just(NOTHING))
def test_a_decision_follows_from_what_is_known(
    known: PushRecord, local: int, found: RemoteValue
) -> None:
    step = decide("s:e:n", known, local, found, confirmed=False)
    flight = known.flight
    if flight is not None and (flight.have, flight.seq) == (found.value, found.seq):
        assert step == Send(flight)
    elif isinstance(step, Even):
        assert found.value == local
    elif isinstance(step, Stop):
        assert local < found.value != known.acked
        again = decide("s:e:n", known, local, found, confirmed=True)
        assert isinstance(again, Send)
    else:
        assert (step.flight.have, step.flight.want) == (found.value, local)
        assert step.flight.seq == found.seq
        assert f"{found.value}->{local}@" in step.flight.msg_id


def test_long_ids_are_hashes_and_differ() -> None:
    ids = {message_id("s:e:n", RemoteValue(10**1_000, 5), 10**1_000 + n) for n in range(3)}
    assert len(ids) == 3
    assert all(len(one) <= LONGEST_ID for one in ids)
