"""A count that is asked once, now."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, get_args

import msgspec

from agent.api.schema import CountBody
from agent.specs import QueryName
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from tui.app import TallyApp


async def count(app: TallyApp, words: list[str]) -> None:
    """Ask, and show the number with what each relay said."""
    if len(words) < 2:
        line = await app.answer("Count once", "query and target: followers npub1…", " ".join(words))
        words = shlex.split(line) if line else []
    if not words:
        return
    query, target = words[0], "".join(words[1:2])
    if query not in get_args(QueryName):
        raise InvalidInput(f"the query is one of: {', '.join(get_args(QueryName))}")
    app.tell(f"counting {query}")
    body = msgspec.convert({"query": query, "target": target}, CountBody)
    found = await app.ask(lambda client: client.count(body))
    from tui.dialogs.counted import Counted

    await app.push_screen_wait(Counted(found))
