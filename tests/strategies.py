"""Strategies that several property tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hypothesis import strategies as st

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


def lists_up_to(elements: SearchStrategy[T], most: int) -> SearchStrategy[list[T]]:
    """Lists of every length alike.

    `st.lists(elements, max_size=most)` makes lists of about five: no cap cuts these, and no window
    is split for them.
    """
    lengths = st.integers(0, most)
    return lengths.flatmap(lambda n: st.lists(elements, min_size=n, max_size=n))
