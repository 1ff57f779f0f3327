"""The differences of many pairs of id lists: by arrays as by sets."""

from __future__ import annotations

import random

import pytest

from nostr_client.negentropy import matching
from nostr_client.negentropy.matching import Ids, differences


def ids(rand: random.Random, count: int) -> list[bytes]:
    """Ids that are random, or differ in their first or last byte only."""
    form = rand.randrange(6)
    if form == 0:
        return [bytes([at]) + bytes(31) for at in range(min(count, 200))]
    if form == 1:
        return [bytes(31) + bytes([at]) for at in range(min(count, 200))]
    return [rand.randbytes(32) for _ in range(count)]


def pair(rand: random.Random) -> tuple[bytes, bytes]:
    universe = ids(rand, rand.randrange(120))
    ours, theirs = ([key for key in universe if rand.random() < 0.8] for _ in range(2))
    for side in (ours, theirs):
        side += rand.choices(side, k=3) if side and rand.random() < 0.2 else []
        rand.shuffle(side)
    return b"".join(ours), b"".join(theirs)


def by_definition(pairs: list[tuple[bytes, bytes]]) -> tuple[list[bytes], list[bytes]]:
    have = [key for ours, theirs in pairs for key in set(Ids(ours)) - set(Ids(theirs))]
    need = [key for ours, theirs in pairs for key in set(Ids(theirs)) - set(Ids(ours))]
    return sorted(have), sorted(need)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("arrays", [True, False])
def test_differences(seed: int, arrays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rand = random.Random(seed)
    monkeypatch.setattr(matching, "_ARRAYS_FROM", 1 if arrays else 10**9)
    pairs = [pair(rand) for _ in range(rand.randrange(1, 40))]
    have, need = differences([ours for ours, _ in pairs], [theirs for _, theirs in pairs])
    wanted_have, wanted_need = by_definition(pairs)
    assert sorted(set(Ids(have))) == sorted(set(wanted_have))
    assert sorted(Ids(need)) == wanted_need


def test_an_id_in_different_pairs_is_on_neither_side_of_both() -> None:
    key, other = b"k" * 32, b"o" * 32
    assert differences([key, other], [other, key]) == (key + other, other + key)


def test_ids_crafted_to_collide_are_compared_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_MIX", (0, 0, 0, 0))  # every hash is 0
    rand = random.Random(1)
    ours = [rand.randbytes(32) for _ in range(400)]
    theirs = [*ours[10:], b"x" * 32]
    assert differences([b"".join(ours)], [b"".join(theirs)]) == (b"".join(ours[:10]), b"x" * 32)


def test_many_needed_ids_that_repeat_are_named_once() -> None:
    keys = [at.to_bytes(8, "big") * 4 for at in range(100_000)]
    have, need = differences([b""], [b"".join(keys + keys[:50_000])])
    assert (have, sorted(Ids(need))) == (b"", keys)


def test_packed_ids_are_a_sequence() -> None:
    packed = Ids(b"a" * 32 + b"b" * 32)
    assert list(packed) == [packed[0], packed[-1]] == packed[:] == [b"a" * 32, b"b" * 32]
    assert packed.hex() == ["61" * 32, "62" * 32]
    assert (len(packed), repr(packed), b"b" * 32 in packed) == (2, "Ids(2)", True)
    with pytest.raises(IndexError):
        packed[2]
