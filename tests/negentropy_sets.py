"""Pairs of random sets for negentropy sessions: shared, one-sided, clustered, in one second."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

Item = tuple[int, bytes]


def two_sets(rand: random.Random, count: int) -> tuple[list[Item], list[Item]]:
    """Two sets of about `count` items together that share many, in one of several forms."""
    share = rand.choice([0, 0.3, 0.9, 0.99, 1])
    spread = rand.choice([1, count // 20 + 1, count * 3])
    sides: tuple[list[Item], list[Item]] = ([], [])
    while count > 0:
        run_length = rand.choice([1, 1, 1, rand.randrange(1, 80)])
        holders = (0, 1) if rand.random() < share else (rand.randrange(2),)
        for _ in range(run_length):
            item = (1_700_000_000 + rand.randrange(spread), rand.randbytes(32))
            for side in holders:
                sides[side].append(item)
        count -= run_length
    return sides
