"""The keyed 64-bit hash under which the tag index keeps a tag's name and value.

The key is random per store, so that nobody can prepare two values that meet. Two that meet by
chance (three in a million at ten million values) are told apart where events are read; counts and
registers, which read the index alone, take that chance.
"""

from __future__ import annotations

import string
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LETTERS = frozenset(string.ascii_letters)
"""The tag names that filters can ask for (NIP-01)."""

CACHE_SIZE = 100_000
"""Hashes remembered, about 20 MB: a third of the tags name a few thousand people and notes."""


class TagHasher:
    """Hashes name and value to a signed 64-bit integer, which is what SQLite's INTEGER holds."""

    def __init__(self, key: bytes, *, bits: int = 64) -> None:
        self._state = blake2b(key=key, digest_size=8)
        self._shift = 64 - bits
        self._cache: dict[tuple[str, str], int] = {}

    def __call__(self, name: str, value: str) -> int:
        """The hash of one tag; `name` is one ASCII letter."""
        pair = (name, value)
        found = self._cache.get(pair)
        return self._compute(pair) if found is None else found

    def of_tags(self, tags: Iterable[Sequence[str]]) -> set[int]:
        """The distinct hashes of those tags that are indexed: one-letter names with a value."""
        known, compute, hashes = self._cache.get, self._compute, set()
        for tag in tags:
            if tag[0] in LETTERS and len(tag) > 1:
                pair = (tag[0], tag[1])
                h = known(pair)
                hashes.add(compute(pair) if h is None else h)
        return hashes

    def _compute(self, pair: tuple[str, str]) -> int:
        state = self._state.copy()
        state.update((pair[0] + pair[1]).encode())
        h = int.from_bytes(state.digest(), "big", signed=True) >> self._shift
        if len(pair[1]) <= 100:
            if len(self._cache) >= CACHE_SIZE:
                self._cache.clear()
            self._cache[pair] = h
        return h
