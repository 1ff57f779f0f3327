"""nostr-tally's SDK: one honest number from many Nostr relays, and the events behind it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nostr_client._version import __version__

if TYPE_CHECKING:
    from nostr_client.errors import (
        CounterError,
        DeadlineExceeded,
        InvalidEvent,
        InvalidFilter,
        InvalidIdentifier,
        InvalidInput,
        InvalidKey,
        InvalidRelayURL,
        NetworkError,
        NostrTallyError,
        ProtocolError,
        RelayError,
        RelayRefused,
        StoreError,
        Unsupported,
    )

_EXPORTS: dict[str, str] = {
    "CounterError": "nostr_client.errors",
    "DeadlineExceeded": "nostr_client.errors",
    "InvalidEvent": "nostr_client.errors",
    "InvalidFilter": "nostr_client.errors",
    "InvalidIdentifier": "nostr_client.errors",
    "InvalidInput": "nostr_client.errors",
    "InvalidKey": "nostr_client.errors",
    "InvalidRelayURL": "nostr_client.errors",
    "NetworkError": "nostr_client.errors",
    "NostrTallyError": "nostr_client.errors",
    "ProtocolError": "nostr_client.errors",
    "RelayError": "nostr_client.errors",
    "RelayRefused": "nostr_client.errors",
    "StoreError": "nostr_client.errors",
    "Unsupported": "nostr_client.errors",
}

__all__ = [
    "CounterError",
    "DeadlineExceeded",
    "InvalidEvent",
    "InvalidFilter",
    "InvalidIdentifier",
    "InvalidInput",
    "InvalidKey",
    "InvalidRelayURL",
    "NetworkError",
    "NostrTallyError",
    "ProtocolError",
    "RelayError",
    "RelayRefused",
    "StoreError",
    "Unsupported",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that `import nostr_client.hll` stays light (PEP 562)."""
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
