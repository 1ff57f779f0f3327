"""Sketches drawn straight from their distribution: a million keys cost what ten cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nostr_client.hll import MAX_RANK, M

if TYPE_CHECKING:
    import numpy.typing as npt


def draw(rng: np.random.Generator, n: int, sketches: int = 1) -> npt.NDArray[np.uint8]:
    """(sketches, 256) registers, each row of n distinct random keys.

    Keys fall on registers as a multinomial; the rank of one key is geometric, so the highest of c
    has P(rank <= k) = (1 - 2^-k)^c, which is inverted at a uniform number.
    """
    keys = rng.multinomial(n, np.full(M, 1 / M), size=sketches)
    uniform = rng.random((sketches, M))
    with np.errstate(divide="ignore"):
        # 1 - u^(1/c) without losing its digits where c is large; c = 0 gives 1 and so rank 0.
        tail = -np.expm1(np.log(uniform) / keys)
    rank = np.ceil(-np.log2(np.maximum(tail, 2.0**-MAX_RANK)))
    return np.clip(rank, 0, MAX_RANK).astype(np.uint8)
