"""Proxies: the URL of one, and which URLs are reached through it.

Pure: the environment is an argument. A proxy gets host names as they are and resolves them, so no
name of a relay is looked up on this machine. `socks5` therefore means what curl calls `socks5h`.

Sources: RFC 1928 (SOCKS5), RFC 9110 section 9.3.6 (CONNECT); for the variables, the conventions of
curl and of Go's net/http.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, unquote, urlsplit

from nostr_client.codecs.relay_url import is_loopback, is_onion
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NO_PROXY: Final = "none"
"""What stands for "no proxy", whatever the environment says."""

_SOCKS: Final = ("socks5", "socks5h", "socks")
_PORTS: Final = {"http": 80, "https": 443} | dict.fromkeys(_SOCKS, 1080)
_EXPECTED: Final = "expected socks5h://HOST:PORT or http://HOST:PORT"
_VARIABLES: Final = {"ws": "HTTP_PROXY", "http": "HTTP_PROXY"} | dict.fromkeys(
    ("wss", "https"), "HTTPS_PROXY"
)


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where a proxy listens and what it speaks; user and password are in no `repr`."""

    socks: bool
    """SOCKS5, else HTTP CONNECT."""
    tls: bool
    """Whether the connection to the proxy itself is TLS (`https://`)."""
    host: str
    port: int
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    @property
    def place(self) -> str:
        """Host and port, for errors: nothing else of a proxy's URL is shown."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_proxy(text: str) -> Proxy:
    """Read the URL of a proxy; without a scheme it is an HTTP proxy, as curl takes it.

    Raises InvalidInput, which repeats nothing of the text: it may hold a password.
    """
    text = text.strip()
    if not text.isprintable() or " " in text:
        raise InvalidInput(f"not the URL of a proxy: {_EXPECTED}")
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise InvalidInput(f"not the URL of a proxy: {_EXPECTED}") from error
    if parts.scheme not in _PORTS:
        raise InvalidInput(f"a proxy speaks SOCKS5 or HTTP: {_EXPECTED}")
    if not parts.hostname or port == 0 or parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidInput(f"not the URL of a proxy: {_EXPECTED}")
    if is_onion(_ascii(parts.hostname)):
        raise InvalidInput("a proxy has no .onion name: a name server would be asked for it")
    socks = parts.scheme in _SOCKS
    user, password = _credentials(parts, socks)
    return Proxy(
        socks=socks,
        tls=parts.scheme == "https",
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        user=user,
        password=password,
    )


def _ascii(host: str) -> str:
    """The host as a look-up spells it: the dots of other scripts are dots there."""
    try:
        return host if host.isascii() else host.encode("idna").decode("ascii").lower()
    except UnicodeError as error:
        raise InvalidInput(f"not the URL of a proxy: {_EXPECTED}") from error


def _credentials(parts: SplitResult, socks: bool) -> tuple[str | None, str | None]:
    """User and password, both or neither: RFC 1929 and Basic (RFC 7617) have no other form."""
    if parts.username is None:
        return None, None
    user, password = unquote(parts.username), unquote(parts.password or "")
    sendable = f"{user}{password}".isascii() and f"{user}{password}".isprintable()
    if not sendable or ":" in user or not user or max(len(user), len(password)) > 255:
        raise InvalidInput("the user or password in the URL of a proxy cannot be sent")
    if socks and not password:
        raise InvalidInput("a SOCKS5 proxy takes user and password, or neither")
    return user, password


@dataclass(frozen=True, slots=True)
class Proxies:
    """Which proxy each URL goes through."""

    by_scheme: Mapping[str, Proxy]
    """Of the environment: by URL scheme, and under "" for every other one."""
    excluded: tuple[str, ...] = ()
    """Hosts that are reached directly, as `NO_PROXY` names them."""
    loopback: bool = True
    """Whether this machine itself is reached through the proxy, too."""

    def for_url(self, url: str) -> Proxy | None:
        """The proxy for a URL, None where it is reached directly.

        A URL without a readable host goes through the proxy: nothing goes beside it by mistake.
        """
        scheme = url.partition("://")[0].lower()
        proxy = self.by_scheme.get(scheme, self.by_scheme.get(""))
        if proxy is None:
            return None
        host, port = _host_and_port(url)
        if not self.loopback and is_loopback(host):
            return None
        direct = any(_excludes(entry, host, port) for entry in self.excluded)
        return None if direct else proxy


def choose_proxies(
    proxy: str | None, no_proxy: Sequence[str] | None, environ: Mapping[str, str]
) -> Proxies:
    """The proxies that an option and the environment name; the option wins.

    An option's proxy is for every URL, this machine's own addresses included. One of the
    environment (`ALL_PROXY`, `HTTPS_PROXY`, `HTTP_PROXY`, in either case) is not for loopback
    hosts. `no_proxy`, or else `NO_PROXY`, excludes hosts from both. Raises InvalidInput.
    """
    excluded = _listed(environ) if no_proxy is None else no_proxy
    entries = tuple(entry.strip().lower() for entry in excluded)
    if proxy is None:
        return Proxies(_environment(environ), entries, loopback=False)
    if proxy == NO_PROXY:
        return Proxies({})
    return Proxies({"": parse_proxy(proxy)}, entries)


def _environment(environ: Mapping[str, str]) -> dict[str, Proxy]:
    found = {}
    for scheme, name in {**_VARIABLES, "": "ALL_PROXY"}.items():
        value = _variable(environ, name)
        if value:
            found[scheme] = _named(name, value)
    return found


def _named(name: str, value: str) -> Proxy:
    try:
        return parse_proxy(value)
    except InvalidInput as error:
        raise InvalidInput(f"${name}: {error}") from error


def _variable(environ: Mapping[str, str], name: str) -> str:
    """A variable; lower case first, as curl does.

    In a CGI program the client of the web server sets HTTP_PROXY, by a header (CVE-2016-5385).
    """
    lower = environ.get(name.lower(), "")
    if lower or (name == "HTTP_PROXY" and "REQUEST_METHOD" in environ):
        return lower
    return environ.get(name, "")


def _listed(environ: Mapping[str, str]) -> list[str]:
    return _variable(environ, "NO_PROXY").replace(",", " ").split()


def _host_and_port(url: str) -> tuple[str, int | None]:
    """Host (lower case, no final dot) and port of a URL; "" where there is none."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get({"ws": "http", "wss": "https"}.get(parts.scheme, ""))
        return (parts.hostname or "").removesuffix("."), port or _PORTS.get(parts.scheme)
    except ValueError:
        return "", None


def _excludes(entry: str, host: str, port: int | None) -> bool:
    """Whether an entry of NO_PROXY means this host: `*`, a name and what is below it, a network."""
    if entry == "*":
        return True
    if not host or not entry:
        return False
    name, wanted = _entry(entry)
    if wanted is not None and wanted != port:
        return False
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(name, strict=False)
    except ValueError:  # a name on one side at least
        below = name.removeprefix("*").removeprefix(".")
        return bool(below) and (host == below or host.endswith(f".{below}"))


def _entry(text: str) -> tuple[str, int | None]:
    """Host or network of an entry, and the port that it is restricted to."""
    if text.startswith("["):
        name, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        name, _, port = text.partition(":")
    else:
        name, port = text, ""
    return name, int(port) if port.isdecimal() else None
