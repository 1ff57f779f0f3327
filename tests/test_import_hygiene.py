"""What an import may load, measured in a fresh interpreter."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agent.relay.server import serve
from bench.fresh import modules_of
from nostr_client.errors import EXTRAS
from nostr_client.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

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


TARGET = "ab" * 32
NO_STORE = frozenset({"numpy", "sqlite3", "nostr_client.store.file.database"})
NOT_FOR_A_COUNT = NO_STORE | {"rich", "platformdirs", "nostr_client.watch.engine"}

BUDGETS = [
    ("count reactions TARGET -r RELAY --json", 180, NOT_FOR_A_COUNT),
    ("count --kind 1 -r RELAY --json", 180, NOT_FOR_A_COUNT),
    ("count reactions TARGET -r RELAY --json --store STORE", 224, frozenset({"rich", "numpy"})),
    ("req --kind 1 -r RELAY", 175, NO_STORE),
    ("sync run --kind 1 -r RELAY --store STORE --json", 333, frozenset({"rich"})),
]
"""Words of a command, the most modules beside those of aiohttp and of Python itself, and modules
that the command does not need."""


@pytest.mark.parametrize(("words", "most", "not_needed"), BUDGETS, ids=[one[0] for one in BUDGETS])
async def test_a_command_loads_few_modules(
    words: str, most: int, not_needed: frozenset[str], tmp_path: Path
) -> None:
    """Each module costs a short command about a millisecond before its first request."""
    async with await SqliteStore.open(":memory:") as store, serve(store, port=0) as relay:
        values = {"TARGET": TARGET, "RELAY": relay.url, "STORE": str(tmp_path / "store.db")}
        command = [values.get(word, word) for word in words.split()]
        loaded = await asyncio.to_thread(modules_of, command, tmp_path)
    assert not_needed.isdisjoint(loaded)
    ours = {one for one in loaded if one.partition(".")[0] not in sys.stdlib_module_names}
    assert len(ours - loaded_by("aiohttp")) <= most


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
