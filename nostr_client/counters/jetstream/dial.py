"""Reaching a nats-server: where, with which credentials, and what to say when it cannot be."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import nats
from nats.aio.client import RawCredentials

from nostr_client.counters.jetstream.credentials import read_credentials
from nostr_client.counters.jetstream.failures import mapped
from nostr_client.errors import InvalidInput, NetworkError, clip, without_user
from nostr_client.options import ConnectionOptions
from nostr_client.routes import route

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence

    from nats.aio.client import Client

log = logging.getLogger(__name__)

TIMEOUT_S = 5.0
"""How long one request may take: a server answers in milliseconds, a leader election in seconds."""

CONNECT_S = 5
"""How long one server may take to answer before the next is tried."""

SCHEMES = ("nats", "tls", "ws", "wss")

_OFTEN = -1  # nats-py: reconnect for as long as the client is open


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsOptions:
    """How to reach JetStream on a nats-server."""

    domain: str | None = None
    """A JetStream domain, e.g. of a leaf node."""

    api_prefix: str | None = None
    """What stands in for `$JS.API`: an import of another account's. Excludes a domain."""

    credentials: str | None = None
    """The path of a .creds file; read once, when connecting."""

    tls: ssl.SSLContext | None = None
    token: str | None = None

    timeout_s: float = TIMEOUT_S

    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """nats-py knows no proxy: a server that these options reach through one is refused."""

    @property
    def prefix(self) -> str:
        """Where the API answers; raises InvalidInput for a domain beside a prefix."""
        if self.domain and self.api_prefix:
            raise InvalidInput("give a JetStream domain or an API prefix, not both")
        if self.domain:
            return f"$JS.{self.domain}.API"
        return (self.api_prefix or "$JS.API").rstrip(".")


class _Heard:
    """What went wrong: nats-py tells it, and tries again. A server's word is better than a
    connection that it then reset."""

    def __init__(self) -> None:
        self.why = ""

    async def note(self, error: Exception) -> None:
        text = clip(str(error) or type(error).__name__)
        log.debug("nats: %s", text)
        if not self.why or not isinstance(error, OSError):
            self.why = f": {text}"


def _settings(options: NatsOptions) -> dict[str, Any]:
    """What nats-py is told besides where; raises InvalidInput."""
    found: dict[str, Any] = {"tls": options.tls, "token": options.token}
    if options.credentials is not None:
        found["user_credentials"] = RawCredentials(read_credentials(options.credentials))
    return found


def check_urls(urls: Sequence[str]) -> list[str]:
    """Where nats-servers are; raises InvalidInput for what nats-py would stumble over."""
    if not urls:
        raise InvalidInput("not one URL of a nats-server")
    found = [url if "://" in url else f"nats://{url}" for url in urls]
    for url in found:
        if not _is_url(url):
            raise InvalidInput(
                f"not the URL of a nats-server (nats://host:4222): {without_user(url)!r}"
            )
    return found


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        named = parts.scheme in SCHEMES and parts.hostname and parts.port != 0
    except ValueError:
        return False
    return bool(named) and url.isascii() and url.isprintable() and " " not in url


async def dial(urls: Sequence[str], options: NatsOptions) -> Client:
    """Connect to the first server that answers.

    Raises NetworkError, InvalidInput (no URL, no credentials in the file, a proxy in between).
    """
    servers, heard = check_urls(urls), _Heard()
    for url in servers:
        _refuse_proxy(url, options.connection)
    settings = _settings(options)
    try:
        async with asyncio.timeout(CONNECT_S * len(servers)):
            return await _connect(servers, settings, heard)
    except TimeoutError as error:
        why = f"no nats-server could be reached{heard.why}"
        raise NetworkError(why, relay=without_user(servers[0])) from error


def _refuse_proxy(url: str, connection: ConnectionOptions) -> None:
    if route(url, connection) is not None:
        host = clip(urlsplit(url).hostname or "", 60)
        raise InvalidInput(
            f"a nats-server is not reached through a proxy: NO_PROXY has to name {host}, "
            "or the proxy has to be none"
        )


async def _connect(servers: list[str], settings: Mapping[str, Any], heard: _Heard) -> Client:
    """nats-py tries for ever, also the first time: the caller has the deadline."""
    with mapped(without_user(servers[0])):
        return await nats.connect(
            servers,
            error_cb=heard.note,
            connect_timeout=CONNECT_S,
            max_reconnect_attempts=_OFTEN,
            allow_reconnect=True,
            **settings,
        )
