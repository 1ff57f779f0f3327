"""Any sequence of operations on two counters and an aggregate, against a model of plain sums."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from nostr_client.counters import audit
from nostr_client.counters.engine import read
from nostr_client.counters.engine.publish import publish
from nostr_client.counters.rules import parse_integer
from nostr_client.errors import CounterError
from tests.unit.counters.engine import Engine, counter, source

if TYPE_CHECKING:
    from nostr_client.counters.engine.session import CounterSession

LETTERS = st.sampled_from("aaab")
SOURCES = st.sampled_from(["es", "eu"])
# As digits: Python cannot show an int of 4,301 of them in a failing example.
NUMBERS = st.one_of(
    st.integers(-50, 50).map(str),
    st.integers(-(10**30), 10**30).map(str),
    st.sampled_from(["0", "9" * 4_300, "-" + "9" * 4_301]),
)
SHARES = {
    "es": source("ES", "es.*", "n.{{wildcard(1)}}"),
    "eu": source("EU", "eu.*", "n.{{wildcard(1)}}"),
    # The same stream once more, onto the same subjects by another name.
    "es again": source("ES", "es.a", "n.a"),
}


class Uncommitted(Exception):
    """Ends a transaction without a commit."""


class Counting(RuleBasedStateMachine):
    """ES and EU count; AGG sources them (as attached) and counts locally; TOP sources AGG."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine()
        self.attached = {"es", "eu"}
        self.value: dict[str, int] = {}
        self.local: dict[str, int] = {}
        self.map: dict[str, dict[str, int]] = {}
        self.gaps: set[tuple[str, str]] = set()
        self.seen: dict[tuple[str, int], tuple[int, Any]] = {}
        self.ids: dict[str, int] = {}
        self.engine.create(counter("ES", "es.*"))
        self.engine.create(counter("EU", "eu.*"))
        self.engine.create(self.aggregate())
        top = source("AGG", "n.*", "top.{{wildcard(1)}}")
        self.engine.create(counter("TOP", sources=(top,)))

    def teardown(self) -> None:
        self.engine.close()

    def aggregate(self) -> Any:
        return counter("AGG", "n.*", sources=tuple(SHARES[name] for name in sorted(self.attached)))

    def _bring(self) -> None:
        """What attached sources have becomes what the aggregate saw of them."""
        for subject, value in self.value.items():
            prefix, letter = subject.split(".")
            if prefix in self.attached or (subject == "es.a" and "es again" in self.attached):
                self.map.setdefault(f"n.{letter}", {})[subject] = value

    @rule(name=SOURCES, letter=LETTERS, n=NUMBERS)
    def add(self, name: str, letter: str, n: str) -> None:
        subject = f"{name}.{letter}"
        self.value[subject] = self.value.get(subject, 0) + parse_integer(n)
        stored = self.engine.add(subject, parse_integer(n))
        assert stored.val is not None
        self._bring()

    @rule(letter=LETTERS, n=NUMBERS)
    def add_locally(self, letter: str, n: str) -> None:
        self.local[f"n.{letter}"] = self.local.get(f"n.{letter}", 0) + parse_integer(n)
        self.engine.add(f"n.{letter}", parse_integer(n))

    @rule(name=SOURCES, letter=LETTERS, n=st.integers(-9, 9), id=st.sampled_from("xyz"))
    def add_with_id(self, name: str, letter: str, n: int, id: str) -> None:
        """One id counts once per stream, whatever it comes with."""
        subject, key = f"{name}.{letter}", f"{name} {id}"
        stored = self.engine.add(subject, n, ("Nats-Msg-Id", id))
        assert stored.duplicate == (key in self.ids)
        if not stored.duplicate:
            self.ids[key] = stored.seq
            self.value[subject] = self.value.get(subject, 0) + n
            self._bring()
        assert stored.seq == self.ids[key]

    @rule(
        headers=st.sampled_from(
            [
                (("Nats-Incr", "x"),),
                (("Nats-Incr", "1"), ("Nats-Rollup", "sub")),
                (("Nats-Incr", "1"), ("Nats-Counter-Sources", "{}")),
                (("Nats-Incr", "1"), ("Nats-Stream-Source", "ES 1 > > es.a")),
                (),
            ]
        )
    )
    def refused(self, headers: tuple[tuple[str, str], ...]) -> None:
        before = self.engine.everything()
        with pytest.raises(CounterError):
            self.engine.run(lambda s: publish(s, "es.a", headers, b""))
        assert self.engine.everything() == before

    @rule(letter=LETTERS)
    def uncommitted(self, letter: str) -> None:
        def work(session: CounterSession) -> None:
            publish(session, f"es.{letter}", (("Nats-Incr", "5"),), b"")
            session.finish()
            raise Uncommitted

        before = self.engine.everything()
        with contextlib.suppress(Uncommitted):
            self.engine.run(work)
        assert self.engine.everything() == before

    @rule(stream=st.sampled_from(["ES", "EU", "AGG", "TOP"]), pick=st.integers(0, 99))
    def lose_a_message_in_the_middle(self, stream: str, pick: int) -> None:
        newest = {message.subject: message.seq for message in self.engine.dump(stream)}
        middle = [m for m in self.engine.dump(stream) if newest[m.subject] != m.seq]
        if middle:
            lost = middle[pick % len(middle)]
            self.engine.delete(stream, lost.seq)
            self.gaps.add((stream, lost.subject))

    @rule(stream=st.sampled_from(["ES", "EU", "AGG", "TOP"]), keep=st.integers(1, 3))
    def trim(self, stream: str, keep: int) -> None:
        for message in self.engine.dump(stream):
            self.engine.purge(stream, message.subject, keep=keep)

    @rule(stream=st.sampled_from(["AGG", "TOP"]), seq=st.integers(0, 8))
    def read_again_from_before(self, stream: str, seq: int) -> None:
        self.engine.move_cursors_back(stream, seq)

    @rule(name=st.sampled_from(sorted(SHARES)))
    def attach_or_detach(self, name: str) -> None:
        self.attached ^= {name}
        self.engine.update(self.aggregate())
        self._bring()

    @precondition(lambda self: self.local or self.map)
    @rule(letter=LETTERS)
    def reset(self, letter: str) -> None:
        subject = f"n.{letter}"
        if subject not in self.local and subject not in self.map:
            return
        value = self.engine.value("AGG", subject)
        stored = self.engine.add(subject, -value)
        assert stored.val == "0"
        self.engine.purge("AGG", subject, seq=stored.seq)
        self.local[subject] = self.local.get(subject, 0) - value

    @invariant()
    def values_are_sums(self) -> None:
        for subject, value in self.value.items():
            assert self.engine.value(subject[:2].upper(), subject) == value
        for subject in {*self.local, *self.map}:
            expected = self.local.get(subject, 0) + sum(self.map.get(subject, {}).values())
            assert self.engine.value("AGG", subject) == expected
            assert self.engine.value("TOP", "top." + subject[2:]) == expected

    @invariant()
    def maps_hold_what_was_seen(self) -> None:
        for subject, entries in self.map.items():
            shown: dict[str, dict[str, int]] = {}
            for origin, value in entries.items():
                shown.setdefault(origin[:2].upper(), {})[origin] = value
            entry = read.entry(*read.newest(self.engine.conn, self.engine.id("AGG"), subject))
            assert entry.sources == shown
            assert entry.local == self.local.get(subject, 0)

    @invariant()
    def recounts_hold(self) -> None:
        for stream in ("ES", "EU", "AGG", "TOP"):
            for subject in {message.subject for message in self.engine.dump(stream)}:
                found = audit.recount(read.steps(self.engine.conn, self.engine.id(stream), subject))
                assert found.value == self.engine.value(stream, subject)
                if (stream, subject) not in self.gaps:
                    assert found.holds
                    assert found.base + found.total == found.value

    @invariant()
    def the_past_stays_what_it_was(self) -> None:
        """Whatever is removed, a kept message shows the value and the map of its time."""
        for stream in ("AGG", "TOP"):
            for message in self.engine.dump(stream):
                row, sources = read.newest(
                    self.engine.conn, self.engine.id(stream), message.subject, message.seq
                )
                shown = (read.entry(row, sources).value, msgspec.to_builtins(sources))
                assert self.seen.setdefault((stream, message.seq), shown) == shown
                assert row.seq == message.seq


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Counting,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, print_blob=True
        ),
    )


def test_any_sequence_of_operations() -> None:
    run(50, 25)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_any_sequence_of_operations_long() -> None:
    run(500, 40)
