"""Put peers where tests find them: once, under `.cache/`, under a name that says what was asked."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conftest import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache"
INSTALL_SECONDS = 300


@functools.cache
def environment(name: str) -> Path:
    """The Python of an environment with what `tests/peers/<name>.txt` locks, made on first use.

    Skips (fails in CI) where it cannot be made. Locks are made by
    `uv pip compile tests/peers/<name>.in --universal --python-version 3.11`.
    """
    lock = Path(__file__).with_name(f"{name}.txt")
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = CACHE / f"{name}-{digest}"
    python = folder / "bin" / "python"
    with installing(folder) as needed:
        if needed and (uv := shutil.which("uv")):
            install(
                [uv, "venv", "-q", "--allow-existing", "-p", sys.executable, str(folder)], CACHE
            )
            install([uv, "pip", "install", "-q", "-p", str(python), "-r", str(lock)], CACHE)
        elif needed:
            install([sys.executable, "-m", "venv", str(folder)], CACHE)
            install([str(python), "-m", "pip", "install", "-q", "-r", str(lock)], CACHE)
    return python


@contextmanager
def installing(folder: Path) -> Iterator[bool]:
    """Holds the folder's lock; true while it was not filled to the end, e.g. by a killed run."""
    CACHE.mkdir(exist_ok=True)
    done = folder / ".complete"
    with (CACHE / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            yield False
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield True
        done.touch()


def install(command: list[str], folder: Path) -> None:
    """Run an installer; skips (fails in CI) with its last words when it fails."""
    run = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
    )
    if run.returncode:
        why = (run.stderr.strip().splitlines() or ["no reason given"])[-1]
        missing(f"what `{Path(command[0]).name}` installs ({why})")
