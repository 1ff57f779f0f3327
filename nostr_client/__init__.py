"""nostr-tally's SDK: one honest number from many Nostr relays, and the events behind it.

Questions, filters and relays enter; results, events and reports leave. Start with `NostrClient`.
Names that are needed less often are in the modules (`counters`, `sync`, `store`, `errors` and
others), which `import nostr_client` is enough to reach.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nostr_client import codecs as codecs
    from nostr_client import count
    from nostr_client import counters as counters
    from nostr_client import errors as errors
    from nostr_client import hll as hll
    from nostr_client import negentropy as negentropy
    from nostr_client import network as network
    from nostr_client import options as options
    from nostr_client import store as store
    from nostr_client import sync as sync
    from nostr_client import watch as watch
    from nostr_client.client import NostrClient
    from nostr_client.codecs import nip19
    from nostr_client.codecs.event import Event, EventTemplate, parse_event
    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import KeySigner, Signer, VerifiedEvent, verify, verify_many
    from nostr_client.codecs.nip11 import RelayInfo
    from nostr_client.count.figures import Figure
    from nostr_client.count.merge import Claim, ClaimStatus, TrustPolicy
    from nostr_client.count.queries import (
        Query,
        comments,
        followers,
        query,
        quotes,
        reactions,
        replies,
        replies_and_comments,
        reposts,
        zaps,
    )
    from nostr_client.count.result import CountResult
    from nostr_client.errors import (
        DeadlineExceeded,
        InvalidEvent,
        InvalidFilter,
        InvalidIdentifier,
        InvalidInput,
        InvalidKey,
        NetworkError,
        NoRelays,
        NostrTallyError,
        ProtocolError,
        RelayRefused,
        StoreError,
    )
    from nostr_client.network.outbox import RelayChoice
    from nostr_client.network.pool import FetchResult, PublishResult, PublishStatus, RelayPool
    from nostr_client.network.relay import Relay
    from nostr_client.network.subscription import Subscription
    from nostr_client.options import ConnectionOptions, Limits, Options, ReadBudget, Timeouts
    from nostr_client.store.base import EventStore
    from nostr_client.store.options import StoreOptions
    from nostr_client.store.sqlite import SqliteStore
    from nostr_client.sync.direction import Direction
    from nostr_client.sync.report import SyncReport, SyncStatus
    from nostr_client.watch.definition import Watch

__version__ = "0.1.0"

_EXPORTS: dict[str, str] = {
    "Claim": "nostr_client.count.merge",
    "ClaimStatus": "nostr_client.count.merge",
    "ConnectionOptions": "nostr_client.options",
    "CountResult": "nostr_client.count.result",
    "DeadlineExceeded": "nostr_client.errors",
    "Direction": "nostr_client.sync.direction",
    "Event": "nostr_client.codecs.event",
    "EventStore": "nostr_client.store.base",
    "EventTemplate": "nostr_client.codecs.event",
    "FetchResult": "nostr_client.network.pool",
    "Figure": "nostr_client.count.figures",
    "Filter": "nostr_client.codecs.filters",
    "InvalidEvent": "nostr_client.errors",
    "InvalidFilter": "nostr_client.errors",
    "InvalidIdentifier": "nostr_client.errors",
    "InvalidInput": "nostr_client.errors",
    "InvalidKey": "nostr_client.errors",
    "KeySigner": "nostr_client.codecs.keys",
    "Limits": "nostr_client.options",
    "NetworkError": "nostr_client.errors",
    "NoRelays": "nostr_client.errors",
    "NostrClient": "nostr_client.client",
    "NostrTallyError": "nostr_client.errors",
    "Options": "nostr_client.options",
    "ProtocolError": "nostr_client.errors",
    "PublishResult": "nostr_client.network.pool",
    "PublishStatus": "nostr_client.network.pool",
    "Query": "nostr_client.count.queries",
    "ReadBudget": "nostr_client.options",
    "Relay": "nostr_client.network.relay",
    "RelayChoice": "nostr_client.network.outbox",
    "RelayInfo": "nostr_client.codecs.nip11",
    "RelayPool": "nostr_client.network.pool",
    "RelayRefused": "nostr_client.errors",
    "Signer": "nostr_client.codecs.keys",
    "SqliteStore": "nostr_client.store.sqlite",
    "StoreError": "nostr_client.errors",
    "StoreOptions": "nostr_client.store.options",
    "Subscription": "nostr_client.network.subscription",
    "SyncReport": "nostr_client.sync.report",
    "SyncStatus": "nostr_client.sync.report",
    "Timeouts": "nostr_client.options",
    "TrustPolicy": "nostr_client.count.merge",
    "VerifiedEvent": "nostr_client.codecs.keys",
    "Watch": "nostr_client.watch.definition",
    "comments": "nostr_client.count.queries",
    "followers": "nostr_client.count.queries",
    "parse_event": "nostr_client.codecs.event",
    "query": "nostr_client.count.queries",
    "quotes": "nostr_client.count.queries",
    "reactions": "nostr_client.count.queries",
    "replies": "nostr_client.count.queries",
    "replies_and_comments": "nostr_client.count.queries",
    "reposts": "nostr_client.count.queries",
    "verify": "nostr_client.codecs.keys",
    "verify_many": "nostr_client.codecs.keys",
    "zaps": "nostr_client.count.queries",
}
"""The module of each public name."""

_MODULES: dict[str, str] = {"nip19": "nostr_client.codecs.nip19"} | {
    name: f"nostr_client.{name}"
    for name in (
        "codecs",
        "count",
        "counters",
        "errors",
        "hll",
        "negentropy",
        "network",
        "options",
        "store",
        "sync",
        "watch",
    )
}
"""Modules that are there after `import nostr_client`, loaded on first use."""

__all__ = [
    "Claim",
    "ClaimStatus",
    "ConnectionOptions",
    "CountResult",
    "DeadlineExceeded",
    "Direction",
    "Event",
    "EventStore",
    "EventTemplate",
    "FetchResult",
    "Figure",
    "Filter",
    "InvalidEvent",
    "InvalidFilter",
    "InvalidIdentifier",
    "InvalidInput",
    "InvalidKey",
    "KeySigner",
    "Limits",
    "NetworkError",
    "NoRelays",
    "NostrClient",
    "NostrTallyError",
    "Options",
    "ProtocolError",
    "PublishResult",
    "PublishStatus",
    "Query",
    "ReadBudget",
    "Relay",
    "RelayChoice",
    "RelayInfo",
    "RelayPool",
    "RelayRefused",
    "Signer",
    "SqliteStore",
    "StoreError",
    "StoreOptions",
    "Subscription",
    "SyncReport",
    "SyncStatus",
    "Timeouts",
    "TrustPolicy",
    "VerifiedEvent",
    "Watch",
    "__version__",
    "comments",
    "count",
    "followers",
    "nip19",
    "parse_event",
    "query",
    "quotes",
    "reactions",
    "replies",
    "replies_and_comments",
    "reposts",
    "verify",
    "verify_many",
    "zaps",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that `import nostr_client.hll` stays light (PEP 562)."""
    if name in _MODULES:
        value: Any = importlib.import_module(_MODULES[name])
    elif name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
