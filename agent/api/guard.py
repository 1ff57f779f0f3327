"""Decides who may use the API, by the Host, the Origin and the token of a request. Pure."""

from __future__ import annotations

import hmac
from typing import NamedTuple

from agent.api.schema import ApiRefusal, Scope
from agent.relay.guard import bearer_of as bearer_of
from agent.relay.guard import host_name as host_name
from agent.relay.guard import is_loopback as is_loopback


class ApiAccess(NamedTuple):
    """What is allowed; `hosts` and `origins` in lower case. A token that is "" does not exist."""

    token: str
    """Manages the agent."""
    read_token: str = ""
    """Reads everything that the API shows, and changes nothing."""
    source_token: str = ""
    """Reads the messages of streams for agents that source them, and nothing else."""
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    open_metrics: bool = False
    badges: frozenset[str] = frozenset()
    """Watches whose badge is shown without a token."""


def check(
    access: ApiAccess, needs: Scope, host: str, origin: str | None, bearer: str | None
) -> Scope:
    """The scope of a request's token. None stands for an absent header.

    `needs` is the scope that the request asks for. Raises ApiRefusal unless the request is
    allowed.

    A web page reaches loopback through its visitor's browser: the browser sends the page's own
    name in Host when that name was pointed at 127.0.0.1 (rebinding), and its origin in Origin.
    """
    name = host_name(host)
    if not (is_loopback(name) or name in access.hosts):
        raise ApiRefusal(403, "foreign_host", "the Host of the request is not a name of this agent")
    if origin is not None and origin.lower() not in access.origins:
        raise ApiRefusal(403, "foreign_origin", "pages of this web origin may not call the agent")
    if needs is Scope.NONE:
        return needs
    if bearer is None:
        raise ApiRefusal(401, "no_token", "give the token as Authorization: Bearer")
    scope = _scope(access, bearer)
    if scope is Scope.NONE:
        raise ApiRefusal(401, "wrong_token", "the token is wrong")
    if scope < needs:
        raise ApiRefusal(403, "limited_token", _LIMITS[scope])
    return scope


_LIMITS = {
    Scope.SOURCE: "this token reads the messages of streams, and nothing else",
    Scope.READ: "this token reads, and changes nothing: use the manage token",
}


def _scope(access: ApiAccess, bearer: str) -> Scope:
    """What a token may do; every token is compared, whichever fits."""
    tokens = (
        (Scope.SOURCE, access.source_token),
        (Scope.READ, access.read_token),
        (Scope.MANAGE, access.token),
    )
    found = [scope for scope, token in tokens if _same(bearer, token) and token]
    return max(found, default=Scope.NONE)


def _same(bearer: str, token: str) -> bool:
    return hmac.compare_digest(bearer.encode("utf-8", "replace"), token.encode())
