"""Counting (NIP-45): what to ask, how relays are asked, and the explained result."""

from __future__ import annotations

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

__all__ = [
    "CANONICAL",
    "CountResult",
    "Query",
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
