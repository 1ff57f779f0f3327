"""Sends one POST to the URL of an alert, and stores nothing of the answer.

A webhook from the API may not reach this machine or its network: its host is checked as written,
and each address that it resolves to is checked before a connection is made.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import aiohttp

from agent.alerts.bodies import JSON
from nostr_client.errors import NetworkError, host_alone
from nostr_client.network.access.routes import objection
from nostr_client.network.access.sessions import Sessions

if TYPE_CHECKING:
    from nostr_client.options import ConnectionOptions

TIMEOUT_S: Final = 10.0


def place(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a webhook. Raises ValueError for a bad URL."""
    parts = urlsplit(url)
    default = 443 if parts.scheme == "https" else 80
    return parts.scheme, (parts.hostname or "").removesuffix("."), parts.port or default


def private(url: str, connection: ConnectionOptions) -> str | None:
    """Why a webhook may not be called unless the configuration names it; None where it may."""
    try:
        place(url)
    except ValueError:
        return "its URL cannot be used"
    return objection(url, connection)


async def post(
    url: str,
    body: bytes,
    connection: ConnectionOptions,
    kind: str = JSON,
    *,
    public_only: bool = False,
) -> None:
    """POST `body` with the media type `kind`, through the proxy if one is configured.

    Follows no redirects.

    `public_only`: connect to no address of this machine or of a private network.

    Raises NetworkError unless the answer is 2xx. It names only the host: the rest of a URL may
    hold a token.
    """
    why = private(url, connection) if public_only else None
    if why is not None:
        raise NetworkError(f"{_shown(url)}: {why}")
    try:
        status = await _post(url, body, connection, kind, public_only)
    except TimeoutError as error:
        raise NetworkError(f"{_shown(url)}: no answer within {TIMEOUT_S:g} s") from error
    except aiohttp.InvalidURL as error:
        raise NetworkError(f"{_shown(url)}: its URL cannot be used") from error
    except NetworkError as error:  # of the proxy, or no route
        raise NetworkError(f"{_shown(url)}: {error}") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise NetworkError(f"{_shown(url)}: {why}") from error
    if not 200 <= status < 300:
        raise NetworkError(f"{_shown(url)}: HTTP {status}")


async def _post(
    url: str, body: bytes, connection: ConnectionOptions, kind: str, public_only: bool
) -> int:
    async with (
        asyncio.timeout(TIMEOUT_S),
        Sessions(connection, public_only=public_only, auto_decompress=False) as sessions,
        sessions.session_for(url).post(
            url,
            data=body,
            headers={"Content-Type": kind},
            allow_redirects=False,
        ) as response,
    ):
        return response.status


def _shown(url: str) -> str:
    """Which webhook it is, without what a log must not have."""
    return f"webhook at {host_alone(url)}"
