"""The unit of a number is that of its question, whoever answers: people or events."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client import count, hll
from nostr_client.cli.count.command import second_lines
from nostr_client.client import NostrClient
from nostr_client.codecs.filters import Filter
from nostr_client.count.merge import CountUnit, Method
from nostr_client.options import Options, Timeouts
from nostr_client.watch.points import point_of
from nostr_client.watch.repository import question_key
from tests.faults import AnswersCount, Silent
from tests.faulty_relay import Behaviour, FaultyRelay
from tests.negrelay import SpeaksNeg
from tests.worlds import NOTE, Sketches, reaction

if TYPE_CHECKING:
    from nostr_client.codecs.event import Event
    from nostr_client.count.queries import Query
    from nostr_client.count.result import CountResult

PEOPLE = count.reactions(NOTE)
EVENTS = count.query(Filter(kinds=[7], tags={"#e": [NOTE]}))
"""The same filter: how many people reacted, and how many reactions there are."""

TWICE = [reaction(i, n) for i in range(200) for n in range(2)]


async def counted(
    asked: Query,
    *behaviours: Behaviour,
    events: list[Event] = TWICE,
    seconds: float = 4.0,
    **options: Any,
) -> CountResult:
    """Every relay holds the same events."""
    relays = [FaultyRelay(one, events=events) for one in behaviours]
    async with AsyncExitStack() as stack:
        for relay in relays:
            await stack.enter_async_context(relay)
        urls = [relay.url for relay in relays]
        client = NostrClient(urls, options=Options(timeouts=Timeouts(group=seconds)))
        await stack.enter_async_context(client)
        return await client.count(asked, **options)


def answerers() -> dict[str, Behaviour]:
    """One relay of each kind; the last counts people by its registers and calls it a count."""
    people = hll.from_pubkeys([bytes.fromhex(one.pubkey) for one in TWICE], PEOPLE.offset or 0)
    estimate = {"count": round(hll.estimate(people)), "hll": hll.to_hex(people)}
    return {
        "a bare count": Behaviour(),
        "registers": Sketches(),
        "negentropy": SpeaksNeg(),
        "silence": Silent(),
        "people as a count": AnswersCount(estimate),
    }


@pytest.mark.parametrize("name", list(answerers()))
async def test_the_unit_does_not_depend_on_who_answers(name: str) -> None:
    for asked, unit in ((PEOPLE, CountUnit.AUTHORS), (EVENTS, CountUnit.EVENTS)):
        for read in (True, False):
            seconds = 0.5 if name == "silence" else 4.0
            result = await counted(asked, answerers()[name], read=read, seconds=seconds)
            assert result.unit is unit
            point = point_of(1, result)
            assert point is None or point.unit == unit


async def test_a_count_of_events_is_never_a_number_of_people() -> None:
    result = await counted(PEOPLE, Behaviour(), read=False)
    assert (result.value, result.authors) == (None, None)
    assert result.events is not None
    assert result.events.value == 400
    assert "not known" in str(result)
    assert any(line.startswith("events: 400") for line in second_lines(result))


async def test_registers_tell_people_beside_the_number_of_events() -> None:
    result = await counted(EVENTS, Sketches())
    assert (result.value, result.as_said, result.unit) == (400, True, CountUnit.EVENTS)
    assert "400 events, as the relay says" in str(result)
    assert result.relays[0].events_read == 0
    lines = second_lines(result)
    assert any(line.startswith("distinct authors, estimated from registers") for line in lines)


async def test_a_relay_that_counts_people_is_read_where_events_are_asked_for() -> None:
    result = await counted(EVENTS, answerers()["people as a count"])
    assert (result.value, result.exact) == (400, True)
    assert result.relays[0].method is Method.EVENTS
    alone = await counted(EVENTS, answerers()["people as a count"], read=False)
    assert (alone.exact, alone.lower_bound) == (False, True)
    assert any("it may count authors and not events" in text for text in alone.relays[0].warnings)


async def test_events_of_relays_with_registers_are_united() -> None:
    result = await counted(EVENTS, Sketches(), SpeaksNeg())
    assert (result.value, result.exact, result.unit) == (400, True, CountUnit.EVENTS)


def test_two_questions_that_share_claims_have_a_history_each() -> None:
    comments = count.comments(NOTE)
    by_filter = count.query(comments.filters)
    assert question_key(comments) != question_key(by_filter)


@pytest.mark.parametrize("events", [[], TWICE[:7]])
async def test_a_bare_zero_of_the_only_relay_is_read(events: list[Event]) -> None:
    """Some relays answer 0 to refuse, so that the zero alone would be "at least 0"."""
    result = await counted(EVENTS, AnswersCount({"count": 0}), events=events)
    assert (result.value, result.low, result.exact) == (len(events), len(events), True)
    unread = await counted(EVENTS, AnswersCount({"count": 0}), events=events, read=False)
    assert not unread.exact
