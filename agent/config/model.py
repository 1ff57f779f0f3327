"""Declare every setting with its type, default and description.

The reference page and the template of the configuration are made from this module.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from agent.specs import CoverageSpec, DigestSpec, Key, RetentionRule, SyncSpec
from nostr_client.paths import API_PORT, RELAY_PORT
from nostr_client.watch.definition import Duration, Name, Url, Watch

Urls = tuple[Url, ...]
Listen = Annotated[str, Meta(pattern=r"^[^\s/]*:[0-9]{1,5}(?!\n)$", max_length=255)]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file."""


class StoreSection(Section, frozen=True):
    """The file that holds events, claims and counters."""

    path: Annotated[
        str, Meta(description="file of the store; if empty, store.db in your data folder")
    ] = ""
    synchronous: Annotated[
        Literal["normal", "full"],
        Meta(description="full: each commit survives a power loss and needs one fsync"),
    ] = "normal"
    index: Annotated[
        bool,
        Meta(description="also keep derived tables: hot targets, daily numbers, zap sums"),
    ] = True
    cache_mb: Annotated[
        int, Meta(ge=2, le=4096, description="page cache of the writing connection, in MB")
    ] = 16
    most_mb: Annotated[
        int, Meta(ge=0, description="largest size in MB; a full store refuses events; 0: no limit")
    ] = 0
    least_free_mb: Annotated[
        int,
        Meta(
            ge=0,
            description="MB of the disk that stay free; on a small disk, a hundredth of it",
        ),
    ] = 256


class RelaysSection(Section, frozen=True):
    """The relays that the agent asks, trusts and avoids."""

    default: Annotated[
        Urls, Meta(max_length=200, description="relays of watches and syncs that name none")
    ] = ("wss://relay.damus.io", "wss://nos.lol", "wss://relay.primal.net")
    trusted: Annotated[Urls, Meta(description="relays to believe without a test")] = ()
    denied: Annotated[
        Urls, Meta(description="relays to avoid, even if a relay list or a watch names them")
    ] = ()
    indexers: Annotated[
        Urls,
        Meta(description="relays to search for relay lists (NIP-65); if empty, none"),
    ] = ("wss://purplepag.es",)
    monitors: Annotated[
        tuple[Key, ...],
        Meta(
            max_length=20,
            description="keys of monitors (NIP-66); a relay that a monitor reached comes before "
            "other relays that the agent never asked",
        ),
    ] = ()
    unlimited: Annotated[
        Urls,
        Meta(
            max_length=200,
            description="your own relays; the agent asks them without a limit of requests",
        ),
    ] = ()
    trust: Annotated[
        Literal["exclude", "flag", "off"],
        Meta(description="what happens to claims that cannot be true"),
    ] = "exclude"
    at_once: Annotated[
        int, Meta(ge=1, le=20, description="most questions to one relay at the same time")
    ] = 2
    read: Annotated[bool, Meta(description="read the events of relays that send no registers")] = (
        True
    )
    keep_events: Annotated[bool, Meta(description="store the events that watches read")] = False
    most: Annotated[int, Meta(ge=1, le=100, description="most relays to ask of one relay list")] = 4


BUILT_IN: Final = RelaysSection()
"""The relays of a configuration that names none: the user did not name them."""


class NetworkSection(Section, frozen=True):
    """The way to relays, webhooks and other agents."""

    proxy: Annotated[
        str,
        Meta(
            description="URL of a SOCKS5 or HTTP proxy for all connections; if empty, the proxy of "
            "ALL_PROXY, HTTPS_PROXY or HTTP_PROXY; none: no proxy"
        ),
    ] = ""
    no_proxy: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=255)], ...],
        Meta(
            max_length=200,
            description="hosts, domains and networks to reach without the proxy; if empty, those "
            "of NO_PROXY",
        ),
    ] = ()
    strangers_by_proxy: Annotated[
        bool,
        Meta(
            description="also use the proxy for hosts that only other people's events name; the "
            "proxy then resolves their names"
        ),
    ] = False


class IdentitySection(Section, frozen=True):
    """The key that signs AUTH for relays that you name. The key is never in this file."""

    key_file: Annotated[str, Meta(description="file with the key, as nsec or hex")] = ""
    key_command: Annotated[
        tuple[str, ...], Meta(description="program and arguments that print the key")
    ] = ()


class ServiceSection(Section, frozen=True):
    """The process and its log."""

    drain: Annotated[
        Duration, Meta(description="most time for a stop; the agent then cancels running tasks")
    ] = "20s"
    catch_up: Annotated[
        Duration, Meta(description="time over which overdue tasks start after the machine slept")
    ] = "1m"
    log: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="least level of the log's lines"),
    ] = "info"
    log_format: Annotated[
        Literal["auto", "text", "json"],
        Meta(description="auto: key=value on a terminal, JSON otherwise"),
    ] = "auto"


class LocalRelaySection(Section, frozen=True):
    """The local relay, which serves the store to programs on this machine."""

    enabled: Annotated[bool, Meta(description="run the local relay")] = True
    listen: Annotated[
        Listen, Meta(description="HOST:PORT; an address other than loopback needs a token and TLS")
    ] = f"127.0.0.1:{RELAY_PORT}"
    write_keys: Annotated[
        tuple[Key, ...], Meta(description="accept events only of these keys; if empty, of everyone")
    ] = ()
    only_wanted: Annotated[
        bool, Meta(description="accept only events that match a watch or a sync")
    ] = False
    token_file: Annotated[
        str, Meta(description="file with a token that clients need for writing")
    ] = ""
    tls_cert: Annotated[str, Meta(description="PEM certificate chain")] = ""
    tls_key: Annotated[str, Meta(description="PEM key of tls_cert")] = ""
    origins: Annotated[
        tuple[str, ...], Meta(description='web origins that may use the relay; "*" for all')
    ] = ()
    hosts: Annotated[
        tuple[str, ...], Meta(description="host names of the relay besides loopback")
    ] = ()
    urls: Annotated[
        Urls,
        Meta(max_length=50, description="public URLs of the relay, for example behind a proxy"),
    ] = ()


class ApiSection(Section, frozen=True):
    """The HTTP interface that the command line and the terminal application use."""

    listen: Annotated[Listen, Meta(description="HOST:PORT")] = f"127.0.0.1:{API_PORT}"
    token_file: Annotated[
        str,
        Meta(
            description="file with the token for all requests; the agent makes a missing file, "
            "mode 0600; if empty, `token` in the state folder"
        ),
    ] = ""
    read_token_file: Annotated[
        str,
        Meta(
            description="file with the token for reading; the agent makes a missing file, mode "
            "0600; if empty, token_file with `.read` at the end"
        ),
    ] = ""
    source_token_file: Annotated[
        str,
        Meta(
            description="file with the token for agents that read this agent's streams; the agent "
            "makes a missing file; if empty, none"
        ),
    ] = ""
    hosts: Annotated[
        tuple[str, ...], Meta(description="host names that requests may use besides loopback")
    ] = ()
    cors_origins: Annotated[
        tuple[str, ...], Meta(description="web origins whose pages may use the API")
    ] = ()
    body_limit: Annotated[
        int, Meta(ge=1024, le=64 * 1024 * 1024, description="most bytes of one request")
    ] = 1024 * 1024
    connections: Annotated[
        int, Meta(ge=4, le=4096, description="most open connections; the agent refuses more")
    ] = 128
    stream_backlog: Annotated[
        int,
        Meta(
            ge=16,
            le=100_000,
            description="most messages that wait for a slow client of the event stream",
        ),
    ] = 1000
    open_metrics: Annotated[bool, Meta(description="serve /metrics without a token")] = False
    badges: Annotated[
        tuple[Name, ...],
        Meta(max_length=1000, description="watches whose /badge/NAME.svg needs no token"),
    ] = ()


class StreamSection(Section, frozen=True):
    """One stream of counters (ADR-49)."""

    name: Annotated[Name, Meta(description="name of the stream")]
    subjects: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...],
        Meta(
            max_length=100,
            description="subjects of its counters; if empty, only sources add counters",
        ),
    ]


class TransformSection(Section, frozen=True):
    """A rule that selects and renames subjects of a source. The first rule that matches applies."""

    src: Annotated[
        str,
        Meta(
            min_length=1, max_length=256, description="subjects of the source, such as `count.es.*`"
        ),
    ]
    dest: Annotated[
        str,
        Meta(
            max_length=256,
            description="new name, such as `count.eu.{{wildcard(1)}}`; if empty, the same",
        ),
    ] = ""


class SourceSection(Section, frozen=True):
    """A stream of another agent that a stream here adds up. Set either `agent` or `pubkey`."""

    name: Annotated[
        Name,
        Meta(description="name of the source; unique among all agents, and never changed"),
    ]
    stream: Annotated[Name, Meta(description="stream here that adds the counts")]
    of: Annotated[
        str, Meta(max_length=64, description="stream of the other agent; if empty, the same name")
    ] = ""
    agent: Annotated[str, Meta(max_length=2048, description="URL of the other agent's API")] = ""
    token_file: Annotated[str, Meta(description="file with the token of that API")] = ""
    pubkey: Annotated[
        str, Meta(max_length=200, description="key that publishes the stream over Nostr")
    ] = ""
    relays: Annotated[
        Urls, Meta(max_length=50, description="relays with its events; if empty, relays.default")
    ] = ()
    transforms: Annotated[
        tuple[TransformSection, ...],
        Meta(max_length=100, description="rules for subjects; if empty, all subjects unchanged"),
    ] = ()
    interval: Annotated[Duration, Meta(description="time between two reads, at least 100ms")] = (
        "30s"
    )
    most_subjects: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="most subjects of the source; the agent ignores more"),
    ] = 10_000


class PublishSection(Section, frozen=True):
    """A stream that the agent publishes as an event of kind 30078, for other agents to read."""

    stream: Annotated[Name, Meta(description="name of the stream, and `d` tag of the event")]
    subjects: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...],
        Meta(max_length=100, description="counters to publish"),
    ] = (">",)
    relays: Annotated[
        Urls, Meta(max_length=50, description="relays to publish to; if empty, relays.default")
    ] = ()
    interval: Annotated[
        Duration, Meta(description="least time between two events, at least 100ms")
    ] = "1m"
    readers: Annotated[
        tuple[Key, ...],
        Meta(
            max_length=100, description="keys that can decrypt it (NIP-44); if empty, not encrypted"
        ),
    ] = ()


class PushSection(Section, frozen=True):
    """A stream whose values the agent pushes to a nats-server, exactly once."""

    name: Annotated[Name, Meta(description="name of the push; never changed")]
    stream: Annotated[Name, Meta(description="stream of this agent")]
    servers: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=2048)], ...],
        Meta(
            min_length=1,
            max_length=20,
            description="URLs such as `nats://host:4222`, all of one cluster",
        ),
    ]
    agent: Annotated[
        Name,
        Meta(description="name of this agent in `count.AGENT.>`; unique, and never changed"),
    ]
    subjects: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...],
        Meta(max_length=100, description="counters to publish"),
    ] = (">",)
    into: Annotated[Name, Meta(description="stream of the server")] = "AGENTS"
    total: Annotated[
        str,
        Meta(
            max_length=64,
            description="stream of the server that adds up all agents; if empty, none",
        ),
    ] = ""
    create: Annotated[bool, Meta(description="create these two streams if they are missing")] = True
    credentials: Annotated[str, Meta(description="path of a .creds file")] = ""
    domain: Annotated[str, Meta(max_length=64, description="JetStream domain of the server")] = ""
    interval: Annotated[Duration, Meta(description="time between two pushes, at least 100ms")] = (
        "10s"
    )


class CountersSection(Section, frozen=True):
    """Counters with exact sums, in the store."""

    ingest: Annotated[
        bool, Meta(description="count stored events by kind, relay and zapped person")
    ] = False
    streams: Annotated[
        tuple[StreamSection, ...],
        Meta(max_length=100, description="streams; the agent creates missing ones"),
    ] = (StreamSection(name="app", subjects=("app.>",)),)
    sources: Annotated[
        tuple[SourceSection, ...],
        Meta(max_length=200, description="streams of other agents to add up"),
    ] = ()
    publish: Annotated[
        tuple[PublishSection, ...],
        Meta(max_length=100, description="streams to publish over Nostr"),
    ] = ()
    push: Annotated[
        tuple[PushSection, ...], Meta(max_length=100, description="streams to push to NATS")
    ] = ()


class AssertionsSection(Section, frozen=True):
    """Counts that the agent publishes as signed cards for other clients (NIP-85)."""

    key_file: Annotated[
        str,
        Meta(
            description="file with a key that signs only cards, or with a bunker:// link; never "
            "your own key; if empty, no cards"
        ),
    ] = ""
    key_command: Annotated[
        tuple[str, ...],
        Meta(description="program and arguments that print that key, instead of a file"),
    ] = ()
    relays: Annotated[
        Urls, Meta(max_length=50, description="relays to publish to; if empty, relays.default")
    ] = ()
    watches: Annotated[
        tuple[Name, ...],
        Meta(max_length=10_000, description="watches whose number becomes a card of their subject"),
    ] = ()
    subjects: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=4096)], ...],
        Meta(
            max_length=100_000,
            description="subjects of cards: npub, note, nevent, naddr, or i:IDENTIFIER (NIP-73)",
        ),
    ] = ()
    followed_by: Annotated[
        str,
        Meta(
            max_length=200,
            description="key; the people in its stored follow list get cards",
        ),
    ] = ""
    all_subjects: Annotated[
        bool,
        Meta(description="make a card for every author and event in the store"),
    ] = False
    interval: Annotated[
        Duration,
        Meta(description="time between two counts of the store; each reads all its events"),
    ] = "1h"
    step: Annotated[
        float,
        Meta(ge=0, le=100, description="change of a number, in percent, that makes a new card"),
    ] = 1.0
    fields: Annotated[
        tuple[Annotated[str, Meta(max_length=64)], ...],
        Meta(max_length=50, description="personal fields to publish, too"),
    ] = ()
    claimed_zaps: Annotated[
        bool,
        Meta(
            description="count zap receipts that no known wallet signed; never change it for a key"
        ),
    ] = False
    name: Annotated[str, Meta(max_length=200, description="name in the profile of the key")] = (
        "nostr-tally"
    )

    @property
    def is_on(self) -> bool:
        """Whether a key is named, so that cards are published."""
        return bool(self.key_file or self.key_command)


class RetentionSection(Section, frozen=True):
    """The removal of old events. Without rules, the agent removes none."""

    interval: Annotated[Duration, Meta(description="time between two removals, at least 100ms")] = (
        "1h"
    )
    step: Annotated[
        int, Meta(ge=1, le=10_000, description="most events to remove in one transaction")
    ] = 200
    rules: Annotated[
        tuple[RetentionRule, ...],
        Meta(max_length=100, description="rules that select events to remove"),
    ] = ()


class Config(Section, frozen=True):
    """The whole file."""

    store: StoreSection = StoreSection()
    relays: RelaysSection = RelaysSection()
    network: NetworkSection = NetworkSection()
    identity: IdentitySection = IdentitySection()
    service: ServiceSection = ServiceSection()
    relay: LocalRelaySection = LocalRelaySection()
    api: ApiSection = ApiSection()
    counters: CountersSection = CountersSection()
    assertions: AssertionsSection = AssertionsSection()
    retention: RetentionSection = RetentionSection()
    digest: DigestSpec = DigestSpec()
    watches: Annotated[tuple[Watch, ...], Meta(max_length=10_000)] = ()
    syncs: Annotated[tuple[SyncSpec, ...], Meta(max_length=1_000)] = ()
    coverage: Annotated[tuple[CoverageSpec, ...], Meta(max_length=100)] = ()
