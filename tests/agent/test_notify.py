"""Datagrams to a supervisor."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

from agent.service.process.supervision import Notifier, taking_long

if TYPE_CHECKING:
    from pathlib import Path


def test_states_reach_the_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(path)
        listening.settimeout(5)
        notifier = Notifier({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3000000"})
        assert notifier.send(READY=1, STATUS="all well")
        assert listening.recv(1000) == b"READY=1\nSTATUS=all well"
        assert notifier.watchdog_s == 3


async def test_a_long_start_asks_for_patience(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(path)
        listening.settimeout(5)
        async with taking_long(Notifier({"NOTIFY_SOCKET": path}), "opening the store"):
            told = await asyncio.to_thread(listening.recv, 1000)
        assert told == b"EXTEND_TIMEOUT_USEC=30000000\nSTATUS=opening the store"


def test_abstract_sockets() -> None:
    name = f"nostr-tally-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0" + name)
        listening.settimeout(5)
        assert Notifier({"NOTIFY_SOCKET": "@" + name}).send(STOPPING=1)
        assert listening.recv(1000) == b"STOPPING=1"


def test_without_a_supervisor_nothing_happens(tmp_path: Path) -> None:
    assert not Notifier({}).send(READY=1)
    assert not Notifier({"NOTIFY_SOCKET": str(tmp_path / "none")}).send(READY=1)
    assert Notifier({}).watchdog_s is None


def test_a_watchdog_of_another_process_is_not_ours() -> None:
    environ = {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}
    assert Notifier(environ).watchdog_s is None
    assert Notifier(environ | {"WATCHDOG_PID": str(os.getpid())}).watchdog_s == 1
