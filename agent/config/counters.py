"""Checks what types cannot express in the section of the counters."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent.specs import check_agent_url
from nostr_client.codecs import nip19
from nostr_client.codecs.relay_url import normalize
from nostr_client.counters.config import (
    SourceConfig,
    StreamConfig,
    TransformConfig,
    check_config,
    check_name,
)
from nostr_client.counters.push.report import PushOptions
from nostr_client.counters.subjects import is_pattern
from nostr_client.errors import CounterError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agent.config.model import (
        Config,
        PublishSection,
        PushSection,
        SourceSection,
        TransformSection,
    )

    Path = tuple[str | int, ...]
    Complain = Callable[[Path, str], None]

AT = ("counters",)


def source_config(section: SourceSection) -> SourceConfig:
    """A source as the counters know it: its name there is its name in every source map."""
    return SourceConfig(section.name, subject_transforms=tuple(map(_transform, section.transforms)))


def _transform(section: TransformSection) -> TransformConfig:
    return TransformConfig(section.src, section.dest)


def check_counters(config: Config, complain: Complain) -> None:
    """Complain about streams, sources and what is published."""
    section = config.counters
    _check_unique((*AT, "streams"), "name", (s.name for s in section.streams), complain)
    _check_unique((*AT, "sources"), "name", (s.name for s in section.sources), complain)
    _check_unique((*AT, "publish"), "stream", (p.stream for p in section.publish), complain)
    streams = {stream.name for stream in section.streams}
    for n, source in enumerate(section.sources):
        at = (*AT, "sources", n)
        if source.stream not in streams:
            complain((*at, "stream"), f"counters.streams has no {source.stream}")
        if source.name in streams:
            complain((*at, "name"), "is the name of a stream here: one of them needs another")
        _check_source(source, complain, at)
    for n, publish in enumerate(section.publish):
        at = (*AT, "publish", n)
        if publish.stream not in streams:
            complain((*at, "stream"), f"counters.streams has no {publish.stream}")
        if not config.identity.key_file and not config.identity.key_command:
            complain(at, "needs identity.key_file or identity.key_command to sign with")
        _check_publish(publish, complain, at)
    _check_unique((*AT, "push"), "name", (p.name for p in section.push), complain)
    for n, push in enumerate(section.push):
        at = (*AT, "push", n)
        if push.stream not in streams:
            complain((*at, "stream"), f"counters.streams has no {push.stream}")
        _check_push(push, complain, at)


def _check_unique(at: Path, key: str, names: Iterable[str], complain: Complain) -> None:
    seen: set[str] = set()
    for n, name in enumerate(names):
        if name in seen:
            complain((*at, n, key), f"there are two called {name}")
        seen.add(name)


def _check_source(source: SourceSection, complain: Complain, at: Path) -> None:
    if bool(source.agent) == bool(source.pubkey):
        complain(at, "needs either agent or pubkey")
    if source.agent:
        _try(complain, (*at, "agent"), check_agent_url, source.agent)
        if not source.token_file:
            complain((*at, "token_file"), "is missing: the other agent's API asks for its token")
    if source.pubkey:
        _try(complain, (*at, "pubkey"), nip19.decode_pubkey, source.pubkey)
    for n, url in enumerate(source.relays):
        _try(complain, (*at, "relays", n), normalize, url)
    for n, transform in enumerate(source.transforms):
        _try(complain, (*at, "transforms", n), _transform(transform).check)
    _try(complain, (*at, "transforms"), check_config, _alone(source))


def _alone(source: SourceSection) -> StreamConfig:
    sound = [t for t in source.transforms if is_pattern(t.src)]
    alone = SourceConfig(source.name, subject_transforms=tuple(map(_transform, sound)))
    return StreamConfig(name=source.stream, allow_msg_counter=True, sources=(alone,))


def _check_publish(publish: PublishSection, complain: Complain, at: Path) -> None:
    for n, subject in enumerate(publish.subjects):
        if not is_pattern(subject):
            complain((*at, "subjects", n), "is not a subject or pattern")
    for n, url in enumerate(publish.relays):
        _try(complain, (*at, "relays", n), normalize, url)
    for n, key in enumerate(publish.readers):
        _try(complain, (*at, "readers", n), nip19.decode_pubkey, key)


def push_options(section: PushSection) -> PushOptions:
    """A push as the counters know it."""
    return PushOptions(
        agent=section.agent, into=section.into, total=section.total, patterns=section.subjects
    )


def _check_push(push: PushSection, complain: Complain, at: Path) -> None:
    _try(complain, at, push_options, push)
    for key, name in (("into", push.into), ("total", push.total or push.into)):
        _try(complain, (*at, key), check_name, name)
    if push.total == push.into:
        complain((*at, "total"), "is another stream than `into`")
    for n, url in enumerate(push.servers):
        if not url.startswith(("nats://", "tls://", "ws://", "wss://")):
            complain((*at, "servers", n), "is not a nats://, tls://, ws:// or wss:// URL")
        elif not _has_host(url):
            complain((*at, "servers", n), "is not a URL: expected nats://HOST:PORT")


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _try(complain: Complain, path: Path, check: Callable[..., object], *values: object) -> None:
    try:
        check(*values)
    except (InvalidInput, CounterError) as error:
        complain(path, str(error))
