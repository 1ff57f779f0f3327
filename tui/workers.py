"""Start work of a page or dialog that nobody waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.css.query import NoMatches
from textual.widget import Widget

LONG = "long"
"""What takes as long as somebody takes to answer, or for ever."""

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from textual.dom import DOMNode
    from textual.worker import Worker, WorkType


def is_whole(node: DOMNode) -> bool:
    """Whether a node stands with all its parts: it is neither being made nor being taken down."""
    made = not isinstance(node, Widget) or node.is_mounted
    return made and node.app.is_running and node.is_attached


def start(
    node: DOMNode,
    what: Callable[[], Coroutine[Any, Any, None]],
    group: str = "",
    *,
    alone: bool = True,
) -> Worker[None]:
    """Begin it, to end with the node; alone in a group, what that did before is given up."""

    async def done() -> None:
        try:
            await what()
        except NoMatches:  # it has lost its parts already where it is being taken down
            if is_whole(node):
                raise

    work: WorkType[None] = done
    return node.run_worker(work, group=group or LONG, exclusive=bool(group) and alone)
