"""An aiohttp connector that reaches everything through one proxy. Needs the extra `proxy`.

Host names go to the proxy as they are. A failure of the proxy is a NetworkError, which aiohttp lets
pass: its text names the proxy's host and port alone.
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
    """Connects by SOCKS5 or by CONNECT; plain `ws://` and `http://` by CONNECT too (RFC 6455).

    `tls` checks the certificate of an `https://` proxy; None: the system's certificates.
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
            rdns=True,  # the proxy resolves: no name is looked up here
            proxy_ssl=(tls or ssl.create_default_context()) if proxy.tls else None,
            **settings,
        )
        self._place = proxy.place

    async def _wrap_create_connection(
        self, *args: Any, **settings: Any
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        """The method by which aiohttp makes a connection, and aiohttp-socks redirects it."""
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
        except OSError:  # of TLS or the line: aiohttp's to wrap, also where it is a ValueError too
            raise
        except (EOFError, ValueError, LookupError) as error:
            text = f"the proxy at {self._place} did not connect: it broke off, or is none"
            raise NetworkError(text) from error


def _reason(error: BaseException) -> str:
    """Why a connection to the proxy failed, in the system's words where it has some.

    aiohttp-socks wraps the error of python-socks, which wraps the system's.
    """
    cause = error.__cause__
    original = cause.__cause__ if cause is not None else None
    if isinstance(original, socket.gaierror):
        return "its name is not known"
    number = getattr(original, "errno", None)
    return os.strerror(number) if number else "no address of it answers"
