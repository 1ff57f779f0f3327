"""One API server for all tests of the application; each test has a backend of its own behind it."""

from __future__ import annotations

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


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times are shown in the machine's zone: the same one on every machine."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
