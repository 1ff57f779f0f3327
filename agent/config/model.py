"""Declares every setting with type, default and reason; reference and template are made from it."""

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
    """Where events, claims and counters live."""

    path: Annotated[
        str, Meta(description="the store's file; empty: store.db in the user's data folder")
    ] = ""
    synchronous: Annotated[
        Literal["normal", "full"],
        Meta(description="full: a commit also survives a power loss, one fsync each"),
    ] = "normal"
    index: Annotated[
        bool,
        Meta(description="keep derived tables beside it: hot targets, daily numbers, zap sums"),
    ] = True
    cache_mb: Annotated[int, Meta(ge=2, le=4096, description="page cache of the writer, in MB")] = (
        16
    )
    most_mb: Annotated[
        int, Meta(ge=0, description="size in MB from which no events are taken; 0: no limit")
    ] = 0
    least_free_mb: Annotated[
        int,
        Meta(
            ge=0,
            description="MB of its disk that events leave free; a hundredth of a small disk",
        ),
    ] = 256


class RelaysSection(Section, frozen=True):
    """Which relays are asked, believed and avoided."""

    default: Annotated[
        Urls, Meta(max_length=200, description="asked where a watch or a sync names none")
    ] = ("wss://relay.damus.io", "wss://nos.lol", "wss://relay.primal.net")
    trusted: Annotated[Urls, Meta(description="believed whatever the tests of claims say")] = ()
    denied: Annotated[
        Urls, Meta(description="never connected to, even if a list or a watch names them")
    ] = ()
    indexers: Annotated[
        Urls,
        Meta(description="where relay lists (NIP-65) are looked up; empty: nowhere"),
    ] = ("wss://purplepag.es",)
    monitors: Annotated[
        tuple[Key, ...],
        Meta(
            max_length=20,
            description="keys of monitors (NIP-66): relays of a list that they reached come before "
            "others that were never asked",
        ),
    ] = ()
    unlimited: Annotated[
        Urls,
        Meta(
            max_length=200, description="your own: asked as fast as they answer, without a budget"
        ),
    ] = ()
    trust: Annotated[
        Literal["exclude", "flag", "off"],
        Meta(description="what happens to claims that cannot be true"),
    ] = "exclude"
    at_once: Annotated[
        int, Meta(ge=1, le=20, description="questions that one relay has to answer at once")
    ] = 2
    read: Annotated[
        bool,
        Meta(description="read the events of relays that send no registers, and people's profiles"),
    ] = True
    keep_events: Annotated[
        bool,
        Meta(
            description="keep all events that are read for watches in the store, not only profiles"
        ),
    ] = False
    most: Annotated[
        int, Meta(ge=1, le=100, description="relays asked of those that one relay list names")
    ] = 4


BUILT_IN: Final = RelaysSection()
"""The relays of a configuration that names none: the user did not name them."""


class NetworkSection(Section, frozen=True):
    """How the agent reaches relays, webhooks and other agents."""

    proxy: Annotated[
        str,
        Meta(
            description="URL of a SOCKS5 or HTTP proxy for everything; empty: what ALL_PROXY, "
            "HTTPS_PROXY and HTTP_PROXY name; none: no proxy"
        ),
    ] = ""
    no_proxy: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=255)], ...],
        Meta(
            max_length=200,
            description="hosts, domains and networks that are reached directly; empty: those of "
            "NO_PROXY",
        ),
    ] = ()
    strangers_by_proxy: Annotated[
        bool,
        Meta(
            description="reach hosts that only strangers name through the proxy, which alone sees "
            "where they lead"
        ),
    ] = False


class IdentitySection(Section, frozen=True):
    """The key that answers AUTH, only to relays that you name; never in this file."""

    key_file: Annotated[str, Meta(description="file that holds an nsec or hex key")] = ""
    key_command: Annotated[
        tuple[str, ...], Meta(description="program and arguments that print the key")
    ] = ()


class ServiceSection(Section, frozen=True):
    """How the process behaves."""

    drain: Annotated[
        Duration, Meta(description="how long stopping may take; what runs then is cut off")
    ] = "20s"
    catch_up: Annotated[
        Duration, Meta(description="over how long overdue work is spread after a sleep")
    ] = "1m"
    log: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="what is logged")
    ] = "info"
    log_format: Annotated[
        Literal["auto", "text", "json"],
        Meta(description="auto: key=value on a terminal, JSON otherwise"),
    ] = "auto"


class LocalRelaySection(Section, frozen=True):
    """The store as a relay for programs on this machine."""

    enabled: Annotated[bool, Meta(description="serve it")] = True
    listen: Annotated[
        Listen, Meta(description="HOST:PORT; other than loopback needs a token, and TLS")
    ] = f"127.0.0.1:{RELAY_PORT}"
    write_keys: Annotated[
        tuple[Key, ...], Meta(description="take events of these keys only; empty: of everyone")
    ] = ()
    only_wanted: Annotated[
        bool, Meta(description="take only events that a watch or a sync asks for")
    ] = False
    token_file: Annotated[str, Meta(description="writing needs the token in this file")] = ""
    tls_cert: Annotated[str, Meta(description="PEM certificate chain")] = ""
    tls_key: Annotated[str, Meta(description="PEM key of tls_cert")] = ""
    origins: Annotated[
        tuple[str, ...], Meta(description='web origins that may use it; "*" for all')
    ] = ()
    hosts: Annotated[
        tuple[str, ...], Meta(description="host names by which it is known besides loopback")
    ] = ()
    urls: Annotated[
        Urls, Meta(max_length=50, description="URLs by which it is known, as behind a proxy")
    ] = ()


class ApiSection(Section, frozen=True):
    """The HTTP interface that the command line and the terminal application use."""

    listen: Annotated[Listen, Meta(description="HOST:PORT")] = f"127.0.0.1:{API_PORT}"
    token_file: Annotated[
        str,
        Meta(
            description="the token that manages, made if missing, mode 0600;"
            " empty: `token` beside the state"
        ),
    ] = ""
    read_token_file: Annotated[
        str,
        Meta(
            description="the token that only reads, made if missing, mode 0600;"
            " empty: token_file with `.read` after it"
        ),
    ] = ""
    source_token_file: Annotated[
        str,
        Meta(
            description="the token that agents which source this one need, made if missing;"
            " empty: none"
        ),
    ] = ""
    hosts: Annotated[
        tuple[str, ...], Meta(description="host names that requests may name besides loopback")
    ] = ()
    cors_origins: Annotated[
        tuple[str, ...], Meta(description="web origins whose pages may call it; none by default")
    ] = ()
    body_limit: Annotated[
        int, Meta(ge=1024, le=64 * 1024 * 1024, description="bytes of one request")
    ] = 1024 * 1024
    connections: Annotated[
        int, Meta(ge=4, le=4096, description="open connections; further ones are turned away")
    ] = 128
    stream_backlog: Annotated[
        int, Meta(ge=16, le=100_000, description="messages that wait for a slow stream client")
    ] = 1000
    open_metrics: Annotated[bool, Meta(description="serve /metrics without a token")] = False
    badges: Annotated[
        tuple[Name, ...],
        Meta(max_length=1000, description="watches whose /badge/NAME.svg anybody may see"),
    ] = ()


class StreamSection(Section, frozen=True):
    """One stream of counters (ADR-49)."""

    name: Annotated[Name, Meta(description="the stream")]
    subjects: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...],
        Meta(
            max_length=100,
            description="which subjects are its counters; none: only what its sources bring",
        ),
    ]


class TransformSection(Section, frozen=True):
    """Which subjects of a source are taken, and as what; the first that fits counts."""

    src: Annotated[
        str, Meta(min_length=1, max_length=256, description="subjects there, as `count.es.*`")
    ]
    dest: Annotated[
        str,
        Meta(max_length=256, description="as what, e.g. `count.eu.{{wildcard(1)}}`; empty: same"),
    ] = ""


class SourceSection(Section, frozen=True):
    """A stream of another agent whose counts flow into one of ours; `agent` or `pubkey`."""

    name: Annotated[
        Name,
        Meta(description="unique in the fleet, and for ever: what it brought is kept under it"),
    ]
    stream: Annotated[Name, Meta(description="the stream here that it flows into")]
    of: Annotated[str, Meta(max_length=64, description="the stream there; empty: as here")] = ""
    agent: Annotated[str, Meta(max_length=2048, description="URL of the other agent's API")] = ""
    token_file: Annotated[str, Meta(description="file with the token of that API")] = ""
    pubkey: Annotated[
        str, Meta(max_length=200, description="over Nostr: the key that publishes the stream")
    ] = ""
    relays: Annotated[
        Urls, Meta(max_length=50, description="where its events are; empty: relays.default")
    ] = ()
    transforms: Annotated[
        tuple[TransformSection, ...],
        Meta(max_length=100, description="which subjects, and as what; none: all, as they are"),
    ] = ()
    interval: Annotated[Duration, Meta(description="how often it is asked; 100ms at least")] = "30s"
    most_subjects: Annotated[
        int, Meta(ge=1, le=1_000_000, description="subjects that it may bring; more are left out")
    ] = 10_000


class PublishSection(Section, frozen=True):
    """A stream whose values are published as an event of kind 30078, for others to source."""

    stream: Annotated[Name, Meta(description="the stream, and the event's `d`")]
    subjects: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...],
        Meta(max_length=100, description="which of its counters"),
    ] = (">",)
    relays: Annotated[Urls, Meta(max_length=50, description="where to; empty: relays.default")] = ()
    interval: Annotated[Duration, Meta(description="how often at most; 100ms at least")] = "1m"
    readers: Annotated[
        tuple[Key, ...],
        Meta(max_length=100, description="encrypt it (NIP-44) to these keys; empty: for everyone"),
    ] = ()


class PushSection(Section, frozen=True):
    """A stream whose values are pushed to a nats-server, exactly once, under this agent's token."""

    name: Annotated[Name, Meta(description="what was pushed is remembered under it")]
    stream: Annotated[Name, Meta(description="the stream here")]
    servers: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=2048)], ...],
        Meta(min_length=1, max_length=20, description="`nats://host:4222`; several of one cluster"),
    ]
    agent: Annotated[
        Name,
        Meta(description="`count.AGENT.>` there is this store's alone: one token, for ever"),
    ]
    subjects: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...],
        Meta(max_length=100, description="which of its counters"),
    ] = (">",)
    into: Annotated[Name, Meta(description="the stream there")] = "AGENTS"
    total: Annotated[
        str,
        Meta(max_length=64, description="the stream there that sums up all agents; empty: none"),
    ] = ""
    create: Annotated[bool, Meta(description="make these two where they are missing")] = True
    credentials: Annotated[str, Meta(description="a .creds file")] = ""
    domain: Annotated[str, Meta(max_length=64, description="the JetStream domain there")] = ""
    interval: Annotated[
        Duration, Meta(description="how often values are compared and sent; 100ms at least")
    ] = "10s"


class CountersSection(Section, frozen=True):
    """Exact sums, kept in the store."""

    ingest: Annotated[
        bool, Meta(description="count what the store takes in: by kind, relay, and zapped person")
    ] = False
    streams: Annotated[
        tuple[StreamSection, ...], Meta(max_length=100, description="made where they are missing")
    ] = (StreamSection(name="app", subjects=("app.>",)),)
    sources: Annotated[
        tuple[SourceSection, ...], Meta(max_length=200, description="whose counts flow in")
    ] = ()
    publish: Annotated[
        tuple[PublishSection, ...], Meta(max_length=100, description="what flows out over Nostr")
    ] = ()
    push: Annotated[
        tuple[PushSection, ...], Meta(max_length=100, description="what flows out to NATS")
    ] = ()


class AssertionsSection(Section, frozen=True):
    """Counts that are published as signed cards, which other clients read (NIP-85)."""

    key_file: Annotated[
        str,
        Meta(
            description="file with a key for cards alone, never yours, or with the bunker:// link "
            "of one; empty: none are published"
        ),
    ] = ""
    key_command: Annotated[
        tuple[str, ...],
        Meta(description="program and arguments that print that key, in place of a file"),
    ] = ()
    relays: Annotated[Urls, Meta(max_length=50, description="where to; empty: relays.default")] = ()
    watches: Annotated[
        tuple[Name, ...],
        Meta(max_length=10_000, description="whose subjects get a card with the watch's number"),
    ] = ()
    subjects: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=4096)], ...],
        Meta(max_length=100_000, description="npub, note, nevent, naddr, or i:IDENTIFIER (NIP-73)"),
    ] = ()
    followed_by: Annotated[
        str,
        Meta(
            max_length=200,
            description="a key; the people it follows, by the stored list, get cards",
        ),
    ] = ""
    all_subjects: Annotated[
        bool,
        Meta(description="every author and event of the store gets a card, as with publish --all"),
    ] = False
    interval: Annotated[
        Duration, Meta(description="how often the store is counted; each run reads all its events")
    ] = "1h"
    step: Annotated[
        float,
        Meta(ge=0, le=100, description="percent by which a number changes before it is sent again"),
    ] = 1.0
    fields: Annotated[
        tuple[Annotated[str, Meta(max_length=64)], ...],
        Meta(max_length=50, description="personal fields that are published too"),
    ] = ()
    claimed_zaps: Annotated[
        bool, Meta(description="count zap receipts that no known wallet signed; a key keeps it")
    ] = False
    name: Annotated[str, Meta(max_length=200, description="in the profile of the key")] = (
        "nostr-tally"
    )

    @property
    def is_on(self) -> bool:
        """Whether a key is named, so that cards are published."""
        return bool(self.key_file or self.key_command)


class RetentionSection(Section, frozen=True):
    """What is removed again; without rules nothing is."""

    interval: Annotated[
        Duration, Meta(description="how often the rules are applied; 100ms at least")
    ] = "1h"
    step: Annotated[int, Meta(ge=1, le=10_000, description="events removed in one transaction")] = (
        200
    )
    rules: Annotated[tuple[RetentionRule, ...], Meta(max_length=100)] = ()


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
