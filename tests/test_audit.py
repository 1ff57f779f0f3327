"""An audit that could not be made is told apart from one that found nothing."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from nostr_client import __version__

ROOT = Path(__file__).parents[1]
FINE: dict[str, Any] = {"name": "a", "version": "1", "vulns": []}
SKIPPED = {"name": "b", "skip_reason": "not found on PyPI"}
BAD = {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}


@pytest.mark.parametrize(
    ("dependencies", "code"),
    [([FINE], 0), ([FINE, SKIPPED], 3), ([SKIPPED], 3), ([], 3), ([SKIPPED, BAD, FINE], 1)],
)
def test_verdicts(dependencies: list[dict[str, Any]], code: int) -> None:
    found, lines = run_path(str(ROOT / "scripts/audit.py"))["verdict"](dependencies)
    assert found == code
    assert lines


def test_the_version_is_in_one_place() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert 'dynamic = ["version"]' in project
    assert f'"{__version__}"' not in project
    places = [
        path
        for folder in ("nostr_client", "agent", "tui")
        for path in (ROOT / folder).rglob("*.py")
        if f'"{__version__}"' in path.read_text("utf-8")
    ]
    assert places == [ROOT / "nostr_client" / "__init__.py"]
