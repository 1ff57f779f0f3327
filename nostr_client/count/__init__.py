"""Counts over relays (NIP-45): questions, requests to relays, and the explained result.

A `Query` and relays enter; a `CountResult` leaves: a claim of each relay, and the number that
the claims make together. Start with `queries`, then `procedure`. Names load on first use, as most
packages below (`claims`, `merge`, `trust`) need no network.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from nostr_client.count.queries import (
        CANONICAL,
        Query,
        canonical,
        comments,
        followers,
        query,
        quotes,
        reactions,
        replies,
        replies_and_comments,
        reposts,
        zaps,
    )
    from nostr_client.count.result import CountResult

QueryName = Literal[
    "followers",
    "reactions",
    "reposts",
    "quotes",
    "replies",
    "comments",
    "replies+comments",
    "zaps",
]
"""The canonical queries by name; they are here because command lines and forms need only them."""

__all__ = [
    "CANONICAL",
    "CountResult",
    "Query",
    "QueryName",
    "canonical",
    "comments",
    "followers",
    "query",
    "quotes",
    "reactions",
    "replies",
    "replies_and_comments",
    "reposts",
    "zaps",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "result" if name == "CountResult" else "queries"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
