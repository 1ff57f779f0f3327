"""How the tests are shared out among processes: whole files, those that take longest first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import FIRST, group_of

ROOT = Path(__file__).parents[1]


def test_a_file_is_one_group_and_xdist_knows_it(request: pytest.FixtureRequest) -> None:
    """xdist shares out what the names of tests end with, if they do before it looks."""
    file = "tests/test_distribution.py"
    assert group_of(request.node) == file
    if hasattr(request.config, "workerinput"):
        assert request.node.nodeid.endswith(f"@{file}")


@pytest.mark.parametrize("group", FIRST)
def test_what_comes_first_is_there(group: str) -> None:
    marked = f'xdist_group("{group}")'
    assert (ROOT / group).is_file() or any(
        marked in one.read_text("utf-8") for one in ROOT.glob("tests/**/test_*.py")
    )
