"""What the terminal application may load: no store, no keys, no Spark; sockets later."""

from __future__ import annotations

import pytest

from tests.test_import_hygiene import loaded_by

HEAVY = {"sqlite3", "sqlite_utils", "coincurve", "pyspark"}
LATER = {"aiohttp", "numpy"}


@pytest.mark.parametrize("module", ["tui.app", "tui.cli", "agent.api.client", "tui.widgets.plot"])
def test_nothing_heavy_is_loaded_even_to_talk_to_the_agent(module: str) -> None:
    assert not loaded_by(module) & HEAVY


def test_it_draws_before_it_loads_sockets() -> None:
    assert not loaded_by("tui.app") & LATER
