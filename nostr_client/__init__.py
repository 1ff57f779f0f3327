"""nostr-tally's SDK: one honest number from many Nostr relays, and the events behind it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nostr_client._version import __version__

if TYPE_CHECKING:
    from nostr_client.errors import (
        CounterError,
        DeadlineExceeded,
        Duplicate,
        InvalidEvent,
        InvalidFilter,
        InvalidIdentifier,
        InvalidInput,
        InvalidKey,
        InvalidRelayURL,
        MalformedMessage,
        NetworkError,
        NostrTallyError,
        ProtocolError,
        RelayError,
        RelayRefused,
        StoreError,
        Unsupported,
    )
    from nostr_client.event import (
        Event,
        EventTemplate,
        parse_event,
    )
    from nostr_client.filters import (
        Filter,
    )
    from nostr_client.keys import (
        KeySigner,
        Signer,
        VerifiedEvent,
        verify,
        verify_many,
    )
    from nostr_client.options import (
        Limits,
        ReadBudget,
        ReconnectPolicy,
        Timeouts,
    )

_EXPORTS: dict[str, str] = {
    "CounterError": "nostr_client.errors",
    "DeadlineExceeded": "nostr_client.errors",
    "Duplicate": "nostr_client.errors",
    "Event": "nostr_client.event",
    "EventTemplate": "nostr_client.event",
    "Filter": "nostr_client.filters",
    "InvalidEvent": "nostr_client.errors",
    "InvalidFilter": "nostr_client.errors",
    "InvalidIdentifier": "nostr_client.errors",
    "InvalidInput": "nostr_client.errors",
    "InvalidKey": "nostr_client.errors",
    "InvalidRelayURL": "nostr_client.errors",
    "KeySigner": "nostr_client.keys",
    "Limits": "nostr_client.options",
    "MalformedMessage": "nostr_client.errors",
    "NetworkError": "nostr_client.errors",
    "NostrTallyError": "nostr_client.errors",
    "ProtocolError": "nostr_client.errors",
    "ReadBudget": "nostr_client.options",
    "ReconnectPolicy": "nostr_client.options",
    "RelayError": "nostr_client.errors",
    "RelayRefused": "nostr_client.errors",
    "Signer": "nostr_client.keys",
    "StoreError": "nostr_client.errors",
    "Timeouts": "nostr_client.options",
    "Unsupported": "nostr_client.errors",
    "VerifiedEvent": "nostr_client.keys",
    "parse_event": "nostr_client.event",
    "verify": "nostr_client.keys",
    "verify_many": "nostr_client.keys",
}

__all__ = [
    "CounterError",
    "DeadlineExceeded",
    "Duplicate",
    "Event",
    "EventTemplate",
    "Filter",
    "InvalidEvent",
    "InvalidFilter",
    "InvalidIdentifier",
    "InvalidInput",
    "InvalidKey",
    "InvalidRelayURL",
    "KeySigner",
    "Limits",
    "MalformedMessage",
    "NetworkError",
    "NostrTallyError",
    "ProtocolError",
    "ReadBudget",
    "ReconnectPolicy",
    "RelayError",
    "RelayRefused",
    "Signer",
    "StoreError",
    "Timeouts",
    "Unsupported",
    "VerifiedEvent",
    "__version__",
    "parse_event",
    "verify",
    "verify_many",
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
