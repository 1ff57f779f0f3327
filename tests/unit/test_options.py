"""Options refuse what cannot be meant, and every default states its reason."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from nostr_client import options
from nostr_client.errors import InvalidInput
from nostr_client.options import Limits, ReadBudget, ReconnectPolicy, Timeouts

CLASSES: list[Any] = [Timeouts, Limits, ReconnectPolicy, ReadBudget]


@pytest.mark.parametrize("options_class", CLASSES)
def test_no_value_may_be_zero_negative_or_nan(options_class: Any) -> None:
    for field in dataclasses.fields(options_class):
        for bad in (0, -1, float("nan")):
            with pytest.raises(InvalidInput, match=field.name):
                options_class(**{field.name: bad})


def test_longest_below_first_is_refused() -> None:
    with pytest.raises(InvalidInput):
        ReconnectPolicy(first=10, longest=9)


@pytest.mark.parametrize("options_class", CLASSES)
def test_options_are_frozen_values(options_class: Any) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(options_class(), dataclasses.fields(options_class)[0].name, 5)
    assert options_class() == options_class()
    assert hash(options_class()) == hash(options_class())


def test_every_default_has_a_docstring_with_its_reason() -> None:
    tree = ast.parse(Path(options.__file__).read_text("utf-8"))
    for node in (n for n in tree.body if isinstance(n, ast.ClassDef)):
        for now, then in zip(node.body, node.body[1:], strict=False):
            if isinstance(now, ast.AnnAssign):
                assert isinstance(then, ast.Expr), ast.unparse(now)
                assert isinstance(then.value, ast.Constant)
