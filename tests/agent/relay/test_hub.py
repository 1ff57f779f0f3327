"""The live index finds exactly what a scan over all filters would find."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from agent.relay.hub import Hub
from nostr_client.codecs.event import Event
from nostr_client.codecs.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Sequence

HEX = ["0" * 63 + digit for digit in "123"]
VALUES = st.sampled_from(["a", "b", "c"])


def _optional_list(values: st.SearchStrategy[object]) -> st.SearchStrategy[list[object] | None]:
    return st.none() | st.lists(values, max_size=3)


FILTERS = st.builds(
    Filter,
    ids=_optional_list(st.sampled_from(HEX)),
    authors=_optional_list(st.sampled_from(HEX)),
    kinds=_optional_list(st.integers(0, 3)),
    tags=st.dictionaries(st.sampled_from(["#t", "#T", "#x"]), st.lists(VALUES, max_size=3)),
    since=st.none() | st.integers(0, 5),
    until=st.none() | st.integers(0, 5),
)
EVENTS = st.builds(
    Event,
    id=st.sampled_from(HEX),
    pubkey=st.sampled_from(HEX),
    created_at=st.integers(0, 5),
    kind=st.integers(0, 3),
    tags=st.lists(
        st.tuples(st.sampled_from(["t", "T", "x", "long"]), VALUES) | st.tuples(st.just("t")),
        max_size=4,
    ).map(tuple),
    content=st.just(""),
    sig=st.just("0" * 128),
)


def scan(subscriptions: dict[int, Sequence[Filter]], event: Event) -> set[int]:
    return {
        name
        for name, filters in subscriptions.items()
        if any(f.matches(event) and not f.matches_nothing for f in filters)
    }


@given(st.lists(st.lists(FILTERS, max_size=3), max_size=6), st.lists(EVENTS, max_size=4), st.data())
def test_finds_what_a_scan_finds(
    wanted: list[list[Filter]], events: list[Event], data: st.DataObject
) -> None:
    hub: Hub[int] = Hub()
    subscriptions: dict[int, Sequence[Filter]] = dict(enumerate(wanted))
    for name, filters in subscriptions.items():
        hub.add(name, filters)
    for name in data.draw(st.sets(st.sampled_from(range(len(wanted))))) if wanted else ():
        hub.remove(name)
        del subscriptions[name]
    assert len(hub) == len(subscriptions)
    for event in events:
        found = list(hub.match(event))
        assert len(found) == len(set(found))
        assert set(found) == scan(subscriptions, event)


@given(st.lists(st.lists(FILTERS, max_size=3), max_size=6))
def test_holds_nothing_once_all_have_left(wanted: list[list[Filter]]) -> None:
    hub: Hub[int] = Hub()
    for name, filters in enumerate(wanted):
        hub.add(name, filters)
        hub.add(name, filters)
    for name in range(len(wanted)):
        hub.remove(name)
        hub.remove(name)
    assert not (hub._index)
    assert not hub._keys
    assert not (hub._tag_names)


def test_looks_at_few_of_many_filters() -> None:
    hub: Hub[int] = Hub()
    looked = 0

    class Counting(Filter):
        __slots__ = ()

        def matches(self, event: Event) -> bool:
            nonlocal looked
            looked += 1
            return super().matches(event)

    for name in range(2_500):
        hub.add(name, [Counting(kinds=[7], tags={"#t": [f"v{name // 5}"]})])
    event = Event(HEX[0], HEX[1], 1, 7, (("t", "v3"),), "", "0" * 128)
    assert set(hub.match(event)) == {15, 16, 17, 18, 19}
    assert looked == 5
