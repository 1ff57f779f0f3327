"""Beginning something that is not waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

LONG = "long"
"""What takes as long as somebody takes to answer, or for ever."""

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from textual.dom import DOMNode
    from textual.worker import WorkType


def start(
    node: DOMNode,
    what: Callable[[], Coroutine[Any, Any, None]],
    group: str = "",
    *,
    alone: bool = True,
) -> None:
    """Begin it, to end with the node; alone in a group, what that did before is given up."""
    work: WorkType[None] = what
    node.run_worker(work, group=group or LONG, exclusive=bool(group) and alone)
