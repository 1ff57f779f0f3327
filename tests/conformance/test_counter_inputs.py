"""What no backend takes: one clear error for each mistake, and nothing done or sent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.counters.base import CounterStore, Outgoing
from nostr_client.counters.config import SourceConfig, StreamConfig, TransformConfig
from nostr_client.errors import InvalidInput
from tests.conformance.counter_stores import config

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nostr_client.counters.base import Counters

LONE = "c.\ud800"
"""A lone surrogate: text that no UTF-8 can be."""

NO_SUBJECTS: list[Any] = [
    LONE,
    "",
    "c..a",
    ".c",
    "c.",
    "c. a",
    "c.*",
    "c.>",
    "c.\0",
    None,
    5,
    b"c.a",
]
NO_PATTERNS: list[Any] = [LONE, "c..a", ">.c", "c.\n", None, 5]
NO_NUMBERS: list[Any] = [1.5, 2.0, "2", None, True, b"1", [1], float("nan")]
NO_SEQUENCES: list[Any] = [-1, 2**63, 2**64, 2**70, 10**30, "1", 1.0, True]
NO_IDS: list[Any] = ["", " ", "x ", " x", "\ud800", "a\nb", "a\0b", 5]
NO_NAMES: list[Any] = ["\ud800", "", "a b", "a.b", "*", ">", "a/b", "n" * 256, None, 5]


async def refuse(call: Callable[..., Awaitable[object]], values: list[Any], **more: Any) -> None:
    for value in values:
        with pytest.raises(InvalidInput):
            await call(value, **more)


async def test_what_is_no_subject(store: CounterStore, counters: Counters) -> None:
    await refuse(counters.load, NO_SUBJECTS)
    await refuse(counters.get, NO_SUBJECTS)
    await refuse(counters.recount, NO_SUBJECTS)
    await refuse(counters.reset, NO_SUBJECTS)
    await refuse(lambda s: anext(counters.history(s)), NO_SUBJECTS)
    await refuse(lambda s: counters.add(s, 1), NO_SUBJECTS)
    await refuse(lambda s: counters.add_many([("c.a", 1), (s, 1)]), NO_SUBJECTS)
    await refuse(lambda s: store.publish_message(Outgoing(s)), NO_SUBJECTS)
    assert (await store.stream_info("C")).state.last_seq == 0


async def test_what_is_no_pattern(store: CounterStore, counters: Counters) -> None:
    await refuse(lambda p: anext(counters.load_many(p)), NO_PATTERNS)
    await refuse(lambda p: anext(counters.get_many("c.a", p)), NO_PATTERNS)
    await refuse(lambda p: anext(counters.watch(p)), NO_PATTERNS)
    await refuse(counters.delete, NO_PATTERNS)
    await refuse(store.subscribe, NO_PATTERNS)
    await refuse(lambda p: store.last_message("C", p), NO_PATTERNS)
    await refuse(lambda p: store.last_messages("C", [p]), NO_PATTERNS)
    await refuse(lambda p: store.purge("C", filter=p), [p for p in NO_PATTERNS if p])


async def test_what_is_no_increment(store: CounterStore, counters: Counters) -> None:
    await refuse(lambda n: counters.add("c.a", n), NO_NUMBERS)
    await refuse(lambda n: counters.add_many([("c.a", 1), ("c.b", n)]), NO_NUMBERS)
    await refuse(lambda i: counters.add("c.a", 1, msg_id=i), NO_IDS)
    for headers in ({"X": "\ud800"}, {"X": 5}, {"X Y": "a"}, {"": "a"}, {"\ud800": "a"}):
        with pytest.raises(InvalidInput):
            await counters.publish("c.a", 1, headers=headers)
    assert (await store.stream_info("C")).state.last_seq == 0


async def test_what_is_no_sequence(store: CounterStore, counters: Counters) -> None:
    await counters.add("c.a", 1)
    await refuse(lambda n: counters.get("c.a", at_seq=n), NO_SEQUENCES)
    await refuse(lambda n: anext(counters.get_many(at_seq=n)), NO_SEQUENCES)
    await refuse(lambda n: anext(counters.history("c.a", after_seq=n)), NO_SEQUENCES)
    await refuse(lambda n: anext(counters.watch(after_seq=n)), NO_SEQUENCES)
    await refuse(lambda n: store.message("C", n), NO_SEQUENCES)
    await refuse(lambda n: store.delete_message("C", n), NO_SEQUENCES)
    await refuse(lambda n: anext(store.messages("C", after_seq=n)), NO_SEQUENCES)
    await refuse(lambda n: store.last_messages("C", [">"], up_to_seq=n), NO_SEQUENCES)
    await refuse(lambda n: store.purge("C", seq=n), NO_SEQUENCES)
    await refuse(lambda n: store.purge("C", keep=n), NO_SEQUENCES)
    assert await counters.load("c.a") == 1


async def test_what_is_no_stream(store: CounterStore) -> None:
    await refuse(store.counters, NO_NAMES)
    await refuse(store.stream_info, NO_NAMES)
    await refuse(store.delete_stream, NO_NAMES)
    await refuse(store.purge, NO_NAMES)
    await refuse(store.message, NO_NAMES, seq=1)
    await refuse(store.delete_message, NO_NAMES, seq=1)
    await refuse(lambda name: store.last_messages(name, [">"]), NO_NAMES)
    await refuse(lambda name: store.create_stream(StreamConfig(name=name)), NO_NAMES)
    await refuse(lambda name: store.update_stream(StreamConfig(name=name)), NO_NAMES)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_msgs_per_subject": 10**20},
        {"max_msgs": 2**63},
        {"max_age": 10**30},
        {"duplicate_window": 2**64},
        {"first_seq": 2**63},
        {"max_bytes": -(10**20)},
        {"description": "\ud800"},
        {"subjects": ("c.\udfff",)},
        {"metadata": {"a": "\ud800"}},
        {"metadata": {"\ud800": "a"}},
        {"republish": TransformConfig("c.>", "r.\ud800.>")},
        {"sources": (SourceConfig("S", filter_subject="\ud800"),)},
    ],
    ids=str,
)
async def test_what_is_no_configuration(store: CounterStore, wrong: dict[str, Any]) -> None:
    bad = StreamConfig(**{"name": "C", "subjects": ("c.>",), **wrong})
    with pytest.raises(InvalidInput):
        await store.create_stream(bad)
    assert await store.streams() == []
    await store.create_stream(config("C", "c.>"))
    with pytest.raises(InvalidInput):
        await store.update_stream(bad)
    assert (await store.stream_info("C")).config.subjects == ("c.>",)


async def test_one_mistake_leaves_its_neighbours_alone(counters: Counters) -> None:
    """Publishes that wait beside it are committed together on the embedded backend."""
    good = [counters.add("c.a", 1) for _ in range(40)]
    half: Any = 1.5
    bad: list[Awaitable[object]] = [counters.add(LONE, 1), counters.add("c.a", half)]
    found = await asyncio.gather(*good[:20], *bad, *good[20:], return_exceptions=True)
    assert [type(found[20]), type(found[21])] == [InvalidInput, InvalidInput]
    assert sorted(n for n in found if isinstance(n, int)) == list(range(1, 41))
