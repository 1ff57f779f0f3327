"""Every benchmark runs through in its quick form and leaves a readable result; no time asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import names

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", names())
@pytest.mark.timeout(180)
def test_quick_form_runs(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", f"bench.{name}", "--quick", "--out", str(tmp_path)]
    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False
    )
    assert run.returncode == 0, run.stderr
    document = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
    assert document["quick"] is True
    assert document["rows"] or document["notes"]
    for row in document["rows"]:
        assert row["ours"] >= 0
