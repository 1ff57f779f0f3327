"""Declares the options of the local relay: values with a unit and a reason each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from agent.relay.policy import everything
from nostr_client.codecs import private_kinds
from nostr_client.codecs.kinds import APP_DATA, APP_DATA_ITEM

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from agent.relay.policy import WritePolicy

PRIVATE_KINDS = frozenset(private_kinds.PRIVATE_KINDS) - {APP_DATA, APP_DATA_ITEM}
"""The SDK's table of private kinds. Application data stays readable: agents and browser clients
exchange it by this relay, counters among it (docs/how-to/fleet.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayLimits:
    """What one client, or one address, may take; whatever is above is refused with a reason."""

    message_bytes: int = 2 * 1024 * 1024
    """A follow list of 20,000 people is 1.5 MB; nothing honest is larger."""

    subscriptions: int = 128
    """Open REQs of a connection; busy clients keep 20 to 60."""

    filters: int = 50
    """Filters of one REQ or COUNT: each is a query of its own."""

    filter_values: int = 5_000
    """Ids, authors, kinds and tag values in one filter; home feeds name 1,000 to 2,500 authors."""

    default_limit: int = 500
    """Stored events that a filter without a limit gets."""

    max_limit: int = 5_000
    """Stored events that a filter may ask for; further ones are paged by `until`."""

    jobs: int = 8
    """Queries of one connection that run or wait for its reader at once; then its socket waits."""

    pending_events: int = 512
    """EVENTs of one connection without an OK yet; then its socket waits."""

    events_per_s: float = 5_000.0
    """EVENTs a second of one connection: above what one core can verify and store."""

    address_events_per_s: float = 10_000.0
    """EVENTs a second of all connections of one address."""

    burst_s: float = 2.0
    """Burst of EVENTs after a pause, in seconds of the rate."""

    connections: int = 4_096
    """Open connections in all: each is a file descriptor and some 30 kB."""

    connections_per_address: int = 1_024
    """Open connections of one address; on loopback all programs of the machine share one."""

    send_bytes: int = 4 * 1024 * 1024
    """Bytes that wait for a reader: above it is slow and is disconnected, so nothing grows. A
    frame counts with the memory beside its text, 48 bytes."""

    send_total_bytes: int = 32 * 1024 * 1024
    """Bytes that wait for all readers together; beyond it large stored events are not read, and
    readers that are behind get no new ones but are disconnected."""

    send_low_bytes: int = 256 * 1024
    """Stored events are only added to what waits for a reader while it is below this."""

    send_timeout_s: float = 30.0
    """How long a reader may read nothing while stored events wait for it."""

    live_backlog: int = 2_000
    """New events, of `send_bytes` at most, that one subscription keeps while its stored ones are
    still being sent."""

    handshake_s: float = 10.0
    """How long a new socket may take to ask for something; browsers take milliseconds."""

    heartbeat_s: float = 30.0
    """A ping each, so that half-open sockets are found after one and a half of them."""

    neg_sessions: int = 8
    """NIP-77 sessions of one connection; sync clients keep 4 to 8 windows in flight."""

    neg_items: int = 1_000_000
    """Events of one NIP-77 session: 60 MB, and about half a second of CPU to set up."""

    neg_items_total: int = 4_000_000
    """Events of all NIP-77 sessions together."""

    neg_frame_bytes: int = 200_000
    """Size of our NIP-77 messages before hex: the largest that every client seen takes."""

    neg_idle_s: float = 60.0
    """A NIP-77 session without a message for so long is closed: it holds a snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayAccess:
    """Who may connect and who may write."""

    token: str | None = None
    """Needed for writing, as `Authorization: Bearer` or `?token=`; None: no token is needed."""

    hosts: frozenset[str] = frozenset()
    """Host names besides loopback that a request may name (DNS rebinding names others)."""

    origins: frozenset[str] = frozenset()
    """Web origins that may use the relay as a program of this machine may; "*" for all."""

    foreign_origins: Literal["refuse", "read"] = "refuse"
    """What pages of other origins get: refuse, since the store shows what its owner reads."""

    tls_cert: Path | None = None
    """PEM certificate chain; with it the relay speaks wss://."""

    tls_key: Path | None = None
    """PEM key of `tls_cert`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayOptions:
    """Everything about a local relay except its store and its address."""

    name: str = "nostr-tally local relay"
    description: str = "One person's event store, spoken to as a relay."
    pubkey: str = ""
    """Operator's key, hex, shown by NIP-11; "" for none."""

    contact: str = ""
    urls: tuple[str, ...] = ()
    """URLs by which clients know this relay besides the one it listens on (NIP-42, NIP-62)."""

    count: bool = True
    """Answer COUNT; False: every COUNT is refused by CLOSED."""

    hll: bool = True
    """Send registers with eligible counts."""

    hello: bool = False
    """Send `["HELLO",{"count":true}]` on connect; off because strict clients may not know it."""

    negentropy: bool = True
    """Answer NEG-OPEN."""

    neg_reasons: Literal["current", "seed"] = "current"
    """Words of NEG-ERR: NIP-77's today (`blocked: …`) or its first text's (`RESULTS_TOO_BIG`)."""

    private_kinds: frozenset[int] = PRIVATE_KINDS
    """Kinds served and counted only for their author or p-tagged reader, after AUTH."""

    auth_on_connect: bool = False
    """Send the NIP-42 challenge at once instead of when something needs it."""

    auth_window_s: int = 600
    """How far the created_at of an AUTH event may be from now: NIP-42's ten minutes."""

    compress: bool = False
    """permessage-deflate: on loopback bytes cost nothing and CPU does."""

    write_policy: WritePolicy = everything
    limits: RelayLimits = field(default_factory=RelayLimits)
    access: RelayAccess = field(default_factory=RelayAccess)
    extra_info: Mapping[str, object] = field(default_factory=dict)
    """Further fields of the NIP-11 document, e.g. `icon`."""
