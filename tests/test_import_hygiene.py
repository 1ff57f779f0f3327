"""What an import may load, measured in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from nostr_client.errors import EXTRAS

LIBSECP256K1 = {"btclib_libsecp256k1", "coincurve"}
HEAVY = {"asyncio", "aiohttp", "sqlite3"} | LIBSECP256K1


def loaded_by(module: str) -> set[str]:
    code = f"import json, sys; import {module}; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    return set(json.loads(run.stdout))


LIGHT = [
    "nostr_client",
    "nostr_client.network.pacing",
    "nostr_client.errors",
    "nostr_client.codecs.event",
    "nostr_client.codecs.filters",
    "nostr_client.hll",
    "nostr_client.codecs.kinds",
    "nostr_client.codecs.messages",
    "nostr_client.codecs.nip19",
    "nostr_client.options",
    "nostr_client.codecs.reasons",
    "nostr_client.codecs.relay_url",
    "nostr_client.count.trust",
]


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_load_nothing_heavy(module: str) -> None:
    assert not loaded_by(module) & HEAVY


def test_keys_alone_of_the_core_loads_libsecp256k1() -> None:
    loaded = loaded_by("nostr_client.codecs.keys") & HEAVY
    assert loaded <= LIBSECP256K1
    assert len(loaded) == 1


def test_counters_load_neither_relays_nor_keys() -> None:
    """They serve programs that have nothing to do with Nostr."""
    loaded = loaded_by("nostr_client.counters; nostr_client.counters.SqliteCounterStore")
    assert "sqlite3" in loaded
    assert not loaded & ({"aiohttp", "nats"} | LIBSECP256K1)
    assert not {"nostr_client.network.relay", "nostr_client.codecs.event"} & loaded


@pytest.mark.parametrize(
    "module", ["agent.cli", "agent.service.run", "agent.reindex.single", "nostr_client.client"]
)
def test_the_agent_loads_no_pyspark_and_no_pandas(module: str) -> None:
    """Either is a second of CPU."""
    assert not loaded_by(module) & {"pyspark", "py4j", "pandas", "pyarrow"}


WITHOUT_EXTRAS = """
import importlib, json, pkgutil, sys

for name in json.loads(sys.argv[1]):
    sys.modules[name] = None
for package in map(importlib.import_module, ("nostr_client", "agent", "tui")):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.", lambda name: None):
        try:
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)
        except ModuleNotFoundError:
            print(found.name)
"""


def test_modules_load_with_the_extras_agent_and_tui_alone() -> None:
    """They are the usual install: only what is made for another extra may lack it."""
    lacking = [name for name, extra in EXTRAS.items() if extra not in ("agent", "tui")]
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, json.dumps(lacking)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    homes = (
        "nostr_client.counters.jetstream",
        "agent.reindex.spark.",
        "nostr_client.network.access.proxy_connector",
        "nostr_client.codecs.secp256k1.by_",  # one of the two, by the version of Python
    )
    assert [name for name in run.stdout.splitlines() if not name.startswith(homes)] == []
    assert "nostr_client.counters.jetstream" in run.stdout
