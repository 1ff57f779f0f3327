"""`python -m tests.forks.server SOCKET`: forks a program for each connection, as `stub` asks."""

from __future__ import annotations

import importlib
import io
import marshal
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import time
import warnings
from contextlib import suppress
from typing import Any, NamedTuple

from nostr_client.options import ReconnectPolicy

# What is imported ahead; without what a program may lack, and what starts threads.
PACKAGES = ("nostr_client", "agent")
LEFT_OUT = ("agent.reindex", "agent.commands.reindex")
RECONNECT_S = "NOSTR_TALLY_TEST_RECONNECT_S"
"""A variable: the first delay before a relay that is away is tried again, in seconds."""
LIBRARIES = ("aiohttp", "numpy", "sqlite3", "ssl")


class Asked(NamedTuple):
    """What a stub asks for."""

    module: str
    argv: list[str]
    environ: dict[bytes, bytes]
    cwd: str
    umask: int


def preload() -> None:
    """Import all that a start would."""
    for name in LIBRARIES:
        importlib.import_module(name)
    for package in PACKAGES:
        found = importlib.import_module(package)
        for one in pkgutil.walk_packages(found.__path__, f"{package}."):
            if not one.name.endswith("__main__") and not one.name.startswith(LEFT_OUT):
                with suppress(ImportError):
                    importlib.import_module(one.name)


class Server:
    """One thread; a connection lives as long as the process that was forked for it."""

    def __init__(self, path: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(path)
        self._listening.listen(64)
        self._children: dict[int, socket.socket] = {}
        self._wakes = self._woken, waking = os.pipe()
        for number in self._wakes:
            os.set_blocking(number, False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with whoever started it
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking)
        for one in (self._listening, self._woken, sys.stdin.fileno()):
            self._selector.register(one, selectors.EVENT_READ)

    def serve(self) -> Asked | None:
        """Until stdin ends; in a process that was forked, what is to be run there."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == sys.stdin.fileno():
                    self._kill_all()
                    return None
                if key.fileobj == self._woken:
                    os.read(self._woken, 4096)
                    self._reap()
                elif key.fileobj is self._listening:
                    asked = self._accept()
                    if asked is not None:
                        return asked
                else:
                    self._hand_on(key.fileobj)

    def _accept(self) -> Asked | None:
        connection, _ = self._listening.accept()
        head, streams, *_ = socket.recv_fds(connection, 4, 3)
        body, size = b"", int.from_bytes(head, "big")
        while len(body) < size:
            body += connection.recv(size - len(body))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid == 0:
            connection.close()
            self._forget()
            return _placed(Asked(*marshal.loads(body)), streams)
        for stream in streams:
            os.close(stream)
        self._children[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ)
        return None

    def _forget(self) -> None:
        """In the forked process: nothing of the server's is open."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in self._wakes:
            os.close(number)
        for one in (self._selector, self._listening, *self._children.values()):
            one.close()

    def _hand_on(self, connection: Any) -> None:
        """Pass on a signal. If the stub has ended, the forked process ends too."""
        pid = next(pid for pid, one in self._children.items() if one is connection)
        numbers = connection.recv(64) or bytes([signal.SIGKILL])
        for number in numbers:
            os.kill(pid, number)
        if numbers == bytes([signal.SIGKILL]):
            self._selector.unregister(connection)

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            connection = self._children.pop(pid)
            with suppress(KeyError):
                self._selector.unregister(connection)
            code = os.waitstatus_to_exitcode(status)
            with suppress(OSError):
                connection.send(code.to_bytes(4, "big", signed=True))
            connection.close()

    def _kill_all(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)


def _placed(asked: Asked, streams: list[int]) -> Asked:
    """Make this process what a start would be: streams, folder, environment, arguments."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    sys.stdout = _written(1, "strict", by_line=os.isatty(1))
    sys.stderr = _written(2, "backslashreplace", by_line=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(asked.umask)
    os.chdir(asked.cwd)
    sys.path[0] = asked.cwd  # as `python -m` has it
    os.environb.clear()
    os.environb.update(asked.environ)
    time.tzset()
    if first := os.environ.pop(RECONNECT_S, None):
        ReconnectPolicy.__init__.__kwdefaults__["first"] = float(first)
    sys.argv = list(asked.argv)
    return asked


def _written(number: int, errors: str, *, by_line: bool) -> io.TextIOWrapper:
    """A stream as Python makes them at a start."""
    binary = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
    return io.TextIOWrapper(binary, "utf-8", errors, line_buffering=by_line)


if __name__ == "__main__":
    preload()
    _server = Server(sys.argv[1])
    os.write(1, b"ready\n")
    _asked = _server.serve()
    if _asked is not None:
        runpy.run_module(_asked.module, run_name="__main__", alter_sys=True)
