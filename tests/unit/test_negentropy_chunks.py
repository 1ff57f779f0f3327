"""A directory of chunks that is edited item by item stays the set that it stands for."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nostr_client.errors import InvalidInput
from nostr_client.negentropy import chunks
from nostr_client.negentropy.chunks import (
    CHUNK_ITEMS,
    RECORD_SIZE,
    ChunkedStorage,
    Edit,
    chunks_of,
    edit,
    head_of,
    record,
    records,
)
from nostr_client.negentropy.reconcile import Initiator, Responder
from nostr_client.negentropy.storage import PlainStorage, seal

if TYPE_CHECKING:
    from collections.abc import Iterable

SMALL = 8


class Directory:
    """What a store does with it: chunks by their heads, in order."""

    def __init__(self, packed: Iterable[bytes] = ()) -> None:
        self.packed = list(packed)

    @property
    def heads(self) -> list[chunks.ChunkHeader]:
        return [head_of(chunk) for chunk in self.packed]

    def change(self, added: Iterable[bytes], removed: Iterable[bytes]) -> list[Edit]:
        edits = edit(self.heads, self.packed.__getitem__, added, removed)
        dropped = [at for one in edits for at in one.drop]
        assert len(dropped) == len(set(dropped))
        kept = [chunk for at, chunk in enumerate(self.packed) if at not in dropped]
        self.packed = sorted(kept + [chunk for one in edits for chunk in one.put])
        return edits

    def storage(self) -> ChunkedStorage:
        return ChunkedStorage(self.heads, self.packed.__getitem__)


def row(number: int) -> bytes:
    return record(number // 3, number.to_bytes(32, "big"))


CHANGES = st.lists(
    st.tuples(st.sets(st.integers(0, 120), max_size=40), st.sets(st.integers(0, 120), max_size=60)),
    max_size=12,
)


@settings(max_examples=60)
@given(CHANGES)
def test_edits_are_those_of_a_set(changes: list[tuple[set[int], set[int]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_ITEMS", SMALL)
        directory, model = Directory(), set[int]()
        for added, removed in changes:
            directory.change(map(row, added - removed), map(row, removed))
            model = (model - removed) | (added - removed)
            assert [records(chunk) for chunk in directory.packed] == in_order(directory, model)
            sizes = [head.count for head in directory.heads]
            assert all(1 <= size <= 2 * SMALL for size in sizes)
            same = PlainStorage((number // 3, number.to_bytes(32, "big")) for number in model)
            n = len(model)
            assert directory.storage().fingerprints([0], [n]) == same.fingerprints([0], [n])


def in_order(directory: Directory, model: set[int]) -> list[list[bytes]]:
    """The model's records, cut where the directory cuts them."""
    rows = [row(number) for number in sorted(model)]
    cut: list[list[bytes]] = []
    for head in directory.heads:
        cut.append(rows[: head.count])
        rows = rows[head.count :]
    assert not rows
    return cut


def test_what_is_there_or_gone_already_changes_nothing() -> None:
    directory = Directory([b"".join(map(row, range(10)))])
    assert directory.change([row(3)], [row(50)]) == []


def test_short_chunks_join_and_long_ones_part() -> None:
    directory = Directory()
    directory.change(map(row, range(10 * CHUNK_ITEMS)), [])
    assert [head.count for head in directory.heads] == [CHUNK_ITEMS] * 10
    keep = 10
    gone = [number for number in range(5 * CHUNK_ITEMS) if number % CHUNK_ITEMS >= keep]
    directory.change([], map(row, gone))
    assert [head.count for head in directory.heads] == [5 * keep + CHUNK_ITEMS] + [CHUNK_ITEMS] * 4


def test_one_item_rewrites_one_chunk() -> None:
    directory = Directory()
    directory.change(map(row, range(0, 20 * CHUNK_ITEMS, 2)), [])
    (one,) = directory.change([row(5 * CHUNK_ITEMS + 1)], [])
    assert (len(one.drop), len(one.put)) == (1, 1)
    assert len(one.put[0]) == (CHUNK_ITEMS + 1) * RECORD_SIZE


def test_columns_become_chunks() -> None:
    count = 3 * CHUNK_ITEMS + 5
    stamps = np.arange(count, dtype=np.uint64) * 7
    ids = np.random.default_rng(3).integers(0, 256, (count, 32)).astype(np.uint8)
    storage = Directory(chunks_of(stamps, ids)).storage()
    wanted = seal(list(zip(stamps.tolist(), map(bytes, ids), strict=True)))
    assert [storage.item(at) for at in (0, 1023, 1024, count - 1)] == [
        wanted.item(at) for at in (0, 1023, 1024, count - 1)
    ]
    assert storage.fingerprints([0, 5], [count, 2000]) == wanted.fingerprints([0, 5], [count, 2000])
    assert list(chunks_of([], b"")) == []


def test_a_session_loads_only_what_its_ranges_cut() -> None:
    rand = random.Random(8)
    items = [(at, rand.randbytes(32)) for at in range(300_000)]
    ours = Directory()
    ours.packed = [
        b"".join(record(*item) for item in items[at : at + CHUNK_ITEMS])
        for at in range(0, len(items), CHUNK_ITEMS)
    ]
    storage, fewer = ours.storage(), seal(items[:-100])
    client, server = Initiator(fewer, frame_limit=60_000), Responder(storage)
    need: set[bytes] = set()
    message: bytes | None = client.initiate()
    while message is not None:
        said = client.reconcile(server.reconcile(message))
        need.update(said.need)
        message = said.message
    assert need == {key for _, key in items[-100:]}
    assert storage.loaded < 60 < len(ours.packed)


@pytest.mark.parametrize(
    "packed",
    [b"", b"x" * 39, row(1) + b"x", row(2) + row(1), row(1) + row(1)],
    ids=["empty", "short", "cut", "descends", "twice"],
)
def test_a_damaged_chunk_is_refused(packed: bytes) -> None:
    with pytest.raises(InvalidInput):
        head_of(packed)


def test_a_chunk_that_is_not_what_its_head_says_is_refused() -> None:
    heads = [head_of(row(1) + row(2))]
    with pytest.raises(InvalidInput, match="chunk 0"):
        ChunkedStorage(heads, lambda at: row(1)).ids(0, 1)


@pytest.mark.parametrize("item", [(-1, bytes(32)), (2**64 - 1, bytes(32)), (1, bytes(31))])
def test_what_is_no_item_is_no_record(item: tuple[int, bytes]) -> None:
    with pytest.raises(InvalidInput):
        record(*item)
