"""Relay URLs: the one key of a relay, the address at which it is reached, and refused hosts. Pure.

`normalize` gives the key: spellings of one relay compare equal by it. `address` gives what goes
over the wire: a relay's router may know one spelling of its path only, and a relay may compare the
AUTH tag with its own spelling.

The rules of the key (RFC 3986 section 6, and what other Nostr libraries agree on): lower-case
scheme and host, IDNA host, default port dropped, no user, no fragment, no trailing slash; http
becomes ws and https wss; without a scheme it is wss, or ws on this machine and for `.onion` hosts.
The case of the path and the order of the query stay: a relay may distinguish them.

A relay list is written by a stranger, and connecting to what it names is a request made from
inside the user's network. So `refusal` refuses hosts that are addresses of this machine or network
in any spelling, and `is_public` judges every address that a name resolved to before the connection
is made.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from nostr_client.errors import InvalidRelayURL, clip, holds_secret_key, without_user

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
def normal_or_none(text: str) -> str | None:
    """Return the normal form of a relay's URL; None for a text that is none."""
    try:
        return normalize(text)
    except InvalidRelayURL:
        return None


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
    if holds_secret_key(text):  # a name server and the relay would get it
        raise InvalidRelayURL("not a relay URL: it has a secret key in it")
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


_LOCAL_NAMES: Final = (
    "localhost",  # RFC 6761
    "local",  # mDNS, RFC 6762
    "internal",  # ICANN's private-use name
    "intranet",
    "lan",
    "home",
    "corp",
    "home.arpa",  # RFC 8375
    "localdomain",
)
_GLOBAL: Final = ipaddress.IPv6Network("2000::/3")
"""What IANA gives out of IPv6: ::/96, 64:ff9b:1::/48 and ::ffff:0:0:0/96 lead to IPv4 networks."""

_DOCUMENTATION: Final = ipaddress.IPv6Network("3fff::/20")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)
"""The first half of an interface identifier whose second half is an IPv4 address (RFC 5214)."""

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_UNREACHABLE: Final = (
    ipaddress.IPv4Network("0.0.0.0/8"),
    ipaddress.IPv4Network("100.64.0.0/10"),  # carrier NAT, and overlay networks such as Tailscale
    ipaddress.IPv4Network("168.63.129.16/32"),  # Azure's metadata, inside its machines only
    ipaddress.IPv4Network("192.0.0.0/24"),
    ipaddress.IPv4Network("192.88.99.0/24"),  # 6to4 relays, long gone
    ipaddress.IPv4Network("198.18.0.0/15"),
    ipaddress.IPv4Network("224.0.0.0/3"),  # multicast and reserved
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def is_public(address: str) -> bool:
    """Whether an IP address, as a resolver gives it, lies on the open internet.

    False for loopback, private, link-local, carrier-NAT, multicast, reserved and unspecified
    addresses, for IPv6 ones that carry such an IPv4 address, and for any other text.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return "%" not in address and _is_public(found)


def refusal(url: str, *, proxied: bool = False, unchecked: bool = False) -> str | None:
    """Why a relay that a stranger names is not to be connected to, or None where it may be.

    The host is read as browsers and `inet_aton` read it: decimal, octal and hexadecimal spellings
    of IPv4 addresses are found. A name passes here, and what it resolves to has to pass
    `is_public`. `proxied`: a proxy resolves it, so that nobody can ask `is_public`, and names are
    refused unless `unchecked`.
    """
    try:
        host = host_of(url)
    except InvalidRelayURL as error:
        return str(error)
    address = literal_address(host)
    if address is not None:
        return None if _is_public(address) else f"{clip(host, 60)} is not a public address"
    return _refused_name(host, proxied=proxied, unchecked=unchecked)


def needs_proxy(host: str) -> str:
    """Why a `.onion` host is not connected to directly."""
    return f"{clip(host, 60)} needs a proxy for .onion"


def refused_host(host: str, *, proxied: bool = False, unchecked: bool = False) -> str | None:
    """As `refusal`, of a bare host: a name, or an address, IPv6 without brackets."""
    url = f"ws://[{host}]" if ":" in host else f"ws://{host}"
    return refusal(url, proxied=proxied, unchecked=unchecked)


def host_of(url: str) -> str:
    """The host of a relay URL: lower case, no brackets, no trailing dot. Raises InvalidRelayURL."""
    return (urlsplit(normalize(url)).hostname or "").removesuffix(".")


def literal_address(host: str) -> Address | None:
    """The IP address that a host stands for without a look-up, in whatever spelling, else None."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return _aton(host)


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        outside = any(address in network for network in _UNREACHABLE)
        return address.is_global and not outside
    if address in _NAT64:
        return _is_public(_low(address))
    if address not in _GLOBAL or not address.is_global or address in _DOCUMENTATION:
        return False
    inner = _carried(address)
    return inner is None or _is_public(inner)


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that packets to this IPv6 address end at."""
    if address.teredo is not None:
        return address.teredo[1]
    if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
        return _low(address)
    return address.sixtofour


def _low(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _aton(host: str) -> ipaddress.IPv4Address | None:
    """IPv4 as `inet_aton` takes it: one to four numbers, decimal, 0-octal or 0x-hexadecimal."""
    parts = [_number(part) for part in host.split(".")]
    if not 1 <= len(parts) <= 4 or any(part is None for part in parts):
        return None
    numbers = [part for part in parts if part is not None]
    *heads, tail = numbers
    if any(head > 0xFF for head in heads) or tail >= 256 ** (5 - len(numbers)):
        return None
    value = tail
    for place, head in enumerate(heads):
        value |= head << (24 - 8 * place)
    return ipaddress.IPv4Address(value)


def _number(text: str) -> int | None:
    digits, base = text, 10
    if text[:2] in ("0x", "0X"):
        digits, base = text[2:] or "0", 16
    elif len(text) > 1 and text.startswith("0"):
        digits, base = text[1:], 8
    if not digits.isascii() or not digits.isalnum():
        return None
    try:
        return int(digits, base)
    except ValueError:
        return None


def _refused_name(host: str, *, proxied: bool, unchecked: bool) -> str | None:
    shown = clip(host, 60)
    if is_onion(host) and not proxied:
        return needs_proxy(host)
    if "." not in host:
        return f"{shown} is a name of the local network"
    if any(host == name or host.endswith(f".{name}") for name in _LOCAL_NAMES):
        return f"{shown} is a name of the local network"
    if host.rpartition(".")[2].isdigit():
        return f"{shown} is no host name"
    if proxied and not unchecked:
        return f"the proxy resolves {shown}, so its address cannot be checked"
    return None
