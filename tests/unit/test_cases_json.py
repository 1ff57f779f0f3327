"""Every case of `data/cases.json`; the checkers are in `tests/unit/cases`, one module per owner."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import msgspec
import pytest

from tests.conftest import load_cases, missing_shared
from tests.unit.cases import CATEGORIES, Case, Checker, checkers, checks

FILE = load_cases("cases.json") or []
CHECKERS = checkers()


def as_parameter(raw: dict[str, Any]) -> Any:
    case = msgspec.convert(raw, Case)
    waits = case.category in CATEGORIES and case.category not in CHECKERS
    reason = f"nobody checks {case.category} yet"
    marks = [pytest.mark.xfail(strict=True, raises=KeyError, reason=reason)] if waits else []
    return pytest.param(case, id=case.id, marks=marks)


def test_the_file_is_here_and_has_no_unknown_category() -> None:
    if not FILE:
        missing_shared("data/cases.json")
    assert {raw["category"] for raw in FILE} <= CATEGORIES


@pytest.mark.parametrize("case", [as_parameter(raw) for raw in FILE])
def test_case(case: Case) -> None:
    answer = CHECKERS[case.category](case)
    if inspect.iscoroutine(answer):
        asyncio.run(answer)


def test_a_category_has_one_checker() -> None:
    def second(case: Case) -> None:
        raise AssertionError(case)

    checker: Checker = second
    with pytest.raises(AssertionError, match="two checkers"):
        checks("event")(checker)
