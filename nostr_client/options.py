"""Options as values: each default with its unit and the reason for it.

Every class is frozen; `dataclasses.replace` makes another. A value that cannot be meant, such as
a limit of 0, raises InvalidInput when the object is made.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final

from nostr_client.codecs.proxies import choose_proxies
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from _typeshed import DataclassInstance

    from nostr_client.codecs.proxies import Proxies


SHORTEST_INTERVAL: Final = 10.0
"""Seconds between two rounds of asking a relay at least: relays work for others too."""


WATCH_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
WATCH_NAME_IN_WORDS: Final = (
    "1 to 64 letters, digits, dots, dashes and underscores, a letter or digit first"
)
"""What a new watch may be called, in an agent or without one."""


def _require_positive(values: DataclassInstance) -> None:
    for one in fields(values):
        value = getattr(values, one.name)
        if value is not None and not value > 0:
            name = f"{type(values).__name__}.{one.name}"
            raise InvalidInput(f"{name} must be above 0, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Sets how long to wait, in seconds."""

    connect: float = 10.0
    """Name lookup, TCP, TLS and the WebSocket handshake: slow mobile links need 5 to 8."""

    count: float = 10.0
    """One COUNT on one relay: big relays take 3 to 5 for a popular author's followers."""

    group: float = 15.0
    """All relays of one question together: later answers are reported as timeouts, not awaited."""

    eose: float = 20.0
    """Silence while a stored query is read: counted again after each event."""

    publish: float = 10.0
    """OK for one event: relays verify and write before they answer."""

    auth: float = 10.0
    """OK for an AUTH event; a remote signer may ask its owner first."""

    http: float = 10.0
    """The whole NIP-11 document: it is small."""

    send: float = 20.0
    """A frame to a peer that does not read, until the kernel has it."""

    page: float = 300.0
    """A stored query as a whole, however busily the relay drips events."""

    close: float = 2.0
    """The closing handshake: nothing is lost when the other side does not answer."""

    heartbeat: float = 30.0
    """Between pings: proxies drop idle connections after 60, mobile NATs after 30 to 120."""

    def __post_init__(self) -> None:
        _require_positive(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sets how much to accept from one relay before it is cut off; what is cut is counted."""

    message_bytes_in: int = 2 * 1024 * 1024
    """Bytes of one incoming message: contact lists of 10,000 follows are 850 kB."""

    message_bytes_out: int = 120_000
    """Bytes of one outgoing message: strfry drops the connection above 131,072."""

    info: int = 256 * 1024
    """Bytes of a NIP-11 document: the largest seen are 20 kB."""

    event_tags: int = 20_000
    """Tags of one event: a frame of `message_bytes_in` could hold 300,000 that say nothing."""

    queue: int = 1_000
    """Events that wait in one subscription before the relay is made to wait, or loses them."""

    subscriptions: int = 20
    """Open REQs on one connection, others wait their turn: strfry's default maximum."""

    notices: int = 20
    """NOTICEs kept for showing; further ones are counted only."""

    notices_per_minute: int = 60
    """NOTICEs of one relay in a minute before it is dropped: a storm is a fault or an attack."""

    waiting: int = 1_000
    """Requests that wait for a free slot or for the connection before new ones are refused."""

    mismatch_slack: int = 100
    """Events outside its filter that a subscription bears before it is closed."""

    junk_frames: int = 100
    """Frames that cannot be read before the relay is dropped: a newer relay may send a few."""

    messages_per_second: int = 20_000
    """Incoming frames of one relay in a second: ten times what one core verifies."""

    messages_per_second_out: int = 500
    """Frames to one relay in a second, after as many at once: what busy relays work through. An
    upload that waits for OKs between its water marks goes as fast as the relay answers."""

    verify_chunk: int = 128
    """Events verified in one go in a worker thread: 64 to 256 hide the cost of the hand-over."""

    relays: int = 200
    """Relays in one pool: some relay lists name thousands."""

    def __post_init__(self) -> None:
        _require_positive(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectPolicy:
    """When to connect again; full jitter, so that a restarted relay is not hit by all at once."""

    first: float = 1.0
    """Shortest delay in seconds: relays ban clients that come back at once."""

    longest: float = 300.0
    """Longest delay in seconds: what relay operators ask for."""

    stable_after: float = 60.0
    """Seconds a connection must have lasted before the delays start from `first` again."""

    attempts: int | None = None
    """Failures in a row before giving up; None never gives up, as relays come back after days."""

    def __post_init__(self) -> None:
        _require_positive(self)
        if self.longest < self.first:
            raise InvalidInput("ReconnectPolicy.longest must not be below first")


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayBudget:
    """What all connections of a process together ask of one public relay (a host) at most.

    Relays on loopback and private addresses have no budget.
    """

    requests_per_minute: float = 120.0
    """REQ, COUNT, NIP-77 messages, events and NIP-11 documents in the long run: half of the
    strictest limit known, 240 messages a minute, as a REQ has a CLOSE. The events of a sync
    count in bytes alone: it waits for the relay's OK to some before it sends more."""

    requests_at_once: int = 60
    """Requests that may follow each other after a pause: a count that reads 20,000 events takes
    40 pages."""

    bytes_per_minute: int = 15 * 1024 * 1024
    """Bytes of frames, unpacked, in both directions, in the long run: 22 GB a day."""

    bytes_at_once: int = 128 * 1024 * 1024
    """Bytes after a pause: four counts that spend their `ReadBudget`."""

    first_pause: float = 5.0
    """Seconds without a request after a relay said `rate-limited:`, the jitter within: windows
    of relays are seconds to a minute long. Twice as long each time."""

    longest_pause: float = 300.0
    """The longest of these pauses: what relay operators ask for."""

    def __post_init__(self) -> None:
        _require_positive(self)
        if self.longest_pause < self.first_pause:
            raise InvalidInput("RelayBudget.longest_pause must not be below first_pause")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBudget:
    """Bounds what is read from one relay; where it is spent, the number is a lower bound."""

    bytes: int = 32 * 1024 * 1024
    """Bytes of events, passed by one or two at most: 1,000 contact lists are about 30 MB."""

    events: int = 20_000
    """Events: 40 pages of 500, about a second of verification on one core."""

    def __post_init__(self) -> None:
        _require_positive(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """Sets how connections are made."""

    compress: bool = True
    """Offer permessage-deflate: event JSON shrinks three- to fivefold."""

    proxy: str | None = field(default=None, repr=False)
    """URL of a SOCKS5 or HTTP proxy for everything. None: what the environment names (`ALL_PROXY`,
    `HTTPS_PROXY`, `HTTP_PROXY`). "none": no proxy, whatever the environment says."""

    no_proxy: tuple[str, ...] | None = None
    """Hosts that are reached without the proxy, in the forms of `NO_PROXY`; None: that variable."""

    strangers_by_proxy: bool = False
    """Reach relays that only strangers name through the proxy. It resolves their names, so nobody
    checks here that these do not lead into its private network."""

    tls: ssl.SSLContext | None = None
    """None: the system's certificates, verified."""

    local_wallets: bool = False
    """Ask wallets on this machine too, by http: for tests, and for a wallet that runs here."""

    user_agent: str = "nostr-tally"
    """What relays see of us; a version would distinguish clients."""

    def __post_init__(self) -> None:
        choose_proxies(self.proxy, self.no_proxy, {})  # raises InvalidInput

    def proxies(self, environ: Mapping[str, str] | None = None) -> Proxies:
        """Return which URLs go through which proxy; `environ` is by default this process's.

        Raises InvalidInput for a bad variable.
        """
        # No default of os.environ: its values would stand in the signature, and so in documents.
        given = os.environ if environ is None else environ
        return choose_proxies(self.proxy, self.no_proxy, given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Holds all options of a relay, a pool or a client."""

    timeouts: Timeouts = field(default_factory=Timeouts)
    """How long to wait for each step."""

    limits: Limits = field(default_factory=Limits)
    """How much to take from one relay."""

    budget: RelayBudget | None = field(default_factory=RelayBudget)
    """How much to ask of one public relay, by all connections together; None: as fast as it is."""

    share_budget: bool = False
    """Whether the budget is one for all programs of this user that share theirs, by a file in the
    state folder, as the commands and the agent do. Else it is that of this process."""

    unlimited: frozenset[str] = frozenset()
    """URLs of relays, your own, whose hosts are asked without a budget."""

    reconnect: ReconnectPolicy = field(default_factory=ReconnectPolicy)
    """When to connect again."""

    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """Sets how connections are made."""
