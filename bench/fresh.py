"""Programs in fresh processes: the time of each, and the modules that it loads."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import platformdirs

if TYPE_CHECKING:
    from collections.abc import Sequence

CLIENT = (sys.executable, "-m", "nostr_client")

_HOMES = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")

_LOADED = """
import json, sys
from nostr_client.cli.app import run
code = run()
print()
print(json.dumps([code, sorted(sys.modules)]))
"""

_IMPORT = """
import importlib, json, sys
from contextlib import suppress
from nostr_client.cli.gc_tuning import run_to_exit
def run():
    for name in json.loads(sys.stdin.read()):
        with suppress(ImportError):
            importlib.import_module(name)
    return 0
run_to_exit(run)
"""

BYTECODE = Path(platformdirs.user_cache_dir("nostr-tally")) / "bench" / "bytecode"
"""Compiled modules, as an installed program has them: a first run would only show the compiler."""

IMPORTING = (sys.executable, "-c", _IMPORT)
"""A process that starts as `nostr-client` does, and only imports the modules that stdin names."""


class Spent(NamedTuple):
    """Seconds on the wall and of CPU."""

    wall: float
    cpu: float

    @staticmethod
    def least(runs: Sequence[Spent]) -> Spent:
        """Return the best of several runs, wall and CPU each by itself."""
        return Spent(min(one.wall for one in runs), min(one.cpu for one in runs))


class Program(NamedTuple):
    """A command, its stdin, and the folder that has its user's files."""

    command: Sequence[str]
    home: Path
    stdin: bytes = b""

    def run(self) -> Spent:
        """Run one process to its end. Raises CalledProcessError if it fails."""
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        _output(self.command, self.home, self.stdin)
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        return Spent(wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def importing(modules: Sequence[str], home: Path) -> Program:
    """A program that only imports these modules."""
    return Program(IMPORTING, home, json.dumps(modules).encode())


def best(rounds: int, *programs: Program) -> list[Spent]:
    """Run the programs in turn, and return the best of each, so that a busy minute hits all."""
    runs = [[one.run() for one in programs] for _ in range(rounds)]
    return [Spent.least(of_one) for of_one in zip(*runs, strict=True)]


def modules_of(words: Sequence[str], home: Path) -> list[str]:
    """Return the modules that `nostr-client` has loaded when a command with these words ends.

    Raises RuntimeError if the command fails.
    """
    raw = _output((sys.executable, "-c", _LOADED, *words), home)
    code, modules = json.loads(raw.splitlines()[-1])
    if code:
        raise RuntimeError(f"nostr-client {' '.join(words)} ended with {code}")
    return list(modules)


def _output(command: Sequence[str], home: Path, stdin: bytes = b"") -> bytes:
    env = {**os.environ, **dict.fromkeys(_HOMES, str(home)), "PYTHONPYCACHEPREFIX": str(BYTECODE)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(command, input=stdin, stdout=subprocess.PIPE, env=env, check=True).stdout
