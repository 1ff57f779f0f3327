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
    """For name lookup, TCP, TLS and the WebSocket handshake. Slow mobile links need 5 to 8
    seconds."""

    count: float = 10.0
    """For one COUNT on one relay. Big relays need 3 to 5 seconds for a popular author's
    followers."""

    group: float = 15.0
    """For all relays of one question together. A relay that answers later has the status timeout.
    """

    eose: float = 20.0
    """Between two events while a relay sends the stored events of a query."""

    publish: float = 10.0
    """For the OK to one event. Relays verify and write an event before they answer."""

    auth: float = 10.0
    """For the OK to an AUTH event. A remote signer may first ask its owner."""

    http: float = 10.0
    """For a whole NIP-11 document, which is small."""

    send: float = 20.0
    """For one outgoing frame if the peer does not read."""

    page: float = 300.0
    """For all stored events of one query, even if the relay sends them without a pause."""

    close: float = 2.0
    """For the closing handshake. Nothing is lost if the relay does not answer."""

    heartbeat: float = 30.0
    """Between two pings. Proxies close idle connections after 60 seconds, mobile networks after 30
    to 120 seconds.
    """

    def __post_init__(self) -> None:
        _require_positive(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sets how much to accept from one relay. The client counts what it refuses."""

    message_bytes_in: int = 2 * 1024 * 1024
    """Bytes of one incoming message. A contact list of 10,000 follows has 850 kB."""

    message_bytes_out: int = 120_000
    """Bytes of one outgoing message. strfry closes the connection above 131,072."""

    info: int = 256 * 1024
    """Bytes of a NIP-11 document. The largest documents seen have 20 kB."""

    event_tags: int = 20_000
    """Tags of one event. A frame of `message_bytes_in` has room for 300,000 empty tags."""

    queue: int = 1_000
    """Events in the queue of one subscription. If the queue is full, the client stops reading from
    the relay, or loses events."""

    subscriptions: int = 20
    """Open REQs on one connection. Further REQs wait. strfry has the same default."""

    notices: int = 20
    """NOTICEs that the client keeps for display. The client only counts further ones."""

    notices_per_minute: int = 60
    """NOTICEs of one relay in a minute. Above this number, the client disconnects."""

    waiting: int = 1_000
    """Requests that wait for a free subscription or for the connection. The client refuses further
    ones."""

    mismatch_slack: int = 100
    """Events that do not match the filter. Above this number, the client closes the subscription.
    """

    junk_frames: int = 100
    """Unreadable frames before the client disconnects. A relay with a newer protocol may send a
    few."""

    messages_per_second: int = 20_000
    """Incoming frames of one relay in a second, ten times what one core verifies."""

    messages_per_second_out: int = 500
    """Frames to one relay in a second, and in the first burst. Busy relays can process this rate.
    The limit does not apply to an upload, because the relay's OKs set the speed of the upload."""

    verify_chunk: int = 128
    """Events that a worker thread verifies at a time. From 64 to 256, the cost of the thread switch
    is negligible."""

    relays: int = 200
    """Relays in one pool. Some relay lists name thousands."""

    def __post_init__(self) -> None:
        _require_positive(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectPolicy:
    """Sets when to connect again.

    Each delay is random between `first` and a limit that doubles up to `longest`. So the clients of
    a restarted relay do not all reconnect at the same moment.
    """

    first: float = 1.0
    """Shortest delay in seconds. Relays ban clients that reconnect at once."""

    longest: float = 300.0
    """Longest delay in seconds, as relay operators request."""

    stable_after: float = 60.0
    """Seconds that a connection must last before the delays start from `first` again."""

    attempts: int | None = None
    """Failures in a row before the client gives up. None: the client never gives up."""

    def __post_init__(self) -> None:
        _require_positive(self)
        if self.longest < self.first:
            raise InvalidInput("ReconnectPolicy.longest must not be below first")


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayBudget:
    """Limits what all connections of a process ask of one public relay.

    The budget applies to a host. Relays on loopback and private addresses have no budget.
    """

    requests_per_minute: float = 120.0
    """REQ, COUNT, NIP-77 messages, events and NIP-11 documents in a minute, on average. The
    strictest known limit of a relay is 240 messages a minute. The default is half of that limit,
    because each REQ also needs a CLOSE. The events of a sync count only as bytes, because a sync
    waits for the relay's OKs."""

    requests_at_once: int = 60
    """Requests in a row after a pause. A count that reads 20,000 events needs 40 pages."""

    bytes_per_minute: int = 15 * 1024 * 1024
    """Bytes of uncompressed frames in both directions in a minute, on average. The default is 22 GB
    a day."""

    bytes_at_once: int = 128 * 1024 * 1024
    """Bytes in a row after a pause. The default has room for four counts that each spend their
    whole `ReadBudget`."""

    first_pause: float = 5.0
    """Seconds without requests after a relay answers `rate-limited:`, including the jitter. Each
    further pause is twice as long."""

    longest_pause: float = 300.0
    """Longest pause in seconds, as relay operators request."""

    def __post_init__(self) -> None:
        _require_positive(self)
        if self.longest_pause < self.first_pause:
            raise InvalidInput("RelayBudget.longest_pause must not be below first_pause")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBudget:
    """Limits what a count reads from one relay.

    If a count spends the budget, its number is a lower bound.
    """

    bytes: int = 32 * 1024 * 1024
    """Bytes of events. The client may read one or two events above this size. 1,000 contact lists
    have about 30 MB."""

    events: int = 20_000
    """Number of events. 20,000 events are 40 pages of 500, and one core verifies them in a second.
    """

    def __post_init__(self) -> None:
        _require_positive(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """Sets how to connect."""

    compress: bool = True
    """Offer permessage-deflate. Event JSON shrinks to a fifth or a third."""

    proxy: str | None = field(default=None, repr=False)
    """URL of a SOCKS5 or HTTP proxy for all connections. None: the proxy in `ALL_PROXY`,
    `HTTPS_PROXY` or `HTTP_PROXY`. "none": no proxy, even if these variables name one."""

    no_proxy: tuple[str, ...] | None = None
    """Hosts to reach without the proxy, in the form of `NO_PROXY`. None: the value of `NO_PROXY`.
    """

    strangers_by_proxy: bool = False
    """Use the proxy also for relays that only strangers name. The proxy resolves the names of these
    relays. So the client cannot check that a name does not lead into the proxy's private network.
    """

    tls: ssl.SSLContext | None = None
    """TLS settings. None: verify by the certificates of the system."""

    local_wallets: bool = False
    """Also ask wallets on this machine, by http. Use it for tests and for your own wallet."""

    user_agent: str = "nostr-tally"
    """Name that relays see. A version in it would distinguish clients."""

    def __post_init__(self) -> None:
        choose_proxies(self.proxy, self.no_proxy, {})  # raises InvalidInput

    def proxies(self, environ: Mapping[str, str] | None = None) -> Proxies:
        """Return which proxy each URL uses.

        `environ` is the environment, by default that of this process. Raises InvalidInput for a bad
        variable.
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
    """How much to accept from one relay."""

    budget: RelayBudget | None = field(default_factory=RelayBudget)
    """How much to ask of one public relay, over all connections. None: no limit."""

    share_budget: bool = False
    """Whether all programs of this user that set this option share one budget. A file in the state
    folder has the shared budget. The commands and the agent set this option. False: the process has
    its own budget."""

    unlimited: frozenset[str] = frozenset()
    """URLs of your own relays. Their hosts have no budget."""

    reconnect: ReconnectPolicy = field(default_factory=ReconnectPolicy)
    """When to connect again."""

    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """How to connect."""
