"""The form of JSON: which keys stand where, without the values."""

from __future__ import annotations

import json
from typing import Any, Final

NAMED: Final = {"changes", "fields", "kinds", "labels", "statuses"}
"""Maps whose keys are values: kinds of events, spans of time, whatever a log line is about."""


def keys(value: Any, at: str = "") -> set[str]:
    """Paths of all keys, as `relays[].status`, without those in the maps of NAMED."""
    if isinstance(value, dict):
        paths = {f"{at}.{key}".removeprefix(".") for key in value}
        below = (keys(one, f"{at}.{key}") for key, one in value.items() if key not in NAMED)
        return paths.union(*below)
    if isinstance(value, list):
        return set().union(*(keys(one, f"{at}[]") for one in value))
    return set()


def printed(text: str) -> list[str]:
    """Paths of all keys that a command printed, as one object or as one a line."""
    lines = [json.loads(line) for line in text.splitlines()]
    return sorted(set().union(*map(keys, lines)))
