"""A count that is asked once, now."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, get_args

import msgspec

from agent.api.schema import CountBody
from nostr_client.errors import InvalidInput
from nostr_client.watch.definition import QueryName

if TYPE_CHECKING:
    from agent.api.schema import Counted as CountedAnswer
    from tui.app import TallyApp


async def count(app: TallyApp, words: list[str]) -> None:
    """Ask, and show the number with what each relay said."""
    from tui.dialogs.counted import Counted

    async def ask(line: str) -> None:
        body = _body(line)
        app.tell(f"counting {body.query}")
        found.append(await app.ask(lambda client: client.count(body)))

    found: list[CountedAnswer] = []
    line, hint = shlex.join(words), "query and target: followers npub1…"
    given = line if len(words) > 1 else ""
    await app.fill("Count once", hint, ask, given, held=line)
    for one in found:
        await app.push_screen_wait(Counted(one, app.glyphs))


def _body(line: str) -> CountBody:
    try:
        query, target = [*shlex.split(line), "", ""][:2]
    except ValueError as error:  # a quote that is not closed
        raise InvalidInput(f"a query and a target are needed: {error}") from error
    if query not in get_args(QueryName):
        raise InvalidInput(f"the query is one of: {', '.join(get_args(QueryName))}")
    try:
        return msgspec.convert({"query": query, "target": target}, CountBody)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"a query and a target are needed: {error}") from error
