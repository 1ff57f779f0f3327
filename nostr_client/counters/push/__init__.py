"""Pushes the values of local counters to a stream elsewhere, exactly once, offline first.

The counters of a store enter; increments of remote subjects leave. Every agent has its own subjects
there, `count.<agent>.<name>`, which nobody else writes. An increment is the local value minus the
remote value, and reading again settles every doubt. Start with `pusher`. `rules` decides, `outbox`
stores each push before it is sent, and `streams` describes the remote streams.
"""

from __future__ import annotations

from nostr_client.counters.push.pusher import Pusher
from nostr_client.counters.push.report import PushOptions, PushReport, aggregate_stream, own_stream

__all__ = ["PushOptions", "PushReport", "Pusher", "aggregate_stream", "own_stream"]
