"""Watches: questions that are asked again and again, and the history of their numbers."""

from __future__ import annotations

from nostr_client.watch.book import WatchBook, point_of
from nostr_client.watch.definition import INTERVAL, SHORTEST, Watch
from nostr_client.watch.history import LEVELS, Point, fold, sparkline, thin
from nostr_client.watch.running import Runner
from nostr_client.watch.schedule import due, next_due
from nostr_client.watch.schema import WATCHES
from nostr_client.watch.watching import Watching

__all__ = [
    "INTERVAL",
    "LEVELS",
    "SHORTEST",
    "WATCHES",
    "Point",
    "Runner",
    "Watch",
    "WatchBook",
    "Watching",
    "due",
    "fold",
    "next_due",
    "point_of",
    "sparkline",
    "thin",
]
