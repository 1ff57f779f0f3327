"""Push the values of local counters to a remote stream, exactly once, also after offline time.

The package takes the counters of a store. It sends increments of remote subjects. Every agent has
its own remote subjects, `count.<agent>.<name>`, to which only this agent writes. An increment is
the local value minus the remote value. After any doubt, another read shows whether the increment
was counted.

Start with `pusher`. `rules` decides and stores each push before it is sent. `round` sends the
pushes. `report` has the options and describes the remote streams.
"""

from __future__ import annotations

from nostr_client.counters.push.pusher import Pusher
from nostr_client.counters.push.report import PushOptions, PushReport, aggregate_stream, own_stream

__all__ = ["PushOptions", "PushReport", "Pusher", "aggregate_stream", "own_stream"]
