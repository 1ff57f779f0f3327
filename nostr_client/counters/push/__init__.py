"""Push: the values of local counters to a stream elsewhere, exactly once, offline first.

Every agent has subjects of its own there, `count.<agent>.<name>`, which nobody else writes. So
what it adds is its own value less the value that it reads there, and reading again settles every
doubt. `rules` decides, `outbox` remembers, `pusher` talks, `streams` says what is needed there.
"""

from __future__ import annotations

from nostr_client.counters.push.pusher import Pusher
from nostr_client.counters.push.report import PushOptions, PushReport, aggregate_stream, own_stream

__all__ = ["PushOptions", "PushReport", "Pusher", "aggregate_stream", "own_stream"]
