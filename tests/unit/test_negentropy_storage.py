"""The storages hold the same items, so every question has the same answer in each."""

from __future__ import annotations

import random
import tracemalloc
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.errors import InvalidInput
from nostr_client.negentropy.chunks import ChunkedStorage, head_of, record
from nostr_client.negentropy.columns import ArrayStorage
from nostr_client.negentropy.encoding import INFINITY, encode_varint
from nostr_client.negentropy.storage import (
    ARRAY_THRESHOLD,
    PlainStorage,
    seal,
    seal_columns,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from nostr_client.negentropy.storage import Storage

Item = tuple[int, bytes]

# Few different values, so that timestamps, words of ids and whole prefixes are often equal.
STAMPS = st.one_of(st.integers(1000, 1003), st.sampled_from([0, 2**31, 2**63, INFINITY - 1]))
WORDS = st.sampled_from([bytes(8), b"\0" * 7 + b"\1", b"\1" + b"\0" * 7, b"\xff" * 8])
IDS = st.one_of(
    st.tuples(WORDS, WORDS, WORDS, WORDS).map(b"".join), st.binary(min_size=32, max_size=32)
)
ITEMS = st.lists(st.tuples(STAMPS, IDS), max_size=60, unique=True)
BOUNDS = st.tuples(
    STAMPS | st.just(INFINITY), IDS.flatmap(lambda key: st.just(key[:3]) | st.just(key))
)


def array(items: list[Item]) -> ArrayStorage:
    return ArrayStorage([stamp for stamp, _ in items], b"".join(key for _, key in items))


def chunked(items: list[Item]) -> ChunkedStorage:
    """Chunks of three, of which two at a time are remembered."""
    rows = [record(stamp, key) for stamp, key in sorted(items)]
    packed = [b"".join(rows[at : at + 3]) for at in range(0, len(rows), 3)]
    return ChunkedStorage([head_of(chunk) for chunk in packed], packed.__getitem__, cached=2)


STORAGES: dict[str, Callable[[list[Item]], Storage]] = {
    "plain": PlainStorage,
    "array": array,
    "chunked": chunked,
}
each_storage = pytest.mark.parametrize("make", STORAGES.values(), ids=STORAGES.keys())


def print_of(items: list[Item]) -> bytes:
    """The fingerprint, by its definition."""
    total = sum(int.from_bytes(key, "little") for _, key in items) % 2**256
    raw = total.to_bytes(32, "little") + encode_varint(len(items))
    return sha256(raw).digest()[:16]


@each_storage
@given(items=ITEMS)
def test_items_are_in_order(make: Callable[[list[Item]], Storage], items: list[Item]) -> None:
    storage = make(items)
    assert len(storage) == len(items)
    assert [storage.item(at) for at in range(len(items))] == sorted(items)
    assert storage.ids(0, len(items)) == b"".join(key for _, key in sorted(items))


@each_storage
@given(items=ITEMS, bounds=st.lists(BOUNDS, max_size=20))
def test_a_lower_bound_is_the_first_item_not_below(
    make: Callable[[list[Item]], Storage], items: list[Item], bounds: list[Item]
) -> None:
    ordered = sorted(items)
    full = [(stamp, prefix.ljust(32, b"\0")) for stamp, prefix in bounds]
    wanted = [sum(item < bound for item in ordered) for bound in full]
    stamps, prefixes = [stamp for stamp, _ in bounds], [prefix for _, prefix in bounds]
    assert make(items).lower_bounds(stamps, prefixes) == wanted


@each_storage
@given(items=ITEMS, data=st.data())
def test_a_fingerprint_is_of_its_range(
    make: Callable[[list[Item]], Storage], items: list[Item], data: st.DataObject
) -> None:
    edge = st.integers(0, len(items))
    ranges = data.draw(st.lists(st.tuples(edge, edge).map(sorted), max_size=40))
    ordered = sorted(items)
    got = make(items).fingerprints([low for low, _ in ranges], [high for _, high in ranges])
    assert got == [print_of(ordered[low:high]) for low, high in ranges]


@each_storage
@given(items=ITEMS)
def test_a_separator_parts_neighbours_and_is_no_longer_than_needed(
    make: Callable[[list[Item]], Storage], items: list[Item]
) -> None:
    storage = make(items)
    stamps, prefixes = storage.separators(range(1, len(items)))
    for at, (stamp, prefix) in enumerate(zip(stamps, prefixes, strict=True), 1):
        before, after = storage.item(at - 1), storage.item(at)
        assert before < (stamp, prefix.ljust(32, b"\0")) <= after
        if prefix:
            assert stamp == before[0]
            assert prefix[:-1] == before[1][: len(prefix) - 1]


@each_storage
def test_no_items(make: Callable[[list[Item]], Storage]) -> None:
    storage = make([])
    assert len(storage) == 0
    assert storage.lower_bounds([5, INFINITY], [b"a", b""]) == [0, 0]
    assert storage.fingerprints([0], [0]) == [print_of([])]
    assert storage.fingerprints([], []) == []
    assert storage.separators([]) == ([], [])
    assert storage.ids(0, 0) == b""


@pytest.mark.parametrize("make", [PlainStorage, array])
def test_an_item_twice_is_refused(make: Callable[[list[Item]], Storage]) -> None:
    with pytest.raises(InvalidInput, match="twice"):
        make([(5, b"a" * 32), (4, b"b" * 32), (5, b"a" * 32)])


@each_storage
@pytest.mark.parametrize("item", [(INFINITY, bytes(32)), (1, bytes(31)), (1, bytes(33))])
def test_what_is_no_item_is_refused(make: Callable[[list[Item]], Storage], item: Item) -> None:
    with pytest.raises(InvalidInput):
        make([item])


@pytest.mark.parametrize("stamps", [1, 20, 2**20, 2**40, 2**62])
@pytest.mark.parametrize("words", [1, 3, 2**64])
def test_many_items_are_sorted_whatever_is_equal_in_them(stamps: int, words: int) -> None:
    rand = random.Random(f"{stamps} {words}")
    items = {
        (
            rand.randrange(stamps),
            b"".join(rand.randrange(words).to_bytes(8, "big") for _ in range(3))
            + rand.randbytes(8),
        )
        for _ in range(3000)
    }
    storage = array(list(items))
    assert [storage.item(at) for at in range(len(items))] == sorted(items)


def columns(count: int, *, ordered: bool) -> tuple[np.ndarray, np.ndarray]:
    rand = np.random.default_rng(count)
    stamps = rand.integers(0, count, count).astype(np.uint64)
    ids = rand.integers(0, 256, (count, 32)).astype(np.uint8)
    if ordered:
        stamps = np.arange(count, dtype=np.uint64)
    return stamps, ids


def test_sixty_bytes_an_item_are_enough() -> None:
    stamps, ids = columns(200_000, ordered=False)
    tracemalloc.start()
    try:
        storage = ArrayStorage(stamps, ids)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held <= 60 * len(storage)
    assert storage.nbytes <= 48 * len(storage) + 64


def test_ordered_columns_are_not_copied() -> None:
    stamps, ids = columns(50_000, ordered=True)
    tracemalloc.start()
    try:
        storage = ArrayStorage(stamps, ids)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held <= 9 * len(storage)
    assert storage.ids(0, 2) == ids[:2].tobytes()


@pytest.mark.parametrize("count", [0, 7, ARRAY_THRESHOLD])
def test_the_storage_follows_from_the_number(count: int) -> None:
    stamps, ids = columns(count, ordered=False)
    items = [(int(stamp), key.tobytes()) for stamp, key in zip(stamps, ids, strict=True)]
    wanted = ArrayStorage if count >= ARRAY_THRESHOLD else PlainStorage
    for storage in (
        seal(items),
        seal_columns(stamps, ids),
        seal_columns(stamps, ids.data),
        seal_columns(stamps, ids.tobytes()),
        seal_columns(stamps.tolist(), ids.view(np.uint64)),
    ):
        assert isinstance(storage, wanted)
        assert [storage.item(at) for at in range(count)] == sorted(items)


@pytest.mark.parametrize("count", [3, ARRAY_THRESHOLD])
def test_columns_of_different_lengths_are_refused(count: int) -> None:
    stamps, ids = columns(count, ordered=False)
    with pytest.raises(InvalidInput):
        seal_columns(stamps, ids[1:])
    with pytest.raises(InvalidInput):
        seal_columns(stamps, ids.tobytes()[1:])
