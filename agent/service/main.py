"""Starting: first the front door, then, in a thread, the code of everything else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent.service.front import front_door

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from agent.config import Config, Draft


async def serve(draft: Draft, load: Callable[[], Config], config_path: str) -> None:
    """Run the agent until it is told to stop. Raises InvalidConfig with what is wrong."""
    async with front_door(draft.config.api) as door:
        await asyncio.to_thread(_load)
        config = draft.checked()

        from agent.service import run

        await run.serve(config, load, config_path, door)


def _load() -> ModuleType:
    """Half a second of imports, while the loop answers."""
    from agent.service import run

    return run
