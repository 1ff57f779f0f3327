"""The agent asks each relay at its own time; what single events prove holds all the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nostr_client.codecs.event import Event, EventTemplate
from tests.agent.service.kit import an_agent
from tests.faults import COUNT_REFUSALS, RefusesCount
from tests.faulty_relay import FaultyRelay
from tests.negrelay import SpeaksNeg
from tests.worlds import START, TARGET, follow, signer

if TYPE_CHECKING:
    from pathlib import Path

    from agent.api import schema

FOLLOWERS = f"""
[[watches]]
name = "w"
query = "followers"
target = "{TARGET}"
interval = "1h"
"""
NOTES = f"""
[[watches]]
name = "w"
filters = [{json.dumps({"kinds": [1, 7]}).replace(":", " =")}]
interval = "1h"
"""


def note(i: int) -> Event:
    template = EventTemplate(kind=1, content=f"{i}", created_at=START + i)
    return signer(i % 9).sign_now(template).event


def deletion(i: int) -> Event:
    tags = (("e", note(i).id),)
    template = EventTemplate(kind=5, tags=tags, created_at=START + 1_000)
    return signer(i % 9).sign_now(template).event


def is_exact(watch: schema.WatchState) -> bool:
    return watch.figure is not None and watch.figure.exact and watch.answered == 2


async def test_who_unfollowed_comes_off_by_the_newer_list_of_another_relay(tmp_path: Path) -> None:
    refuses = RefusesCount(COUNT_REFUSALS["notice, rnostr"])
    left = signer(0).sign_now(EventTemplate(kind=3, created_at=START + 500)).event
    async with (
        FaultyRelay(refuses, events=[follow(i) for i in range(9)]) as stale,
        FaultyRelay(refuses, events=[left, *(follow(i) for i in range(1, 6))]) as fresh,
        an_agent(tmp_path, [stale.url, fresh.url], FOLLOWERS) as agent,
    ):
        watch = await agent.until(lambda one: one.answered == 2, "w")
        if not is_exact(watch):  # the relay that was asked first was asked about nobody
            await agent.client.recount("w")
            watch = await agent.until(is_exact, "w")
    assert watch.figure is not None
    assert (watch.figure.value, watch.unit) == (8, "distinct_authors")


async def test_events_are_united_by_their_ids_without_what_was_deleted(tmp_path: Path) -> None:
    async with (
        FaultyRelay(SpeaksNeg(), events=[note(i) for i in range(20)]) as one,
        FaultyRelay(SpeaksNeg(), events=[*map(note, range(5, 25)), deletion(2)]) as other,
        an_agent(tmp_path, [one.url, other.url], NOTES) as agent,
    ):
        watch = await agent.until(lambda one: one.answered == 2, "w")
        if not is_exact(watch):
            await agent.client.recount("w")
            watch = await agent.until(is_exact, "w")
    assert watch.figure is not None
    assert (watch.figure.value, watch.unit) == (24, "events")
