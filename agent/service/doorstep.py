"""The first seconds of a start: `/healthz` answers while the agent's code is still being loaded.

The library's HTTP server in a few threads, as it loads in a tenth of what aiohttp takes. The
listening socket is then handed to the API: who connects in between waits a moment.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from agent.api.guard import host_name, is_loopback
from agent.api.schema import Health, Problem, Ready
from agent.relay.listen import bind, parse_address
from agent.service.token import make_token, token_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from socket import socket

    from agent.config.model import ApiSection

AT_ONCE: Final = 16
"""Requests that are answered at once; further connections are closed, and may come again."""

POLL_S: Final = 0.02


class Doorstep(NamedTuple):
    """The API's socket, which listens, and since when (monotonic clock)."""

    listener: socket
    since: float


@contextmanager
def answering(section: ApiSection) -> Iterator[Doorstep]:
    """Answer for as long as the block runs, then leave the socket to others.

    Who hears an answer finds the token. Raises InvalidInput, NetworkError (an address in use).
    """
    make_token(token_file(section))
    step = Doorstep(bind(*parse_address(section.listen)), time.monotonic())
    server = _Server(step, frozenset(host.lower() for host in section.hosts))
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
    thread.start()
    try:
        yield step
    except BaseException:
        step.listener.close()
        raise
    finally:
        server.shutdown()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, step: Doorstep, hosts: frozenset[str]) -> None:
        super().__init__(step.listener.getsockname()[:2], _Answer, bind_and_activate=False)
        self.socket.close()
        self.socket = step.listener
        self.since = step.since
        self.hosts = hosts
        self._slots = threading.BoundedSemaphore(AT_ONCE)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's news."""


class _Answer(BaseHTTPRequestHandler):
    server: _Server
    timeout = 2.0
    """Seconds that a client may take to ask."""

    def do_GET(self) -> None:
        status, answer = self._said()
        body = msgspec.json.encode(answer)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_GET

    def _said(self) -> tuple[int, msgspec.Struct]:
        name = host_name(self.headers.get("Host", ""))
        if not (is_loopback(name) or name in self.server.hosts):
            why = "the Host of the request is not a name of this agent"
            return 403, Problem(code="foreign_host", message=why)
        if self.path == "/healthz":
            uptime = round(time.monotonic() - self.server.since, 3)
            return 200, Health(alive=True, uptime=uptime)
        if self.path == "/readyz":
            return 503, Ready(ready=False, reasons=("starting",))
        return 503, Problem(code="starting", message="the agent is starting: ask again in a moment")

    def version_string(self) -> str:
        return "nostr-agent"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the log is not open yet."""
