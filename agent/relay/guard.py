"""Decides who may connect: Host, Origin and token of the request, and the listen address.

A web page reaches loopback through its visitor's browser. The browser sends the true Origin,
and in Host the name that the page's own DNS gave to 127.0.0.1 (rebinding): both are checked.
"""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from agent.relay.options import RelayAccess


_LOOPBACK_NAMES = frozenset({"localhost", "localhost."})


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a request may come in, and with what right."""

    refusal: str = ""
    """Why not, for the body of a 403; "" when it may."""

    write: bool = True
    read_only_reason: str = ""


def is_loopback(host: str) -> bool:
    """Whether `host`, a name or an address without port, is only this machine."""
    if host.lower() in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_listen(host: str, access: RelayAccess, *, has_policy: bool) -> None:
    """Raise InvalidInput when `host` is open to other machines without what that needs."""
    if bool(access.tls_cert) != bool(access.tls_key):
        raise InvalidInput("TLS needs both a certificate and a key file")
    if is_loopback(host):
        return
    if not access.tls_cert:
        raise InvalidInput(
            f"{host} is not loopback: give TLS files, ws:// is for this machine only"
        )
    if access.token is None and not has_policy:
        raise InvalidInput(f"{host} is not loopback: give a token, or the keys that may write")


def admit(
    host: str, origin: str | None, token: str | None, access: RelayAccess, listen: str
) -> Admission:
    """Judge a request by its Host and Origin headers and its token (None where absent)."""
    name = host_name(host)
    own = is_loopback(name) or name in access.hosts or name == listen.lower()
    if not (own or _is_address(name)):
        return Admission(refusal=f"the host {name!r} is not one of this relay's names")
    reason = ""
    if origin is not None and not _origin_allowed(origin, access):
        if access.foreign_origins == "refuse":
            return Admission(refusal="this web origin is not allowed here")
        reason = "restricted: this web origin may only read"
    if access.token is not None and not _same(token, access.token):
        reason = reason or "restricted: writing here needs the token"
    return Admission(write=not reason, read_only_reason=reason)


def host_name(host: str) -> str:
    """The name in a Host header, lower case, without port and brackets; "" if it is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def bearer(authorization: str | None, query: str | None) -> str | None:
    """The token of a request: from `Authorization: Bearer …`, else from `?token=…`."""
    return bearer_of(authorization) or query


def bearer_of(authorization: str | None) -> str | None:
    """The token in `Authorization: Bearer …`, or None."""
    scheme, _, value = (authorization or "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" and value.strip() else None


def _origin_allowed(origin: str, access: RelayAccess) -> bool:
    return "*" in access.origins or origin.lower() in access.origins


def _same(given: str | None, wanted: str) -> bool:
    if given is None:
        return False
    # A header may hold any bytes; those that are no UTF-8 arrive as lone surrogates.
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())


def _is_address(name: str) -> bool:
    """Whether `name` is an IP address: rebinding needs a name, so nobody else's page sends one."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
