"""A small supervisor as systemd is one: reads a unit, starts its ExecStart, listens, restarts."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import socket
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType


class Supervisor:
    """Runs one unit until it is left; `kill` is kill -9, and what is killed is started again."""

    def __init__(self, unit: Path, folder: Path, environ: dict[str, str]) -> None:
        self._command = _exec_start(unit.read_text())
        self._socket = str(folder / "notify")
        self._environ = environ | {
            "NOTIFY_SOCKET": self._socket,
            "STATE_DIRECTORY": str(folder / "state"),
            "WATCHDOG_USEC": "4000000",
        }
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._listening: socket.socket | None = None
        self._ready = asyncio.Event()
        self._stopping = False
        self.starts: list[float] = []
        """How long each start took until READY=1, in seconds."""
        self.cpu: list[float] = []
        """CPU seconds that each start had used by then: what a machine without load would take."""
        self.fed = 0
        self.codes: list[int] = []

    async def __aenter__(self) -> Self:
        (self._folder / "state").mkdir(exist_ok=True)
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._listening.setblocking(False)
        self._listening.bind(self._socket)
        asyncio.get_running_loop().add_reader(self._listening.fileno(), self._hear)
        self._keeper = asyncio.create_task(self._keep())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping = True
        assert self._keeper is not None
        assert self._listening is not None
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(30):
                await self._keeper
        finally:
            if self._process is not None and self._process.returncode is None:
                self._process.kill()
            asyncio.get_running_loop().remove_reader(self._listening.fileno())
            self._listening.close()

    async def ready(self, seconds: float = 30.0) -> None:
        """Until the newest process has said that it is ready."""
        async with asyncio.timeout(seconds):
            await self._ready.wait()

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._ready.clear()
        self._process.kill()

    async def _keep(self) -> None:
        with (self._folder / "log").open("ab") as log:
            while not self._stopping:
                self._began = time.monotonic()
                self._process = await asyncio.create_subprocess_exec(
                    *self._command, env=self._environ, stderr=log, stdout=log
                )
                self.codes.append(await self._process.wait())

    def _hear(self) -> None:
        assert self._listening is not None
        text = self._listening.recv(4096).decode()
        self.fed += "WATCHDOG=1" in text
        if "READY=1" in text and not self._ready.is_set():
            self.starts.append(time.monotonic() - self._began)
            assert self._process is not None
            self.cpu.append(_cpu(self._process.pid))
            self._ready.set()


def _cpu(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _exec_start(unit: str) -> list[str]:
    (line,) = [one for one in unit.splitlines() if one.startswith("ExecStart=")]
    text = line.removeprefix("ExecStart=")
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(text)]
