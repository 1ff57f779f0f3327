"""nostr-tally's SDK: one honest number from many Nostr relays, and the events behind it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nostr_client.client import (
        NostrClient,
    )
    from nostr_client.codecs.event import (
        Event,
        EventTemplate,
        parse_event,
    )
    from nostr_client.codecs.filters import (
        Filter,
    )
    from nostr_client.codecs.keys import (
        KeySigner,
        Signer,
        VerifiedEvent,
        verify,
        verify_many,
    )
    from nostr_client.codecs.nip11 import (
        RelayInfo,
    )
    from nostr_client.count.merge import (
        Claim,
        ClaimStatus,
        Method,
        Unit,
    )
    from nostr_client.count.queries import (
        Query,
    )
    from nostr_client.count.result import (
        CountResult,
        VerifiedZaps,
    )
    from nostr_client.count.told import (
        Figure,
    )
    from nostr_client.count.trust import (
        TrustPolicy,
    )
    from nostr_client.count.wallets import Sighting, Wallet, WalletStatus
    from nostr_client.counters.config import (
        SourceConfig,
        StreamConfig,
        TransformConfig,
    )
    from nostr_client.counters.push import (
        Pusher,
        PushOptions,
        PushReport,
    )
    from nostr_client.counters.sqlite import (
        SqliteCounterStore,
    )
    from nostr_client.errors import (
        CounterError,
        DeadlineExceeded,
        Duplicate,
        HeldBack,
        InvalidEvent,
        InvalidFilter,
        InvalidIdentifier,
        InvalidInput,
        InvalidKey,
        InvalidRelayURL,
        MalformedMessage,
        NegentropyError,
        NetworkError,
        NoRelays,
        NostrTallyError,
        ProtocolError,
        RelayError,
        RelayRefused,
        SchemaTooNew,
        SchemaTooOld,
        StoreCorrupt,
        StoreError,
        StoreFull,
        StoreLocked,
        Unsupported,
    )
    from nostr_client.network.ingest import Ingest
    from nostr_client.network.negchannel import (
        NegChannel,
    )
    from nostr_client.network.paging.page import (
        Page,
    )
    from nostr_client.network.pool import (
        Gathered,
        PublishResult,
        PublishStatus,
        RelayPool,
    )
    from nostr_client.network.relay import (
        Relay,
    )
    from nostr_client.network.relay_state import (
        Capabilities,
        RelayStats,
        RelayStatus,
    )
    from nostr_client.network.subscription import (
        Overflow,
        Subscription,
        SubscriptionStats,
    )
    from nostr_client.network.transport import (
        Transport,
    )
    from nostr_client.network.verifier import (
        ThreadVerifier,
        Verifier,
    )
    from nostr_client.options import (
        ConnectionOptions,
        Limits,
        Options,
        ReadBudget,
        ReconnectPolicy,
        RelayBudget,
        Timeouts,
    )
    from nostr_client.store.base import EventStore, Outcome, Status
    from nostr_client.store.options import StoreOptions
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.sync.options import Direction, SyncOptions
    from nostr_client.sync.procedure import Syncer
    from nostr_client.sync.report import RelayReport, SyncReport, SyncStatus

__version__ = "0.1.0"

_EXPORTS: dict[str, str] = {
    "Capabilities": "nostr_client.network.relay_state",
    "Claim": "nostr_client.count.merge",
    "ClaimStatus": "nostr_client.count.merge",
    "ConnectionOptions": "nostr_client.options",
    "CountResult": "nostr_client.count.result",
    "CounterError": "nostr_client.errors",
    "DeadlineExceeded": "nostr_client.errors",
    "HeldBack": "nostr_client.errors",
    "Direction": "nostr_client.sync.options",
    "Duplicate": "nostr_client.errors",
    "Event": "nostr_client.codecs.event",
    "EventStore": "nostr_client.store.base",
    "EventTemplate": "nostr_client.codecs.event",
    "Figure": "nostr_client.count.told",
    "Filter": "nostr_client.codecs.filters",
    "Gathered": "nostr_client.network.pool",
    "Ingest": "nostr_client.network.ingest",
    "InvalidEvent": "nostr_client.errors",
    "InvalidFilter": "nostr_client.errors",
    "InvalidIdentifier": "nostr_client.errors",
    "InvalidInput": "nostr_client.errors",
    "InvalidKey": "nostr_client.errors",
    "InvalidRelayURL": "nostr_client.errors",
    "KeySigner": "nostr_client.codecs.keys",
    "Limits": "nostr_client.options",
    "MalformedMessage": "nostr_client.errors",
    "Method": "nostr_client.count.merge",
    "NegChannel": "nostr_client.network.negchannel",
    "NegentropyError": "nostr_client.errors",
    "NetworkError": "nostr_client.errors",
    "NoRelays": "nostr_client.errors",
    "NostrClient": "nostr_client.client",
    "NostrTallyError": "nostr_client.errors",
    "Options": "nostr_client.options",
    "Outcome": "nostr_client.store.base",
    "Overflow": "nostr_client.network.subscription",
    "Page": "nostr_client.network.paging.page",
    "ProtocolError": "nostr_client.errors",
    "PublishResult": "nostr_client.network.pool",
    "PublishStatus": "nostr_client.network.pool",
    "PushOptions": "nostr_client.counters.push",
    "PushReport": "nostr_client.counters.push",
    "Pusher": "nostr_client.counters.push",
    "Query": "nostr_client.count.queries",
    "ReadBudget": "nostr_client.options",
    "ReconnectPolicy": "nostr_client.options",
    "RelayBudget": "nostr_client.options",
    "Relay": "nostr_client.network.relay",
    "RelayError": "nostr_client.errors",
    "RelayInfo": "nostr_client.codecs.nip11",
    "RelayPool": "nostr_client.network.pool",
    "RelayRefused": "nostr_client.errors",
    "RelayReport": "nostr_client.sync.report",
    "RelayStats": "nostr_client.network.relay_state",
    "RelayStatus": "nostr_client.network.relay_state",
    "SchemaTooNew": "nostr_client.errors",
    "SchemaTooOld": "nostr_client.errors",
    "Sighting": "nostr_client.count.wallets",
    "Signer": "nostr_client.codecs.keys",
    "SourceConfig": "nostr_client.counters.config",
    "SqliteCounterStore": "nostr_client.counters.sqlite",
    "SqliteStore": "nostr_client.store.sqlite",
    "Status": "nostr_client.store.base",
    "StoreCorrupt": "nostr_client.errors",
    "StoreError": "nostr_client.errors",
    "StoreFull": "nostr_client.errors",
    "StoreLocked": "nostr_client.errors",
    "StoreOptions": "nostr_client.store.options",
    "StreamConfig": "nostr_client.counters.config",
    "Subscription": "nostr_client.network.subscription",
    "SubscriptionStats": "nostr_client.network.subscription",
    "SyncOptions": "nostr_client.sync.options",
    "SyncReport": "nostr_client.sync.report",
    "SyncStatus": "nostr_client.sync.report",
    "Syncer": "nostr_client.sync.procedure",
    "ThreadVerifier": "nostr_client.network.verifier",
    "Timeouts": "nostr_client.options",
    "TransformConfig": "nostr_client.counters.config",
    "Transport": "nostr_client.network.transport",
    "TrustPolicy": "nostr_client.count.trust",
    "Unit": "nostr_client.count.merge",
    "Unsupported": "nostr_client.errors",
    "VerifiedEvent": "nostr_client.codecs.keys",
    "VerifiedZaps": "nostr_client.count.result",
    "Verifier": "nostr_client.network.verifier",
    "Wallet": "nostr_client.count.wallets",
    "WalletStatus": "nostr_client.count.wallets",
    "parse_event": "nostr_client.codecs.event",
    "verify": "nostr_client.codecs.keys",
    "verify_many": "nostr_client.codecs.keys",
}

__all__ = [
    "Capabilities",
    "Claim",
    "ClaimStatus",
    "ConnectionOptions",
    "CountResult",
    "CounterError",
    "DeadlineExceeded",
    "Direction",
    "Duplicate",
    "Event",
    "EventStore",
    "EventTemplate",
    "Figure",
    "Filter",
    "Gathered",
    "HeldBack",
    "Ingest",
    "InvalidEvent",
    "InvalidFilter",
    "InvalidIdentifier",
    "InvalidInput",
    "InvalidKey",
    "InvalidRelayURL",
    "KeySigner",
    "Limits",
    "MalformedMessage",
    "Method",
    "NegChannel",
    "NegentropyError",
    "NetworkError",
    "NoRelays",
    "NostrClient",
    "NostrTallyError",
    "Options",
    "Outcome",
    "Overflow",
    "Page",
    "ProtocolError",
    "PublishResult",
    "PublishStatus",
    "PushOptions",
    "PushReport",
    "Pusher",
    "Query",
    "ReadBudget",
    "ReconnectPolicy",
    "Relay",
    "RelayBudget",
    "RelayError",
    "RelayInfo",
    "RelayPool",
    "RelayRefused",
    "RelayReport",
    "RelayStats",
    "RelayStatus",
    "SchemaTooNew",
    "SchemaTooOld",
    "Sighting",
    "Signer",
    "SourceConfig",
    "SqliteCounterStore",
    "SqliteStore",
    "Status",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreLocked",
    "StoreOptions",
    "StreamConfig",
    "Subscription",
    "SubscriptionStats",
    "SyncOptions",
    "SyncReport",
    "SyncStatus",
    "Syncer",
    "ThreadVerifier",
    "Timeouts",
    "TransformConfig",
    "Transport",
    "TrustPolicy",
    "Unit",
    "Unsupported",
    "VerifiedEvent",
    "VerifiedZaps",
    "Verifier",
    "Wallet",
    "WalletStatus",
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
