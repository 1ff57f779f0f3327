"""The layering contracts hold, and catch what they are there to catch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINT = Path(sys.executable).with_name("lint-imports")


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(root)}
    command = [str(LINT), "--no-cache", "--config", str(root / "pyproject.toml")]
    return subprocess.run(
        command, cwd=root, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def copy_tree(target: Path) -> None:
    for package in ("nostr_client", "agent", "tui"):
        shutil.copytree(ROOT / package, target / package)
    shutil.copy(ROOT / "pyproject.toml", target)


def test_contracts_hold() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout


def test_a_deliberate_violation_is_caught(tmp_path: Path) -> None:
    copy_tree(tmp_path)
    errors = tmp_path / "nostr_client" / "errors.py"
    errors.write_text(errors.read_text("utf-8") + "\nimport agent\n", "utf-8")
    result = lint(tmp_path)
    assert result.returncode == 1
    assert "nostr_client.errors -> agent" in result.stdout
