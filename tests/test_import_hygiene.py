"""What an import may load, measured in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("asyncio", "aiohttp", "sqlite3", "coincurve")


def loaded_by(module: str) -> set[str]:
    code = f"import json, sys; import {module}; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    return set(json.loads(run.stdout))


@pytest.mark.parametrize("module", ["nostr_client", "nostr_client.errors", "nostr_client.hll"])
def test_light_modules_load_nothing_heavy(module: str) -> None:
    assert not loaded_by(module) & set(HEAVY)
