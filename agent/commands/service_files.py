"""Builds the files by which systemd and launchd run the agent. Pure."""

from __future__ import annotations

import plistlib
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.paths import SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME: Final = SERVICE
LABEL: Final = "org.nostr-tally.agent"


class ServiceFile(NamedTuple):
    """Where a file goes, its text, and what to run then."""

    path: str
    text: str
    then: tuple[str, ...]


def systemd(command: tuple[str, ...], *, user: bool, writes: Iterable[str] = ()) -> str:
    """A hardened unit; of a user's manager, or of the system with a user of its own.

    `writes`: folders that it may write besides its state, which the configuration names.
    """
    paths = "".join(f"ReadWritePaths={_path(path)}\n" for path in writes)
    where = "" if user else "DynamicUser=yes\n"
    target = "default.target" if user else "multi-user.target"
    network = "" if user else "Wants=network-online.target\nAfter=network-online.target\n"
    kernel = _USER_HARDENING if user else _USER_HARDENING + _SYSTEM_HARDENING
    return f"""\
[Unit]
Description=nostr-tally agent
Documentation=https://github.com/nostr-tally/nostr-tally
{network}StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={" ".join(map(_quoted, command))}
ExecReload=/bin/kill -HUP $MAINPID
Restart=always
RestartSec=1
TimeoutStartSec=60
TimeoutStopSec=30
WatchdogSec=60
{where}{paths}StateDirectory={NAME}
StateDirectoryMode=0700
UMask=0077
LimitNOFILE=8192
{kernel}
[Install]
WantedBy={target}
"""


_USER_HARDENING: Final = """\
NoNewPrivileges=yes
ProtectSystem=strict
RestrictSUIDSGID=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
SystemCallArchitectures=native
SystemCallFilter=@system-service
"""

_SYSTEM_HARDENING: Final = """\
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
CapabilityBoundingSet=
MemoryDenyWriteExecute=yes
"""


def launchd(command: tuple[str, ...], log: str) -> str:
    """A property list for a user's launchd."""
    described = {
        "Label": LABEL,
        "ProgramArguments": list(command),
        "RunAtLoad": True,
        "KeepAlive": True,
        "ThrottleInterval": 5,
        "ProcessType": "Background",
        "Umask": 0o077,
        "StandardErrorPath": log,
    }
    return plistlib.dumps(described).decode()


def _path(folder: str) -> str:
    """A folder that need not be there yet; only ExecStart knows `$`."""
    return _quoted(f"-{folder}").replace("$$", "$")


def _quoted(word: str) -> str:
    """A word of ExecStart: `%` and `$` stand for themselves, quoted where it has spaces."""
    plain = word.replace("%", "%%").replace("$", "$$")
    if plain and not set(plain) & set(" \t\"'\\;"):
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
