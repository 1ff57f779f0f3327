"""The dependencies of every extra resolve from wheels on each Python that we name."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.conftest import missing

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PREFIX = "Programming Language :: Python :: "
VERSIONS = [one.removeprefix(PREFIX) for one in PROJECT["classifiers"] if one.startswith(PREFIX)]
BETWEEN = ("3.12", "3.13")
"""Versions that have the wheels of 3.11 and of 3.14, so `make test-long` tries them."""
FROM_SOURCE = ("pyspark", "nkeys")
"""Published as sources alone, for any Python: neither has a compiled part."""
EXTRAS = sorted(set(PROJECT["optional-dependencies"]) - {"dev", "docs", "bench"})


def resolved(version: str, *extras: str) -> str:
    """The pinned dependencies on a version of Python, one a line. Skips without uv."""
    uv = shutil.which("uv")
    if uv is None:
        missing("uv")
    command = [
        str(uv), "pip", "compile", "-q", "--no-header", "--no-annotate", "pyproject.toml",
        "--python-version", version, "--only-binary", ":all:",
        *(word for name in FROM_SOURCE for word in ("--no-binary", name)),
        *(word for name in extras for word in ("--extra", name)),
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False
    )
    if "dns error" in done.stderr or "Failed to fetch" in done.stderr:
        missing("the package index")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "version",
    [pytest.param(one, marks=[pytest.mark.long] if one in BETWEEN else []) for one in VERSIONS],
)
def test_everything_resolves_from_wheels(version: str) -> None:
    found = resolved(version, *EXTRAS)
    new = tuple(map(int, version.split("."))) >= (3, 14)
    assert ("btclib-libsecp256k1==" in found) is new
    assert ("coincurve==" in found) is not new
    assert ("pyspark==" in found) is (version != "3.15")


def test_an_app_with_the_newest_nostr_sdk_can_have_everything() -> None:
    assert "nostr-sdk==0.45" in resolved("3.11", *EXTRAS)


def test_the_classifiers_are_the_pythons_that_may_install() -> None:
    oldest, newest = (bound.strip("<>=") for bound in PROJECT["requires-python"].split(","))
    minors = range(int(oldest.partition(".")[2]), int(newest.partition(".")[2]))
    assert [f"3.{minor}" for minor in minors] == VERSIONS
