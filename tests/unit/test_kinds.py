"""Every kind belongs to exactly one class."""

from __future__ import annotations

from nostr_client.codecs import kinds

CLASSES = (
    kinds.is_replaceable,
    kinds.is_addressable,
    kinds.is_ephemeral,
    kinds.is_regular,
)


def test_each_kind_has_one_class() -> None:
    assert all(
        sum(is_class(kind) for is_class in CLASSES) == 1 for kind in range(kinds.MAX_KIND + 1)
    )


def test_the_borders_are_nip01s() -> None:
    replaceable = [kind for kind in range(kinds.MAX_KIND + 1) if kinds.is_replaceable(kind)]
    assert replaceable == [0, 3, *range(10_000, 20_000)]
    assert list(filter(kinds.is_ephemeral, range(65536))) == list(range(20_000, 30_000))
    assert list(filter(kinds.is_addressable, range(65536))) == list(range(30_000, 40_000))
    assert all(map(kinds.is_regular, (1, 2, 4, 44, 45, 1000, 9_999, 40_000, 65_535)))
