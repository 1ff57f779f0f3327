"""What a nats-server's version means for counters."""

from __future__ import annotations

Version = tuple[int, int, int]

FIRST: Version = (2, 12, 0)
"""The first server with counters (ADR-49)."""

SOUND: Version = (2, 14, 5)
"""The first server without the bugs that break counters: on one that is not replicated, atomic
batches stored empty bodies before 2.14.3, and sources of such streams stalled."""


def has_counters(version: Version) -> bool:
    return version >= FIRST


def batches_are_safe(version: Version) -> bool:
    return version >= SOUND


def caution(version: Version) -> str | None:
    """What to tell somebody whose server this is, or None."""
    if not has_counters(version) or batches_are_safe(version):
        return None
    shown = ".".join(map(str, version))
    return f"nats-server {shown} has bugs that break counters; use 2.14.5 or later"
