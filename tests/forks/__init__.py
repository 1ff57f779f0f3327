"""The programs as processes that begin where their imports are done: a start costs a tenth.

A server, one for each process of the tests, has imported the SDK and the agent, and forks for each
start. A test starts a small program, the stub. The stub hands its arguments, environment, folder
and streams to the server, passes signals on, and ends as the forked process ends. Tests of starts
themselves, of imports and of memory start the real thing.
"""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVER = "tests.forks.server"
STUB = Path(__file__).with_name("stub.py")
NAMES = {"nostr_client": "nostr-client", "agent": "nostr-agent"}
"""The modules that can be forked, and the names of their programs."""

AT_STARTS = ("PYTHON", "LD_", "LC_", "LANG")
"""How the names of variables begin that are looked at when a process starts."""

HERE = sys.platform == "linux" and os.environ.get("NOSTR_TALLY_TEST_FORKS") != "no"
"""True if tests fork programs. Only Linux forks safely. With `no`, each program starts anew."""


def command(module: str, **env: str) -> list[str]:
    """What `python -m MODULE` is called by; `env` is what the process gets beside this one's."""
    if not HERE or module not in NAMES or any(name.startswith(AT_STARTS) for name in env):
        return fresh(module)
    return [str(folder() / NAMES[module])]


def fresh(module: str) -> list[str]:
    """The real thing."""
    return [sys.executable, "-m", module]


@functools.cache
def folder() -> Path:
    """Where programs of these names are, for a PATH."""
    place = Path(tempfile.mkdtemp(prefix="nostr-tally-forks-"))
    listening = place / "socket"
    _serve(place, listening)
    for module, name in NAMES.items():
        lines = [f"#!{sys.executable} -IS", f"ADDRESS = {str(listening)!r}", f"MODULE = {module!r}"]
        executable = os.open(place / name, os.O_WRONLY | os.O_CREAT, 0o700)
        with open(executable, "w", encoding="utf-8") as file:
            file.write("\n".join([*lines, STUB.read_text("utf-8")]))
    return place


def _serve(place: Path, listening: Path) -> None:
    """Start the server of this process, which ends with it."""
    one = subprocess.Popen(
        [sys.executable, "-m", SERVER, str(listening)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )
    atexit.register(_end, one, place)
    assert one.stdout is not None
    assert one.stdout.readline() == b"ready\n"


def _end(one: subprocess.Popen[bytes], place: Path) -> None:
    one.communicate()
    for path in place.iterdir():
        path.unlink()
    place.rmdir()
