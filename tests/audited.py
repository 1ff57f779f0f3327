"""A program run under the interpreter's audit: every connection and every look-up of a name.

    python -m tests.audited FILE MODULE [ARG]...

FILE gets one JSON array for each: `["connect", host, port]` or `["look up", name]`. What asyncio
and aiohttp do passes here, as the events are raised where the system is called.
"""

from __future__ import annotations

import ipaddress
import json
import os
import runpy
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_LOOK_UPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")


class Seen(NamedTuple):
    """Who was connected to, and which names were looked up."""

    connected: set[tuple[str, int]]
    looked_up: set[str]


def read_audit(path: Path) -> Seen:
    """What a run did."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    connected = {(host, port) for what, host, port in _of(rows, "connect") if what}
    return Seen(connected, {name for _, name in _of(rows, "look up")})


def _of(rows: list[list[Any]], what: str) -> list[list[Any]]:
    return [row for row in rows if row[0] == what]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def main() -> None:
    """Install the hook for good, and run the module as `__main__`."""
    path, module = sys.argv[1:3]
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        row: list[Any] = []
        if event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
            row = ["connect", *args[1][:2]]
        elif event in _LOOK_UPS and args[0] and not _is_address(str(args[0])):
            row = ["look up", str(args[0])]
        if row:
            os.write(log, json.dumps(row).encode() + b"\n")

    sys.addaudithook(hook)
    sys.argv = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
