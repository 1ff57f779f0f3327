"""Fixtures of the suites over all backends."""

from __future__ import annotations

from tests.nats_peer import nats_server

__all__ = ["nats_server"]
