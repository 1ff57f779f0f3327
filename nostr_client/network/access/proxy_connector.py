"""Connect aiohttp to every host through one proxy. Needs the extra `proxy`.

The proxy gets host names and resolves them. A failure of the proxy is a NetworkError, which aiohttp
passes on unchanged. The error's text names only the host and the port of the proxy.
"""

from __future__ import annotations

import os
import socket
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp_socks
import python_socks

from nostr_client.errors import NetworkError, clip

if TYPE_CHECKING:
    import asyncio

    from aiohttp.client_proto import ResponseHandler

    from nostr_client.codecs.proxies import Proxy


class ProxyConnector(aiohttp_socks.ProxyConnector):
    """Connects through SOCKS5 or CONNECT, also for plain `ws://` and `http://` URLs (RFC 6455).

    `tls` checks the certificate of an `https://` proxy. With None, the system's certificates check
    it.
    """

    def __init__(self, proxy: Proxy, tls: ssl.SSLContext | None, **settings: Any) -> None:
        super().__init__(
            host=proxy.host,
            port=proxy.port,
            proxy_type=(
                python_socks.ProxyType.SOCKS5 if proxy.socks else python_socks.ProxyType.HTTP
            ),
            username=proxy.user,
            password=proxy.password,
            rdns=True,  # the proxy resolves names, so this machine looks up none
            proxy_ssl=(tls or ssl.create_default_context()) if proxy.tls else None,
            **settings,
        )
        self._place = proxy.place

    async def _wrap_create_connection(
        self, *args: Any, **settings: Any
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        """Make a connection. aiohttp calls this method, and aiohttp-socks overrides it."""
        try:
            return await super()._wrap_create_connection(*args, **settings)
        except aiohttp_socks.ProxyConnectionError as error:
            text = f"the proxy at {self._place} cannot be reached ({_reason(error)})"
            raise NetworkError(text) from error
        except aiohttp_socks.ProxyTimeoutError as error:
            raise NetworkError(f"the proxy at {self._place} gave no answer in time") from error
        except aiohttp_socks.ProxyError as error:
            text = clip(str(error), 100) or "without a reason"
            raise NetworkError(f"the proxy at {self._place} did not connect: {text}") from error
        # aiohttp wraps errors of TLS or the socket, also those that are a ValueError too
        except OSError:
            raise
        except (EOFError, ValueError, LookupError) as error:
            text = f"the proxy at {self._place} did not connect: it broke off, or is none"
            raise NetworkError(text) from error


def _reason(error: BaseException) -> str:
    """Return why a connection to the proxy failed, in the system's words if there are any.

    aiohttp-socks wraps the error of python-socks, which wraps the system's error.
    """
    cause = error.__cause__
    original = cause.__cause__ if cause is not None else None
    if isinstance(original, socket.gaierror):
        return "its name is not known"
    number = getattr(original, "errno", None)
    return os.strerror(number) if number else "no address of it answers"
