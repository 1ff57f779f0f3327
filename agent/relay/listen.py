"""Opens the sockets and TLS of a relay, and computes the URLs by which it is known."""

from __future__ import annotations

import errno
import re
import socket
import ssl
from typing import TYPE_CHECKING, Final

from nostr_client.codecs.relay_url import normal_or_none, normalize
from nostr_client.errors import InvalidInput, NetworkError
from nostr_client.paths import check_secret_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent.relay.options import RelayAccess, RelayOptions

_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[^\s/?#@:\[\]*]+)(:[0-9]{1,5})?")

BACKLOG = 4_096
"""Connections that the kernel keeps until we accept them: a thousand tabs may wake at once."""


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `[IPV6]:PORT` or `:PORT` (loopback). Raises InvalidInput."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        raise InvalidInput(f"{text!r} is not HOST:PORT")
    if int(port) > 65_535:
        raise InvalidInput(f"there is no port {port}")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise InvalidInput(f"{text!r}: an IPv6 address goes into brackets")
    return host.strip("[]") or "127.0.0.1", int(port)


def relay_url(scheme: str, host: str, port: int) -> str:
    """The URL of a relay at `host`, with brackets around an IPv6 address."""
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}:{port}"


def own_urls(options: RelayOptions, host: str, port: int) -> list[str]:
    """Every URL by which clients may name a relay that listens here, or behind a TLS proxy."""
    scheme = "wss" if options.access.tls_cert else "ws"
    named = sorted(options.access.hosts)
    names = sorted({host, "localhost", "127.0.0.1", *named})
    proxied = [f"wss://{name}" for name in named]
    return [*options.urls, *proxied, *(relay_url(scheme, name, port) for name in names)]


def own_url(text: str) -> str:
    """A URL by which a relay is known, in its normal form: ws:// or wss://. Raises InvalidInput."""
    if not text.strip().lower().startswith(("ws://", "wss://")):
        raise InvalidInput(f"{text!r} is not a ws:// or wss:// URL")
    return normalize(text)


def web_origin(text: str) -> str:
    """An origin as browsers send it, in lower case: SCHEME://HOST[:PORT]. Raises InvalidInput."""
    found = text.lower()
    if found == "null":  # of pages from files, and of boxed-in ones
        return found
    if not _ORIGIN.fullmatch(found):
        raise InvalidInput(f"{text!r} is not a web origin: SCHEME://HOST[:PORT], without a path")
    return found


def allowed_origin(text: str) -> str:
    """A web origin, or `*` for all of them. Raises InvalidInput."""
    return text if text == "*" else web_origin(text)


def normal_urls(urls: Iterable[str]) -> list[str]:
    """The normal forms of those of `urls` that are any."""
    return [url for text in urls if (url := normal_or_none(text)) is not None]


class CannotListen(NetworkError):
    """An address cannot be listened on; mostly another program does."""

    def __init__(self, host: str, port: int, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) else error
        super().__init__(f"cannot listen on {host}:{port}: {reason}")
        self.port = port
        self.is_in_use = getattr(error, "errno", None) == errno.EADDRINUSE


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises CannotListen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise CannotListen(host, port, error) from error


def free_address(address: str) -> str | None:
    """Return an address of the same host with a free port where `address` is in use; else None.

    Raises InvalidInput.
    """
    host, port = parse_address(address)
    try:
        bind(host, port).close()
    except CannotListen as error:
        if not error.is_in_use:
            return None
        with bind(host, 0) as free:
            port = free.getsockname()[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return None


def tls_context(access: RelayAccess) -> ssl.SSLContext | None:
    """The TLS side of `access`, or None without.

    Raises InvalidInput for files that are not PEM, and for a key that others can read.
    """
    if not access.tls_cert:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(access.tls_cert, access.tls_key)
        check_secret_file(access.tls_key or access.tls_cert)  # one file may hold both
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"TLS files: {error}") from error
    return context
