"""Is this host somewhere that a stranger may send us? Pure; names are judged when they resolve.

A relay list is written by a stranger, and connecting to what it names is a request made from
inside the user's network. So hosts that a list names are refused here where they are addresses
of this machine or network in any spelling, and every address that a name resolved to is judged by
`is_public` before the connection is made.
"""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from nostr_client.errors import InvalidRelayURL, clip
from nostr_client.relayurl import normalize

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
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_SITE_LOCAL: Final = ipaddress.IPv6Network("fec0::/10")
_UNREACHABLE: Final = (
    ipaddress.IPv4Network("0.0.0.0/8"),
    ipaddress.IPv4Network("100.64.0.0/10"),  # carrier NAT, and overlay networks such as Tailscale
    ipaddress.IPv4Network("192.0.0.0/24"),
    ipaddress.IPv4Network("192.88.99.0/24"),  # 6to4 relays, long gone
    ipaddress.IPv4Network("198.18.0.0/15"),
    ipaddress.IPv4Network("224.0.0.0/3"),  # multicast and reserved
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def is_public(address: str) -> bool:
    """Whether an IP address, as a resolver gives it, lies on the open internet.

    False for loopback, private, link-local, carrier-NAT, multicast, reserved and unspecified
    addresses, for IPv6 ones that carry such an IPv4 address, and for what is no address.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return "%" not in address and _is_public(found)


def refusal(url: str, *, onion: bool = False) -> str | None:
    """Why a relay that a stranger names is not to be connected to, or None where it may be.

    `onion`: there is a proxy that reaches `.onion` hosts. The host is read as browsers and
    `inet_aton` read it: decimal, octal and hexadecimal spellings of IPv4 addresses are found. A
    name passes here, and what it resolves to has to pass `is_public`.
    """
    try:
        host = host_of(url)
    except InvalidRelayURL as error:
        return str(error)
    address = literal_address(host)
    if address is not None:
        return None if _is_public(address) else f"{clip(host, 60)} is not a public address"
    return _refused_name(host, onion=onion)


def refused_host(host: str, *, onion: bool = False) -> str | None:
    """As `refusal`, of a bare host: a name, or an address, IPv6 without brackets."""
    return refusal(f"ws://[{host}]" if ":" in host else f"ws://{host}", onion=onion)


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
    if address in _SITE_LOCAL or address.is_multicast or not address.is_global:
        return False
    inner = _carried(address)
    return inner is None or _is_public(inner)


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that packets to this IPv6 address end at."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.teredo is not None:
        return address.teredo[1]
    return address.ipv4_mapped or address.sixtofour


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


def _refused_name(host: str, *, onion: bool) -> str | None:
    shown = clip(host, 60)
    if host.endswith(".onion"):
        return None if onion else f"{shown} needs a proxy for .onion"
    if "." not in host:
        return f"{shown} is a name of the local network"
    if any(host == name or host.endswith(f".{name}") for name in _LOCAL_NAMES):
        return f"{shown} is a name of the local network"
    if host.rpartition(".")[2].isdigit():
        return f"{shown} is no host name"
    return None
