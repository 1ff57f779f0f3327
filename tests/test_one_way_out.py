"""Whatever leaves this machine is made in one place: no module opens a connection of its own.

That place (`network.access.sessions`) knows the proxy. A new module that dials by itself is found.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

DIALS = {
    *("ClientSession", "TCPConnector", "ws_connect", "urlopen", "HTTPConnection"),
    *("HTTPSConnection", "open_connection", "create_connection", "create_datagram_endpoint"),
    *("getaddrinfo", "gethostbyname", "sock_connect"),
    *("nats.connect", "socket.socket", "aiohttp.request"),
}
"""Names that a call ends with and by which Python connects or looks a name up."""

MAY = {
    "nostr_client/network/access/sessions.py": {"ClientSession", "TCPConnector", "socket.socket"},
    "nostr_client/network/transport.py": {"ws_connect"},  # of a session of `sessions`
    "nostr_client/counters/jetstream/dial.py": {"nats.connect"},  # refused where a proxy applies
    "agent/service/process/supervision.py": {"socket.socket"},  # to systemd, a Unix socket
}


def dials(text: str) -> set[str]:
    """By which of those names a module calls, imports that rename included."""
    tree = ast.parse(text)
    renamed = {
        alias.asname: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom | ast.Import)
        for alias in node.names
        if alias.asname
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            parts = ast.unparse(node.func).split(".")
            parts[0] = renamed.get(parts[0], parts[0])
            found |= {parts[-1], ".".join(parts[-2:])} & DIALS
    return found


@pytest.mark.parametrize("package", ["nostr_client", "agent", "tui"])
def test_no_module_dials_by_itself(package: str) -> None:
    found = {
        str(path.relative_to(ROOT)): calls
        for path in (ROOT / package).rglob("*.py")
        if (calls := dials(path.read_text("utf-8")))
    }
    assert found == {path: calls for path, calls in MAY.items() if path.startswith(f"{package}/")}


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (
            "import aiohttp\nasync def f():\n  async with aiohttp.ClientSession() as s: ...",
            "Client",
        ),
        ("from aiohttp import ClientSession as S\nS()", "ClientSession"),
        ("import urllib.request as r\nr.urlopen('http://a')", "urlopen"),
        ("import socket\nsocket.create_connection(('a', 1))", "create_connection"),
    ],
)
def test_a_new_way_out_is_found(text: str, call: str) -> None:
    assert any(one.startswith(call) for one in dials(text))
