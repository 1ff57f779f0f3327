"""What is told of a relay's answer to a count; a leaf, as the API of the agent tells it too."""

from __future__ import annotations

import msgspec


class Told(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is said of one relay's answer wherever it is shown.

    `relay` is spelled as the user wrote it. `count` counts events. Times are Unix seconds,
    `latency_ms` the milliseconds from asking to the answer. `last_read` is the time up to which the
    events of the relay are known, None unless they were read to the end.
    """

    relay: str
    status: str
    method: str | None = None
    count: int | None = None
    approximate: bool | None = None
    limited: bool | None = None
    events_read: int = 0
    bytes_read: int = 0
    last_read: int | None = None
    asked_at: float | None = None
    answered_at: float | None = None
    latency_ms: float | None = None
    warnings: tuple[str, ...] = ()
