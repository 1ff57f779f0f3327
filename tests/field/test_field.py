"""Every file of `data/field/` gives its right value; a file of another name fails."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import TYPE_CHECKING

import pytest

from tests.conftest import SHARED, missing_shared
from tests.field import field_checks

if TYPE_CHECKING:
    from pathlib import Path

FILES = {path.stem: path for path in sorted((SHARED / "data" / "field").glob("*.json"))}
CHECKS = field_checks()


def test_the_folder_is_here() -> None:
    if not FILES:
        missing_shared("data/field")


@pytest.mark.parametrize("name", FILES)
def test_case(name: str, tmp_path: Path) -> None:
    assert name in CHECKS, "a case whose form nobody checks"
    answer = CHECKS[name](json.loads(FILES[name].read_text("utf-8")), tmp_path)
    if inspect.iscoroutine(answer):
        asyncio.run(answer)
