"""The facade: one object that counts, reads, syncs and publishes over many relays.

Options, relays and a store enter; results with a status for each relay leave. Start with `facade`.
`storage` opens what the client stores, `watches` the engine that keeps watches fresh.
"""

from __future__ import annotations

from nostr_client.client.facade import NostrClient

__all__ = ["NostrClient"]
