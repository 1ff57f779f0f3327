"""One API server for all tests of the application; each test has a backend of its own behind it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from tests.tui.backend import Recorded, Served, served

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def api() -> Iterator[Served]:
    with served() as one:
        yield one


@pytest.fixture
def agent(api: Served) -> Iterator[Recorded]:
    """A fresh backend with what `world` knows."""
    backend = Recorded()
    api.use(backend)
    yield backend
    api.use(None)


async def give_way(min_sleep: float = 0.0, max_sleep: float = 0.0) -> None:
    """Replaces Textual's wait for an idle process, which takes 20 ms, or a second under load.

    `Driver.settled` waits for what is known to be under way.
    """
    await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody moves the cursor on meanwhile: what the first page asks for is asked for at once."""
    monkeypatch.setattr("textual.app.wait_for_idle", give_way)
    monkeypatch.setattr("textual.pilot.wait_for_idle", give_way)
    monkeypatch.setattr("tui.pages.overview.LOOK_AFTER_S", 0.0)
    monkeypatch.setattr("tui.pages.overview.LOOK_EVERY_S", 0.0)


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times are shown in the machine's zone: the same one on every machine."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
