"""A SOCKS5 and HTTP proxy that we did not write (pproxy), as a process of its own.

It alone knows the names below `.test` and `.onion`: they are this machine. So whoever reaches
`relay.test` went through it, and looked no name up himself. As a program this module is that proxy.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NAMES = (".test", ".onion")
USER, PASSWORD = "alice", "s3cr3t-of-the-proxy"


class RealProxy:
    """A running pproxy that speaks both; `asked` are the `host:port` that it was asked for."""

    def __init__(self, port: int, *, credentials: bool = False) -> None:
        self.port = port
        self.asked: list[str] = []
        self._login = f"{USER}:{PASSWORD}@" if credentials else ""

    @property
    def socks(self) -> str:
        """Its URL for SOCKS5."""
        return f"socks5h://{self._login}127.0.0.1:{self.port}"

    @property
    def http(self) -> str:
        """Its URL for CONNECT."""
        return f"http://{self._login}127.0.0.1:{self.port}"

    @property
    def https(self) -> str:
        """Its URL for CONNECT over TLS, of one that has a certificate."""
        return f"https://{self._login}127.0.0.1:{self.port}"

    def note(self, line: str) -> None:
        """Take a line of its log."""
        found = re.search(r"-> ([^\s:]+:\d+)", line)
        if found:
            self.asked.append(found[1])


@asynccontextmanager
async def real_proxy(
    *, credentials: bool = False, certificate: tuple[Path, Path] | None = None
) -> AsyncIterator[RealProxy]:
    """A proxy for the block, on a free port; with `credentials` it wants user and password.

    `certificate`: key and certificate of one that speaks HTTP over TLS.
    """
    port = unused_port()
    login = f"#{USER}:{PASSWORD}" if credentials else ""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-u", "-m", "tests.proxied", "-v", "-l",
        f"{'http+ssl' if certificate else 'socks5+http'}://127.0.0.1:{port}{login}",
        *(("--ssl", f"{certificate[1]},{certificate[0]}") if certificate else ()),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    proxy = RealProxy(port, credentials=credentials)
    assert process.stdout is not None
    reading = None
    try:
        async with asyncio.timeout(30):
            while b"Serving on" not in (line := await process.stdout.readline()):
                assert line, "the proxy did not start"
        reading = asyncio.create_task(_read(process.stdout, proxy))
        yield proxy
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if reading is not None:
            await reading


async def _read(lines: asyncio.StreamReader, proxy: RealProxy) -> None:
    while line := await lines.readline():
        proxy.note(line.decode())


def unused_port() -> int:
    """A port of this machine where nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def main() -> None:
    """Run pproxy, with names of its own."""
    from pproxy.server import main as serve

    look_up = socket.getaddrinfo

    def resolve(host: Any, *more: Any, **options: Any) -> Any:
        return look_up("127.0.0.1" if str(host).endswith(NAMES) else host, *more, **options)

    socket.getaddrinfo = resolve
    os.environ["PYTHONUNBUFFERED"] = "1"
    serve(sys.argv[1:])


if __name__ == "__main__":
    main()
