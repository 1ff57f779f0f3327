"""From click's plain functions into asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine to its end; Ctrl-C cancels it and is raised again."""
    return asyncio.run(coroutine)
