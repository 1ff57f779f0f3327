"""Cases of the event store."""

from __future__ import annotations

import json
from typing import Any

from nostr_client.codecs.filters import Filter
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW, make
from tests.unit.cases import Case, checks


@checks("store")
async def check_store(case: Case) -> None:
    """Play the steps, one save each, and compare which events are there at the end."""
    names: dict[str, str] = {}
    async with await SqliteStore.open(":memory:", clock=lambda: NOW) as store:
        for step in json.loads(case.input):
            name, verified = _event(step)
            names[verified.event.id] = name
            await store.save([verified])
        stored = {names[event.id] for event in await store.query([Filter()])}
    assert stored == set(case.expected["stored"])


def _event(step: dict[str, Any]) -> tuple[str, Any]:
    if step["op"] == "add":
        return step["id"], make(content=step["id"])
    target = make(content=step["e"]).event.id
    author = 0 if step["same_author"] else 1
    return step["op"], make(
        author, kind=int(step["op"].removeprefix("kind")), tags=(("e", target),)
    )
