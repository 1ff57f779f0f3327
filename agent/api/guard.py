"""Who may use the API: the token, the Host and the Origin of a request. Pure."""

from __future__ import annotations

import hmac
import ipaddress
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from agent.api.backend import Refusal

OPEN = frozenset({"/healthz", "/readyz"})
"""What a supervisor asks without a token: it tells nothing but whether the agent works."""


class Access(NamedTuple):
    """What is allowed; `hosts` and `origins` in lower case."""

    token: str
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    open_metrics: bool = False
    source_token: str = ""
    """Reads streams for those who source them, and nothing else; "": there is none."""


_FOR_SOURCES = re.compile(r"/v1/streams/[^/]+/messages")


def check(access: Access, path: str, host: str, origin: str | None, bearer: str | None) -> None:
    """Raise Refusal unless the request may come in; None stands for an absent header.

    A web page reaches loopback through its visitor's browser: the browser tells the page's own
    name in Host when that name was pointed at 127.0.0.1 (rebinding), and its origin in Origin.
    """
    name = host_name(host)
    if not (is_loopback(name) or name in access.hosts):
        raise Refusal(403, "foreign_host", "the Host of the request is not a name of this agent")
    if origin is not None and origin.lower() not in access.origins:
        raise Refusal(403, "foreign_origin", "pages of this web origin may not call the agent")
    if path in OPEN or (path == "/metrics" and access.open_metrics):
        return
    if bearer is None:
        raise Refusal(401, "no_token", "give the token as Authorization: Bearer")
    if _same(bearer, access.token):
        return
    if not access.source_token or not _same(bearer, access.source_token):
        raise Refusal(401, "wrong_token", "the token is wrong")
    if _FOR_SOURCES.fullmatch(path) is None:
        text = "this token reads the messages of streams, and nothing else"
        raise Refusal(403, "limited_token", text)


def _same(bearer: str, token: str) -> bool:
    return hmac.compare_digest(bearer.encode("utf-8", "replace"), token.encode())


def host_name(host: str) -> str:
    """The name in a Host header, lower case, without port and brackets; "" if it is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def is_loopback(name: str) -> bool:
    """Whether a name or address is this machine alone."""
    if name in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def bearer_of(authorization: str | None) -> str | None:
    """The token in `Authorization: Bearer …`, or None."""
    scheme, _, value = (authorization or "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" and value.strip() else None
