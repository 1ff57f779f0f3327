"""Fixtures of the suites over all backends."""

from __future__ import annotations

from tests.conformance.counter_stores import counters, store
from tests.nats_peer import nats_server

__all__ = ["counters", "nats_server", "store"]
