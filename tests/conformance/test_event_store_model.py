"""Random saves, deletions, expirations and queries: the store against a naive model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nostr_client.codecs.filters import Filter
from nostr_client.store.base import SaveStatus
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW, make, pubkey
from tests.conformance.store_model import Model

if TYPE_CHECKING:
    from nostr_client.codecs.keys import VerifiedEvent

AUTHORS = range(3)
KEYS = [pubkey(n) for n in AUTHORS]
KINDS = [0, 1, 1, 3, 5, 5, 62, 1059, 10_002, 20_001, 30_023]
TIMES = range(100, 106)
D = ["", "a", "b:c"]
TARGETS = ["aa" * 32, "bb" * 32]

addresses = st.builds(
    lambda kind, author, d: f"{kind}:{pubkey(author)}:{d if kind == 30_023 else ''}",
    st.sampled_from([0, 3, 10_002, 30_023]), st.sampled_from(AUTHORS), st.sampled_from(D),
)  # fmt: skip
expirations = st.integers(NOW - 1, NOW + 3).map(str)
plain_tags = st.one_of(
    st.tuples(st.just("e"), st.sampled_from(TARGETS)),
    st.tuples(st.just("p"), st.sampled_from(KEYS)),
    st.tuples(st.just("d"), st.sampled_from(D)),
    st.tuples(st.just("a"), addresses),
    st.tuples(st.just("expiration"), expirations),
    st.tuples(st.just("relay"), st.sampled_from(["ALL_RELAYS", "wss://x.example"])),
)
filters = st.builds(
    lambda tags, **fields: Filter(tags=tags, **{k: v for k, v in fields.items() if v is not None}),
    st.dictionaries(
        st.sampled_from(["#e", "#p"]), st.lists(st.sampled_from(TARGETS + KEYS), max_size=3),
        max_size=2,
    ),
    authors=st.none() | st.lists(st.sampled_from(KEYS), max_size=3),
    kinds=st.none() | st.lists(st.sampled_from(KINDS), max_size=4),
    since=st.none() | st.sampled_from(TIMES),
    until=st.none() | st.sampled_from(TIMES),
    limit=st.none() | st.integers(0, 6),
)  # fmt: skip


class StoreMachine(RuleBasedStateMachine):
    """Every step is taken by the store and by the model; they may never differ."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model = Model()
        self.now = NOW
        self.made: list[VerifiedEvent] = []

    @initialize()
    def open(self) -> None:
        self.store = self.runner.run(SqliteStore.open(":memory:", clock=lambda: self.now))

    def event(self, data: st.DataObject) -> VerifiedEvent:
        if self.made and data.draw(st.integers(0, 4)) == 0:
            return data.draw(st.sampled_from(self.made))
        known = [("e", old.event.id) for old in self.made]
        tag = st.one_of(plain_tags, st.sampled_from(known)) if known else plain_tags
        made = make(
            data.draw(st.sampled_from(AUTHORS)),
            data.draw(st.sampled_from(KINDS)),
            at=data.draw(st.sampled_from(TIMES)),
            tags=tuple(data.draw(st.lists(tag, max_size=3))),
            content=data.draw(st.sampled_from("xy")),
        )
        self.made.append(made)
        return made

    @rule(data=st.data())
    def save_one(self, data: st.DataObject) -> None:
        event = self.event(data)
        (outcome,) = self.runner.run(self.store.save([event]))
        assert outcome.status is self.model.save(event.event, self.now)

    @rule(data=st.data(), size=st.integers(2, 6))
    def save_batch(self, data: st.DataObject, size: int) -> None:
        batch = [self.event(data) for _ in range(size)]
        outcomes = self.runner.run(self.store.save(batch))
        for event in batch:
            self.model.save(event.event, self.now)
        for outcome in outcomes:
            if outcome.status is SaveStatus.STORED:
                assert outcome.id in self.model.events

    @rule(wanted=st.lists(filters, min_size=1, max_size=3))
    def ask(self, wanted: list[Filter]) -> None:
        run, now = self.runner.run, self.now
        assert run(self.store.query(wanted)) == self.model.query(wanted, now)
        assert run(self.store.count(wanted)) == len(self.model.query(wanted, now, limit=False))
        assert run(self.store.distinct_authors(wanted)) == len(self.model.authors(wanted, now))

    @rule(wanted=filters)
    def ask_for_items(self, wanted: Filter) -> None:
        times, ids = self.runner.run(self.store.negentropy_items(wanted))
        expected = self.model.matching(wanted, self.now)
        assert [(int(t), i.tobytes().hex()) for t, i in zip(times, ids, strict=True)] == sorted(
            (event.created_at, event.id) for event in expected
        )

    @rule(pointed=st.sampled_from(TARGETS), kinds=st.none() | st.just([1]))
    def ask_for_registers(self, pointed: str, kinds: list[int] | None) -> None:
        wanted = Filter(kinds=kinds, tags={"#e": [pointed]})
        got = self.runner.run(self.store.registers(wanted))
        assert got == self.model.registers(wanted, self.now)

    @rule(wanted=filters)
    def delete(self, wanted: Filter) -> None:
        assert self.runner.run(self.store.delete([wanted])) == self.model.delete([wanted], self.now)

    @rule()
    def a_second_passes(self) -> None:
        self.now += 1

    @rule()
    def sweep(self) -> None:
        assert self.runner.run(self.store.sweep()) == self.model.sweep(self.now)

    @invariant()
    def the_same_events_are_there(self) -> None:
        if hasattr(self, "store"):
            seen = self.runner.run(self.store.query([Filter()]))
            assert seen == self.model.visible(self.now)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            report = self.runner.run(self.store.verify())
            self.runner.run(self.store.close())
            assert report.problems == ()
        self.runner.close()


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)


class LongMachine(StoreMachine):
    """The same, for longer."""


@pytest.mark.long
@pytest.mark.timeout(900)
class TestLongMachine(LongMachine.TestCase):
    settings = settings(max_examples=500, stateful_step_count=60, deadline=None)
