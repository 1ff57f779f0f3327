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


LIGHT = [
    "nostr_client",
    "nostr_client.backoff",
    "nostr_client.errors",
    "nostr_client.event",
    "nostr_client.filters",
    "nostr_client.hll",
    "nostr_client.kinds",
    "nostr_client.messages",
    "nostr_client.nip19",
    "nostr_client.options",
    "nostr_client.reasons",
    "nostr_client.relayurl",
    "nostr_client.trust",
]


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_load_nothing_heavy(module: str) -> None:
    assert not loaded_by(module) & set(HEAVY)


def test_keys_alone_of_the_core_loads_libsecp256k1() -> None:
    assert loaded_by("nostr_client.keys") & set(HEAVY) == {"coincurve"}


@pytest.mark.parametrize(
    "module", ["agent.cli", "agent.service.run", "agent.reindex.single", "nostr_client.client"]
)
def test_the_agent_loads_no_pyspark_and_no_pandas(module: str) -> None:
    """Either is a second of CPU."""
    assert not loaded_by(module) & {"pyspark", "py4j", "pandas", "pyarrow"}
