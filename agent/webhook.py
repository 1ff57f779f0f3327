"""One POST of JSON to a URL that the owner configured; nothing of the answer is kept."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from nostr_client.errors import NetworkError

TIMEOUT_S: Final = 10.0


async def post(url: str, body: bytes) -> None:
    """Hand `body` over; follows no redirects.

    Raises NetworkError unless the answer is 2xx. It names the host alone: the rest of a URL may
    hold a token.
    """
    try:
        status = await _post(url, body)
    except TimeoutError as error:
        raise NetworkError(f"{_place(url)}: no answer within {TIMEOUT_S:g} s") from error
    except aiohttp.InvalidURL as error:
        raise NetworkError(f"{_place(url)}: its URL cannot be used") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or type(error).__name__
        raise NetworkError(f"{_place(url)}: {said}") from error
    if not 200 <= status < 300:
        raise NetworkError(f"{_place(url)}: HTTP {status}")


async def _post(url: str, body: bytes) -> int:
    async with (
        asyncio.timeout(TIMEOUT_S),
        aiohttp.ClientSession() as session,
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
