"""What a program says whose optional packages are not installed."""

from __future__ import annotations

from typing import Final

EXTRAS: Final = {
    "prometheus_client": "agent",
    "textual": "tui",
    "textual_plotext": "tui",
    "textual_serve": "tui",
}
"""The extra that a program as a whole needs, by what it imports."""


def wanted_extra(error: ModuleNotFoundError) -> str:
    """What to install for what was not found; raises the error where no extra brings it."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    if extra is None:
        raise error
    return f"{package} is not installed: pip install 'nostr-tally[{extra}]'"
