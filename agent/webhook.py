"""One POST of JSON to a URL of an alert; nothing of the answer is kept.

A webhook that came through the API may not reach this machine or its network: its host is judged
as written, and again by every address that it resolves to, before a connection is made.
"""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from nostr_client.addresses import refused_host
from nostr_client.errors import NetworkError
from nostr_client.transport import public_socket

TIMEOUT_S: Final = 10.0


def place(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a webhook. Raises ValueError for what is no URL."""
    parts = urlsplit(url)
    default = 443 if parts.scheme == "https" else 80
    return parts.scheme, (parts.hostname or "").removesuffix("."), parts.port or default


def private(url: str) -> str | None:
    """Why a webhook may not be called unless the configuration names it; None where it may."""
    try:
        _, host, _ = place(url)
    except ValueError:
        return "its URL cannot be used"
    return refused_host(host)


async def post(url: str, body: bytes, *, public_only: bool = False) -> None:
    """Hand `body` over; follows no redirects.

    `public_only`: connect to no address of this machine or of a private network.

    Raises NetworkError unless the answer is 2xx. It names the host alone: the rest of a URL may
    hold a token.
    """
    why = private(url) if public_only else None
    if why is not None:
        raise NetworkError(f"{_place(url)}: {why}")
    try:
        status = await _post(url, body, public_only)
    except TimeoutError as error:
        raise NetworkError(f"{_place(url)}: no answer within {TIMEOUT_S:g} s") from error
    except aiohttp.InvalidURL as error:
        raise NetworkError(f"{_place(url)}: its URL cannot be used") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or type(error).__name__
        raise NetworkError(f"{_place(url)}: {said}") from error
    if not 200 <= status < 300:
        raise NetworkError(f"{_place(url)}: HTTP {status}")


async def _post(url: str, body: bytes, public_only: bool) -> int:
    connector = aiohttp.TCPConnector(socket_factory=public_socket if public_only else None)
    async with (
        asyncio.timeout(TIMEOUT_S),
        aiohttp.ClientSession(connector=connector, auto_decompress=False) as session,
        session.post(
            url,
            data=body,
            headers={"Content-Type": "application/json"},
            allow_redirects=False,
        ) as response,
    ):
        return response.status


def _place(url: str) -> str:
    """Which webhook it is, without what a log must not hold."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "webhook"
    return f"webhook at {host}:{port}" if port else f"webhook at {host}"
