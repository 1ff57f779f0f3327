"""Each fuzz target for a while, from its seed: nothing but refusals comes out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.targets import TARGETS
from tests.conftest import missing

ROOT = Path(__file__).parents[1]


def fuzz(name: str, runs: int, folder: Path) -> None:
    try:
        import atheris  # noqa: F401
    except ImportError:
        missing("atheris")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "fuzz",
            name,
            f"-runs={runs}",
            "-seed=1",
            "-max_len=4096",
            f"-artifact_prefix={folder}/",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert f"Done {runs} runs" in done.stderr + done.stdout


@pytest.mark.parametrize("name", TARGETS)
def test_a_while(name: str, tmp_path: Path) -> None:
    fuzz(name, 2_000, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("name", TARGETS)
def test_long(name: str, tmp_path: Path) -> None:
    fuzz(name, 500_000, tmp_path)
