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
        self._cache: dict[str, dict[str, int]] = {letter: {} for letter in LETTERS}
        self._cached = 0

    def __call__(self, name: str, value: str) -> int:
        """The hash of one tag; `name` is one ASCII letter."""
        found = self._cache[name].get(value)
        return self._compute(name, value) if found is None else found

    def of_tags(self, tags: Iterable[Sequence[str]]) -> set[int]:
        """The distinct hashes of those tags that are indexed: one-letter names with a value."""
        of_name, compute, hashes = self._cache.get, self._compute, set()
        for tag in tags:
            known = of_name(tag[0])
            if known is not None and len(tag) > 1:
                h = known.get(tag[1])
                hashes.add(compute(tag[0], tag[1]) if h is None else h)
        return hashes

    def _compute(self, name: str, value: str) -> int:
        state = self._state.copy()
        state.update((name + value).encode())
        h = int.from_bytes(state.digest(), "big", signed=True) >> self._shift
        if len(value) <= 100:
            self._remember(name, value, h)
        return h

    def _remember(self, name: str, value: str, h: int) -> None:
        if self._cached >= CACHE_SIZE:
            self._cached = 0
            for known in self._cache.values():
                known.clear()
        self._cached += 1
        self._cache[name][value] = h
