"""Choose the route to a URL, direct or through a proxy, and refuse forbidden hosts.

Code that opens a connection calls this module first, before it looks up a name.
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
    """Return the proxy through which to reach a URL, or None for a direct connection.

    `stranger`: the user did not name the URL's host. On a direct route, `is_public` then checks the
    addresses to which the name resolves. On a route through a proxy, this function checks the URL.
    Raises NetworkError for a URL that must not be reached, and InvalidInput for a bad environment
    variable.
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
    """Return the URL of a relay for an error, or "" for another URL, which may contain a token."""
    return url if url.startswith(("ws://", "wss://")) else ""


def objection(url: str, connection: ConnectionOptions) -> str | None:
    """Return why the client must not reach a URL that a stranger names, or None if it may.

    `url` is the URL of a relay or an HTTP URL. Only scheme, host and port of an HTTP URL matter.
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
