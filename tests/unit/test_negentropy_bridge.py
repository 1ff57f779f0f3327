"""Two responders compared by somebody between them: exactly what differs, in few bytes."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

import pytest

from nostr_client.errors import NegentropyError
from nostr_client.negentropy.bridge import FAR, Bridge
from nostr_client.negentropy.encoding import encode_varint
from nostr_client.negentropy.reconcile import Responder
from nostr_client.negentropy.storage import seal
from tests.negentropy_sets import Item, two_sets
from tests.unit.test_negentropy_sessions import DefectiveResponder, Evasive, Halves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.unit.test_negentropy_sessions import Answers

UNLIKE = b"\x5a" * 16


class Compared:
    """A whole session; `limits` are the frame limits of us and of both sides."""

    def __init__(
        self,
        sides: Sequence[Sequence[Item]],
        limits: tuple[int, int, int] = (0, 0, 0),
        until: int | None = None,
        answers: Sequence[Answers] = (),
    ) -> None:
        answers = answers or [
            Responder(seal(list(side)), frame_limit=limit)
            for side, limit in zip(sides, limits[1:], strict=True)
        ]
        bridge = Bridge(UNLIKE, until=until)
        self.only: tuple[list[bytes], list[bytes]] = ([], [])
        self.rounds = self.bytes = 0
        while not bridge.done:
            for side in (0, 1):
                message = bridge.ask(side, limits[0])
                if message is None:
                    continue
                assert not limits[0] or len(message) <= limits[0]
                answer = answers[side].reconcile(message)
                self.bytes += len(message) + len(answer)
                for found, ids in zip(self.only, bridge.hear(side, answer), strict=True):
                    found += ids
            self.rounds += 1
            assert self.rounds < 300

    def exact(self, sides: Sequence[Sequence[Item]]) -> None:
        first, second = ({key for _, key in side} for side in sides)
        assert sorted(self.only[0]) == sorted(first - second)
        assert sorted(self.only[1]) == sorted(second - first)


@pytest.mark.parametrize("count", [0, 1, 40, 700, 3_000])
@pytest.mark.parametrize("limit", [0, 4096])
def test_random_sets_are_told_apart_exactly(count: int, limit: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    sys.stdout.write(f"seed {seed}\n")
    rand = random.Random(seed)
    for _ in range(6):
        sides = two_sets(rand, count)
        limits = (4096, rand.choice([0, limit]), rand.choice([0, limit]))
        Compared(sides, limits).exact(sides)


@pytest.mark.parametrize("seed", range(20))
def test_defective_sides_lose_nothing_by_us(seed: int) -> None:
    rand = random.Random(seed)
    sides = two_sets(rand, rand.randrange(200, 2_500))
    answers = [DefectiveResponder(seal(side), frame_limit=4096) for side in sides]
    Compared(sides, answers=answers).exact(sides)


@pytest.mark.parametrize("most", [1, 2, 50])
def test_sides_of_another_strategy_are_understood(most: int) -> None:
    rand = random.Random(most)
    for _ in range(5):
        sides = two_sets(rand, 800)
        answers = [Halves(seal(sides[0]), most), Evasive(seal(sides[1]), 5)]
        Compared(sides, (4096, 0, 0), answers=answers).exact(sides)


@pytest.mark.parametrize("empty", [0, 1])
def test_one_side_empty(empty: int) -> None:
    items = two_sets(random.Random(5), 2_000)[0]
    sides = [items, items]
    sides[empty] = []
    Compared(sides, (4096, 4096, 4096)).exact(sides)


def test_the_bytes_grow_with_what_differs() -> None:
    rand = random.Random(6)
    common = [(1_700_000_000 + n, rand.randbytes(32)) for n in range(40_000)]
    sides = [common[20:], common[:-20]]
    found = Compared(sides, (50_000, 0, 0))
    found.exact(sides)
    assert found.bytes < 40_000 * 32 / 20
    same = Compared([common, common])
    assert same.bytes < 1_500
    assert same.rounds <= 2


def test_events_beyond_32_bits_are_compared_by_their_ids() -> None:
    rand = random.Random(7)
    late = [(FAR + n, rand.randbytes(32)) for n in range(300)]
    sides = [late[:200], late[100:]]
    Compared(sides).exact(sides)
    Compared(sides, (4096, 4096, 4096)).exact(sides)
    assert not any(Compared(sides, until=FAR - 1).only)


def test_what_a_lost_session_was_asked_is_asked_again() -> None:
    sides = two_sets(random.Random(8), 900)
    answers = [Responder(seal(side), frame_limit=4096) for side in sides]
    bridge, found, rand = Bridge(UNLIKE), (list[bytes](), list[bytes]()), random.Random(9)
    while not bridge.done:
        for side in (0, 1):
            message = bridge.ask(side, 4096)
            if message is not None and rand.random() < 0.4:
                bridge.again(side)
            elif message is not None:
                for ids, more in zip(
                    found, bridge.hear(side, answers[side].reconcile(message)), strict=True
                ):
                    ids += more
    first, second = ({key for _, key in side} for side in sides)
    assert sorted(found[0]) == sorted(first - second)
    assert sorted(found[1]) == sorted(second - first)


def bound(stamp: int) -> bytes:
    return encode_varint(stamp + 1) + b"\0"


FAULTS = {
    "a version": b"\x62",
    "not negentropy": b"\x00",
    "a gap": b"\x61" + bound(100) + b"\0" + bound(50) + b"\x01" + bytes(16),
    "a part": b"\x61" + bound(100) + b"\x01" + bytes(16),
    "beyond": b"\x61" + bound(FAR + 5) + b"\x01" + bytes(16),
    "a fingerprint for ids": b"\x61" + bound(FAR) + b"\0" + bound(9) + b"\x01" + bytes(16),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_no_answer_is_refused(name: str) -> None:
    bridge = Bridge(UNLIKE)
    bridge.ask(0, 4096)
    with pytest.raises(NegentropyError):
        bridge.hear(0, FAULTS[name])


def test_a_side_that_invents_ranges_for_ever_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nostr_client.negentropy.bridge.MOST_RANGES", 4_999)
    bridge = Bridge(UNLIKE)
    parts = [encode_varint(2) + b"\0\x01" + bytes(16) for _ in range(5_000)]
    bridge.ask(0, 4096)
    with pytest.raises(NegentropyError, match="more ranges"):
        bridge.hear(0, b"\x61" + b"".join(parts) + bound(FAR - 5_000) + b"\x01" + bytes(16))
