"""Relay URLs: the one key of a relay, and the address at which it is reached.

`normalize` gives the key: spellings of one relay compare equal by it. `address` gives what goes
over the wire: a relay's router may know one spelling of its path only, and a relay may compare the
AUTH tag with its own spelling.

The rules of the key (RFC 3986 section 6, and what other Nostr libraries agree on): lower-case
scheme and host, IDNA host, default port dropped, no user, no fragment, no trailing slash; http
becomes ws and https wss; without a scheme it is wss, or ws on this machine and for `.onion` hosts.
The case of the path and the order of the query stay: a relay may tell them apart.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from nostr_client.errors import InvalidRelayURL, clip, without_user

MAX_LENGTH: Final = 2048
"""Characters of a URL: what browsers and proxies pass; relay lists hold far longer junk."""

_SCHEMES: Final = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_DEFAULT_PORTS: Final = {"ws": 80, "wss": 443}
_HAS_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_BROKEN_SCHEME = re.compile(r"(?i)(?:wss?|https?)(?::/(?!/)|://?$|//|;//)")
_UNFIT = frozenset(' \\<>"^`{|}')
_ESCAPE = re.compile(r"%[0-9a-fA-F]{2}")
_KEEP = "%/:@!$&'()*+,;=~?[]"
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")


@lru_cache(4096)  # every round looks every relay of every watch up
def normalize(url: str) -> str:
    """The one spelling of a relay's URL, to compare and to key by. Raises InvalidRelayURL.

    Idempotent. The user's spelling is the caller's to keep for display.
    """
    where, path, query = _parts(url)
    return f"{where}{_escape(path.rstrip('/'))}{query}"


@lru_cache(4096)
def address(url: str) -> str:
    """The URL that is dialled and signed for: the path as it was typed, its final slash included.

    Everything else is as in `normalize`. Raises InvalidRelayURL.
    """
    where, path, query = _parts(url)
    return f"{where}{quote(path, safe=_KEEP)}{query}"


def _parts(url: str) -> tuple[str, str, str]:
    """Scheme and place, the path as typed, and the query with its question mark."""
    text = url.strip()
    if not 0 < len(text) <= MAX_LENGTH or not text.isprintable() or _UNFIT & set(text):
        raise _bad(url, "empty, too long, or characters that no URL has")
    parts = _split(text, url)
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None:
        raise _bad(url, "the scheme must be ws or wss")
    if parts.username is not None or parts.password is not None:
        raise _bad(url, "no user or password in a relay URL")
    host = _host(parts.hostname or "", url, bracketed="[" in parts.netloc)
    port = _port(parts, url)
    where = host if port in (None, _DEFAULT_PORTS[scheme]) else f"{host}:{port}"
    query = f"?{_escape(parts.query)}" if parts.query else ""
    return f"{scheme}://{where}", parts.path, query


def _escape(text: str) -> str:
    """Non-ASCII as percent escapes, and escapes in upper case (RFC 3986, section 6.2.2.1)."""
    return _ESCAPE.sub(lambda found: found[0].upper(), quote(text, safe=_KEEP))


def _split(text: str, url: str) -> SplitResult:
    if _BROKEN_SCHEME.match(text):
        raise _bad(url, "a scheme is followed by ://")
    if not _HAS_SCHEME.match(text):
        text = f"wss://{text}"
        host = _urlsplit(text, url).hostname or ""
        if is_loopback(host) or is_onion(host):  # Tor encrypts, and has no certificates
            text = f"ws{text[3:]}"
    return _urlsplit(text, url)


def _urlsplit(text: str, url: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError as error:
        raise _bad(url, str(error)) from error


def is_onion(host: str) -> bool:
    """Whether a host is a Tor onion service, which no name server may be asked about (RFC 7686)."""
    return host == "onion" or host.endswith((".onion", ".onion."))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its name or address (RFC 6761); nothing is looked up."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(host: str, url: str, *, bracketed: bool) -> str:
    if bracketed:
        return f"[{_ipv6(host, url)}]"
    name = _ascii(host, url).removesuffix(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise _bad(url, "not a host name")
    return name


def _ipv6(host: str, url: str) -> str:
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError as error:
        raise _bad(url, "not an IPv6 address") from error
    if address.scope_id is not None:
        raise _bad(url, "an IPv6 address with a zone means something on one machine only")
    return address.compressed


def _ascii(host: str, url: str) -> str:
    if host.isascii():
        return host.lower()
    try:
        return host.encode("idna").decode("ascii").lower()
    except UnicodeError as error:
        raise _bad(url, "not a host name") from error


def _port(parts: SplitResult, url: str) -> int | None:
    try:
        port = parts.port
    except ValueError as error:
        raise _bad(url, "not a port") from error
    if port == 0:
        raise _bad(url, "not a port")
    return port


def _bad(url: str, reason: str) -> InvalidRelayURL:
    return InvalidRelayURL(f"not a relay URL: {clip(without_user(url), 100)}: {reason}")
