"""Checkers for `data/cases.json`, by category.

Whoever owns a category adds a module to this package and decorates a function in it:

    @checks("store")
    def check_store(case: Case) -> None: ...

Nothing else is to be edited: every module here is imported, and a category that has no checker
yet is a strict expected failure. A checker may be a coroutine function.
"""

from __future__ import annotations

import base64
import importlib
import json
import pkgutil
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

CATEGORIES = frozenset(
    [
        "event",
        "event-id",
        "filter",
        "url",
        "relay-message",
        "client-message",
        "relay-frame",
        "nip11",
        "hll",
        "store",
        "relay-flow",
        "negentropy",
        "nats-counter",
    ]
)


class Case(msgspec.Struct, frozen=True):
    """One case as the file has it; `input` is text, decoded by `data` as `encoding` says."""

    id: str
    category: str
    encoding: str
    input: str
    expected: dict[str, Any]
    why: str = ""

    @property
    def data(self) -> Any:
        """The input decoded as JSON."""
        return json.loads(self.input)

    @property
    def frame(self) -> str | bytes:
        """The input as it comes over a wire: bytes where the encoding is one of bytes."""
        match self.encoding:
            case "hex":
                return bytes.fromhex(self.input)
            case "base64":
                return base64.b64decode(self.input)
        return self.input


Checker = Callable[[Case], Coroutine[Any, Any, None] | None]
_checkers: dict[str, Checker] = {}


def checks(*categories: str) -> Callable[[Checker], Checker]:
    """Register the decorated function for these categories; one checker for each."""

    def register(checker: Checker) -> Checker:
        for category in categories:
            assert category in CATEGORIES, category
            assert category not in _checkers, f"{category} has two checkers"
            _checkers[category] = checker
        return checker

    return register


def checkers() -> dict[str, Checker]:
    """All checkers of all modules of this package."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _checkers
