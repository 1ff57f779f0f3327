"""Make all aiohttp client sessions, for relays, webhooks and agents.

A session connects directly or through one proxy. `routes` chooses the proxy for a URL. A client has
no other way to open a socket.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from nostr_client.codecs.proxies import NO_PROXY
from nostr_client.codecs.relay_url import is_public
from nostr_client.errors import InvalidInput, MissingExtra, NetworkError, clip, optional
from nostr_client.network.access.routes import relay_name, route

if TYPE_CHECKING:
    from types import TracebackType

    from nostr_client.codecs.proxies import Proxy
    from nostr_client.options import ConnectionOptions


class Sessions:
    """Makes sessions with one set of options when they are needed. Close it last.

    `public_only`: the user did not name the hosts. A session then connects to no address of this
    machine or of a private network, whatever the host's name is. `settings` are arguments of each
    ClientSession. Raises InvalidInput if a proxy in the environment cannot be read. Raises
    MissingExtra if `connection` names a proxy and the extra `proxy` is not installed.
    """

    def __init__(
        self, connection: ConnectionOptions, *, public_only: bool = False, **settings: Any
    ) -> None:
        self._connection = connection
        self._public_only = public_only
        self._settings = settings
        self._open: dict[Proxy | None, aiohttp.ClientSession] = {}
        connection.proxies()  # raises errors of the environment now
        if connection.proxy not in (None, NO_PROXY):
            _load_connector()

    def session_for(self, url: str) -> aiohttp.ClientSession:
        """Return the session that reaches a URL. Opens no connection.

        Raises NetworkError for a URL that must not be reached, and for an unusable proxy in the
        environment.
        """
        try:
            proxy = route(url, self._connection, stranger=self._public_only)
            session = self._open.get(proxy)
            if session is None or session.closed:
                session = self._open[proxy] = self._make(proxy)
        except (InvalidInput, MissingExtra) as error:
            raise NetworkError(str(error), relay=relay_name(url)) from error
        return session

    def _make(self, proxy: Proxy | None) -> aiohttp.ClientSession:
        connection = self._connection
        common: dict[str, Any] = {
            "limit": 0,  # the pool limits connections
            "ssl": True if connection.tls is None else connection.tls,
        }
        if proxy is None:
            factory = public_socket if self._public_only else None
            connector = aiohttp.TCPConnector(socket_factory=factory, **common)
        else:
            _load_connector()
            from nostr_client.network.access.proxy_connector import ProxyConnector

            connector = ProxyConnector(proxy, connection.tls, **common)
        settings: dict[str, Any] = {
            "connector": connector,
            "timeout": aiohttp.ClientTimeout(total=None),
            # a server must not recognise the user by a cookie
            "cookie_jar": aiohttp.DummyCookieJar(),
            **self._settings,
        }
        return aiohttp.ClientSession(**settings)

    async def close(self) -> None:
        """Close every connection."""
        while self._open:
            _, session = self._open.popitem()
            await session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def public_socket(address: tuple[Any, ...]) -> socket.socket:
    """Open a socket for a resolved address. Raises OSError if the address is not public."""
    family, kind, protocol, _, where = address
    if not is_public(str(where[0])):
        raise OSError(errno.EACCES, f"{clip(str(where[0]), 60)} is not a public address")
    return socket.socket(family, kind, protocol)


def _load_connector() -> None:
    with optional("a proxy"):
        import nostr_client.network.access.proxy_connector  # noqa: F401
