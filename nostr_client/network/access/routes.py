"""The route to a URL: directly or through a proxy, and what no route may lead to.

Every door that opens a connection asks here first, before a name is looked up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nostr_client.codecs.relay_url import is_onion, needs_proxy, refusal, refused_host
from nostr_client.errors import NetworkError

if TYPE_CHECKING:
    from nostr_client.codecs.proxies import Proxy
    from nostr_client.options import ConnectionOptions


def route(url: str, connection: ConnectionOptions, *, stranger: bool = False) -> Proxy | None:
    """The proxy that a URL is reached through, None for a direct connection.

    `stranger`: the user did not name its host. What a name resolves to is then judged by
    `is_public` on a direct route; on one through a proxy the URL is judged here. Raises
    NetworkError for what must not be reached, InvalidInput for a bad variable.
    """
    proxy = connection.proxies().for_url(url)
    host, reason = _host(url), None
    if proxy is None:
        reason = needs_proxy(host) if is_onion(host) else None
    elif stranger:
        reason = objection(url, connection)
    if reason is not None:
        raise NetworkError(reason, relay=relay_name(url))
    return proxy


def relay_name(url: str) -> str:
    """The URL of a relay for errors; "" for any other, which may hold a token."""
    return url if url.startswith(("ws://", "wss://")) else ""


def objection(url: str, connection: ConnectionOptions) -> str | None:
    """Why a URL that a stranger names is not to be reached, or None where it may be.

    `url` is one of a relay, or of HTTP, of which the scheme, the host and the port count.
    """
    proxied = connection.proxies().for_url(url) is not None
    unchecked = connection.strangers_by_proxy
    if url.lower().startswith(("http://", "https://")):
        return refused_host(_host(url), proxied=proxied, unchecked=unchecked)
    return refusal(url, proxied=proxied, unchecked=unchecked)


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").removesuffix(".")
    except ValueError:
        return ""
