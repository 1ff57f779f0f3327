"""Checks for the cases of `data/field/`, by the name of the case's file.

Whoever owns a case adds a module to this package and decorates a function in it:

    @field_case("zap-junk-page")
    async def check(given: Any, tmp_path: Path) -> None: ...

`given` is the file's JSON. Every module here is imported. A check may be a coroutine function.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

Check = Callable[[Any, Path], Coroutine[Any, Any, None] | None]
_checks: dict[str, Check] = {}


def field_case(name: str) -> Callable[[Check], Check]:
    """Register the decorated function for the file of this name; one check for each file."""

    def register(check: Check) -> Check:
        assert name not in _checks, f"{name} has two checks"
        _checks[name] = check
        return check

    return register


def field_checks() -> dict[str, Check]:
    """All checks of all modules of this package."""
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("test_"):
            importlib.import_module(f"{__name__}.{module.name}")
    return _checks
