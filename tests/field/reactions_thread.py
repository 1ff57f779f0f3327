"""A reaction is to the last `e` that it names, where its event is read (NIP-25)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nostr_client.client import NostrClient
from nostr_client.codecs.event import parse_event
from nostr_client.count import reactions
from tests.faults import COUNT_REFUSALS, RefusesCount
from tests.faulty_relay import Behaviour, FaultyRelay
from tests.field import field_case
from tests.worlds import Sketches

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.count.result import CountResult


@field_case("reactions-thread-tags")
async def check(given: Any, tmp_path: Path) -> None:
    events = [parse_event(one) for one in given["events"]]
    last = {e.id: list(e.tag_values("e"))[-1] for e in events if e.kind == 7}
    for target in set(last.values()):
        mine = [e for e in events if last.get(e.id) == target]
        read = await counted(events, target, RefusesCount(COUNT_REFUSALS["closed, khatru"]))
        people, reacted = read.authors, read.events
        assert people is not None
        assert reacted is not None
        assert (people.value, people.exact) == (len({e.pubkey for e in mine}), True)
        assert (reacted.value, reacted.exact) == (len(mine), True)
        assert read.note is None
    for behaviour in (Behaviour(), Sketches()):  # what these say, nobody has looked at
        told = await counted(events, given["root"], behaviour, reads=False)
        assert not told.exact
        assert told.events is None or not told.events.exact
        assert told.note is not None
        assert told.note in told.merged.parts[0].reasons


async def counted(
    events: list[Any], target: str, behaviour: Behaviour, *, reads: bool = True
) -> CountResult:
    relay = FaultyRelay(behaviour, events=events)
    async with relay, NostrClient(relay.url, read=reads) as client:
        return await client.count(reactions(target))
