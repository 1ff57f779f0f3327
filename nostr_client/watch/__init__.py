"""Watches: questions that are asked at an interval, and the history of their numbers.

Definitions enter; merged numbers leave, and are stored with their history. Start with `definition`
(the value), then `engine`: one task for each relay of each watch, driven by a clock, and one merge
a tick. `repository` has the tables. `NostrClient.watch`, `nostr-client watch run` and the agent run
this engine. Names are imported on first use: the value alone loads neither SQLite nor asyncio.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nostr_client.watch.definition import INTERVAL, SHORTEST, AlertSpec, Watch
    from nostr_client.watch.history import LEVELS, Point, fold, sparkline, thin
    from nostr_client.watch.points import point_of
    from nostr_client.watch.repository import WATCHES, WatchRepository

_EXPORTS: dict[str, str] = {
    "INTERVAL": "definition",
    "LEVELS": "history",
    "SHORTEST": "definition",
    "WATCHES": "repository",
    "AlertSpec": "definition",
    "Point": "history",
    "Watch": "definition",
    "WatchRepository": "repository",
    "fold": "history",
    "point_of": "points",
    "sparkline": "history",
    "thin": "history",
}

__all__ = [
    "INTERVAL",
    "LEVELS",
    "SHORTEST",
    "WATCHES",
    "AlertSpec",
    "Point",
    "Watch",
    "WatchRepository",
    "fold",
    "point_of",
    "sparkline",
    "thin",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
