"""One POST of JSON to a URL that the owner configured; nothing of the answer is kept."""

from __future__ import annotations

import asyncio
from typing import Final

import aiohttp

from nostr_client.errors import NetworkError

TIMEOUT_S: Final = 10.0


async def post(url: str, body: bytes) -> None:
    """Hand `body` over. Raises NetworkError unless the answer is 2xx; follows no redirects."""
    try:
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
            if not 200 <= response.status < 300:
                raise NetworkError(f"HTTP {response.status}")
    except TimeoutError as error:
        raise NetworkError(f"no answer within {TIMEOUT_S:g} s") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise NetworkError(str(error)) from error
