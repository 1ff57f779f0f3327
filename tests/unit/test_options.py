"""Options refuse what cannot be meant, and every default states its reason."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from nostr_client import options
from nostr_client.codecs import messages
from nostr_client.errors import InvalidInput
from nostr_client.options import (
    ConnectionOptions,
    Limits,
    Options,
    ReadBudget,
    ReconnectPolicy,
    RelayBudget,
    Timeouts,
)

CLASSES: list[Any] = [Timeouts, Limits, ReconnectPolicy, ReadBudget, RelayBudget]


@pytest.mark.parametrize("options_class", CLASSES)
def test_no_value_may_be_zero_negative_or_nan(options_class: Any) -> None:
    for field in dataclasses.fields(options_class):
        for bad in (0, -1, float("nan")):
            with pytest.raises(InvalidInput, match=field.name):
                options_class(**{field.name: bad})


def test_longest_below_first_is_refused() -> None:
    with pytest.raises(InvalidInput):
        ReconnectPolicy(first=10, longest=9)
    with pytest.raises(InvalidInput):
        RelayBudget(first_pause=10, longest_pause=9)


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


def test_every_option_is_read_somewhere() -> None:
    """An option that nothing reads promises what nobody does."""
    root = Path(options.__file__).parents[1]
    files = [*root.glob("nostr_client/**/*.py"), *root.glob("agent/**/*.py")]
    code = "\n".join(one.read_text("utf-8") for one in files if one.name != "options.py")
    for one in [*CLASSES, ConnectionOptions, Options]:
        for field in dataclasses.fields(one):
            assert re.search(rf"\.{field.name}\b", code), f"{one.__name__}.{field.name}"


def test_the_largest_frame_is_one_number() -> None:
    assert Limits().message_bytes_in == messages.DEFAULT_MAX_SIZE
