"""The interpreter's audit of every Python that a test starts with this folder on its PYTHONPATH.

`NOSTR_TALLY_TEST_AUDIT` names a log. It gets one JSON array for each event: `["write", path]` or
`["run", program, argument, …]`. Python imports a module of this name when it starts, children
too. SQLite opens its files itself: what is known of those is the path that it connects to. Audit
hooks (PEP 578) are raised where the system is called, so that no library passes beside them.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Final

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PATHS: Final = {
    "os.chmod": (0,),
    "os.link": (1,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "sqlite3.connect": (0,),
}
"""Which arguments of an event are paths that change."""

_RUNS: Final = {"subprocess.Popen": 1, "os.exec": 1, "os.posix_spawn": 1, "os.spawn": 2}
"""Which argument of an event is the command line."""


def rows(event: str, args: tuple[Any, ...]) -> list[list[str]]:
    """What the log says of an event."""
    if event == "open":
        path, _, flags = args
        writes = isinstance(flags, int) and flags & _WRITES
        return [["write", os.fsdecode(path)]] if writes and not isinstance(path, int) else []
    if event in _PATHS:
        named = [args[n] for n in _PATHS[event]]
        return [["write", os.fsdecode(one)] for one in named if not isinstance(one, int)]
    if event == "os.system":
        return [["run", os.fsdecode(args[0])]]
    if event in _RUNS:
        return [["run", *map(os.fsdecode, args[_RUNS[event]])]]
    return []


def install(path: str) -> None:
    """Write the events of this process to a log, for good."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        for row in rows(event, args):
            os.write(log, json.dumps(row).encode() + b"\n")

    sys.addaudithook(hook)


if "NOSTR_TALLY_TEST_AUDIT" in os.environ:
    install(os.environ["NOSTR_TALLY_TEST_AUDIT"])
