"""Counts and syncs over relays whose pages end early, come in any order, or cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nostr_client import count
from nostr_client.client import NostrClient
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.store.sqlite import SqliteStore
from tests.faults import UNREADABLE, Pages, Unreadable
from tests.faulty_relay import FaultyRelay
from tests.talking import NOTES, SIGNER, note, talking

if TYPE_CHECKING:
    from nostr_client.count.result import CountResult
    from nostr_client.sync.report import SyncReport
    from tests.faulty_relay import Behaviour

TARGET = "ab" * 32


async def counted(behaviour: Behaviour, n: int, *, times: int = 1) -> tuple[CountResult, int]:
    """A count over one relay with `n` notes, and the REQs that it was sent in all."""
    events = [note(number) for number in range(n)]
    async with (
        FaultyRelay(behaviour, events=events) as relay,
        NostrClient([relay.url]) as client,
    ):
        for _ in range(times):
            result = await client.count(count.query(NOTES))
        return result, relay.verbs()["REQ"]


async def synced(behaviour: Behaviour, n: int) -> tuple[SyncReport, int]:
    """A sync of one relay with `n` notes, and how many the store has after it."""
    events = [note(number) for number in range(n)]
    async with (
        FaultyRelay(behaviour, events=events) as relay,
        await SqliteStore.open(":memory:") as store,
        NostrClient([relay.url], store=store) as client,
    ):
        report = await client.sync(NOTES)
        return report, await store.count([NOTES])


SHAPES = {
    "an odd cap": Pages(73),
    "an odd cap, with hints": Pages(73, hints=True),
    "oldest first": Pages(100, oldest=True),
    "the oldest, newest first": Pages(100, oldest=True, turned=True),
    "in no order": Pages(100, shuffled=True),
}


@pytest.mark.parametrize("behaviour", SHAPES.values(), ids=SHAPES)
async def test_a_count_by_events_reads_such_a_relay_whole(behaviour: Behaviour) -> None:
    result, _ = await counted(behaviour, 250)
    assert result.events is not None
    assert result.events.value == 250
    assert result.events.exact


@pytest.mark.parametrize("behaviour", SHAPES.values(), ids=SHAPES)
async def test_a_sync_by_pages_reads_such_a_relay_whole(behaviour: Behaviour) -> None:
    report, stored = await synced(behaviour, 250)
    assert stored == 250
    assert report.complete


@pytest.mark.parametrize("hints", [False, True])
async def test_pages_that_end_within_a_second_lose_nothing(hints: bool) -> None:
    """Five notes a second at a cap of 73: each page cuts a second."""
    events = [
        SIGNER.sign_now(EventTemplate(kind=1, content=str(n), created_at=n // 5)).event
        for n in range(250)
    ]
    async with (
        FaultyRelay(Pages(73, hints=hints), events=events) as relay,
        await SqliteStore.open(":memory:") as store,
        NostrClient([relay.url]) as reader,
        NostrClient([relay.url], store=store) as keeper,
    ):
        result = await reader.count(count.query(NOTES))
        report = await keeper.sync(NOTES)
        stored = await store.count([NOTES])
    assert result.events is not None
    assert (result.events.value, stored) == (250, 250)
    assert result.events.exact
    assert report.complete


async def test_finish_spares_the_req_that_proves_the_end() -> None:
    plain, with_hints = [await counted(Pages(500, hints=hints), 40) for hints in (False, True)]
    assert plain[0].events is not None
    assert plain[0].events.exact
    assert (plain[1], with_hints[1]) == (4, 2)  # the last one asks for deletions


@pytest.mark.parametrize("form", UNREADABLE)
async def test_an_event_that_cannot_be_read_makes_the_count_a_lower_bound(form: str) -> None:
    """In the rounds after it too, and the relay is still listened to."""
    for hints in (False, True):
        result, _ = await counted(Unreadable(form, note(20).id, hints=hints), 40)
        (claim,) = result.relays
        assert result.events is not None
        assert (result.events.value, result.events.exact) == (39, False)
        assert result.events.lower_bound
        assert "read: 1 frame could not be read, so events may be missing" in claim.warnings
    later, _ = await counted(Unreadable(form, note(20).id), 40, times=2)
    assert later.events is not None
    assert not later.events.exact


@pytest.mark.parametrize("form", UNREADABLE)
async def test_a_sync_that_could_not_read_an_event_is_not_complete(form: str) -> None:
    report, stored = await synced(Unreadable(form, note(20).id), 40)
    assert stored == 39
    assert not report.complete
    assert "1 frame of the relay could not be read" in report.relays[0].reason


async def test_a_page_with_an_unreadable_frame_is_not_complete() -> None:
    behaviour = Unreadable("lone surrogate", note(2).id)
    async with talking(behaviour, events=[note(1), note(2)]) as (_, relay):
        page = await relay.fetch(NOTES)
    assert (len(page.events), page.malformed, page.complete) == (1, 1, False)


async def test_one_receipt_that_does_not_hold_is_zero_with_a_warning() -> None:
    tags = (("e", TARGET), ("bolt11", "x"), ("description", "{}"))
    junk = SIGNER.sign_now(EventTemplate(kind=9735, tags=tags, created_at=5)).event
    async with (
        FaultyRelay(Pages(500), events=[junk]) as relay,
        NostrClient([relay.url]) as client,
    ):
        result = await client.count(count.zaps(TARGET))
    assert result.value == 0
    assert "read: 1 invalid receipt, left out" in result.relays[0].warnings


async def test_a_second_that_the_relay_cuts_is_counted_as_at_least() -> None:
    """A hundred events of one second at a cap of 73."""
    template = EventTemplate(kind=1, created_at=7)
    dense = [
        SIGNER.sign_now(EventTemplate(kind=1, content=str(n), created_at=template.created_at)).event
        for n in range(100)
    ]
    for behaviour, expected in ((Pages(73), (73, False)), (Pages(120, hints=True), (100, True))):
        async with (
            FaultyRelay(behaviour, events=dense) as relay,
            NostrClient([relay.url]) as client,
        ):
            result = await client.count(count.query(Filter(kinds=[1])))
        assert result.events is not None
        assert (result.events.value, result.events.exact) == expected
