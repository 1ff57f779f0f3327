"""Relays that name ids of no event change neither the union nor another relay's share."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.client import NostrClient
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.sync.coverage import (
    Coverage,
    CoverageCell,
    Look,
    SkipReason,
    by_ids,
    gathering,
    look,
)
from nostr_client.sync.coverage.history import run_of
from nostr_client.sync.coverage.matrix import SampleTest, covered, share
from tests.faulty_relay import FaultyRelay, Peer
from tests.negrelay import Invents, SpeaksNeg

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nostr_client.codecs.event import Event

OWN = KeySigner(bytes(31) + b"\x93")
OTHER = KeySigner(bytes(31) + b"\x94")
QUESTION = Look(author=OWN.pubkey, kinds=(1,))


def note(n: int, by: KeySigner = OWN) -> Event:
    made = EventTemplate(kind=1, content=f"{n}", created_at=1_700_000_000 + n)
    return by.sign_now(made).event


NOTES = [note(n) for n in range(100)]
FAKES = [msgspec.structs.replace(NOTES[n % 100], id=f"{n:064x}") for n in range(600)]
FOREIGN = [note(n, OTHER) for n in range(5)]


class Denies(SpeaksNeg):
    """Names ids and answers no REQ by ids."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        if "ids" in message[2]:
            await peer.send("CLOSED", message[1], "restricted: not by ids")
        else:
            await super().on_req(peer, message)


async def compared(*relays: FaultyRelay) -> Coverage:
    async with NostrClient([one.url for one in relays]) as client:
        asked = [(one.url, client.pool.relay(one.url)) for one in relays]
        return await look(QUESTION, asked, rand=random.Random(4))


def shares(found: Coverage) -> list[float | None]:
    return [share(found, one) for one in found.relays]


@pytest.mark.parametrize("made_up", [FAKES, FOREIGN], ids=["no events", "another's"])
async def test_made_up_ids_lower_no_share_and_take_no_place_of_a_repair(
    made_up: Sequence[Event],
) -> None:
    full, half = FaultyRelay(SpeaksNeg(), events=NOTES), FaultyRelay(SpeaksNeg(), events=NOTES[:50])
    liar = FaultyRelay(Invents(made_up), events=[*NOTES[:5], *FOREIGN])
    with mock.patch.object(gathering, "MOST", 60):
        async with full, half, liar, NostrClient([full.url, half.url, liar.url]) as client:
            found = await client.coverage(QUESTION)
            plan = await client.plan_repair(found)
    assert shares(found) == [1.0, 0.5, 0.05]
    assert all(found.cell(one, 1).by == "ids" for one in found.relays)
    assert [found.alone(one, 1) for one in found.relays] == [0, 0, len(made_up)]
    run = run_of(found, 0.0)
    assert (run.known, [one.unconfirmed for one in run.relays]) == (100, [0, 0, len(made_up)])
    assert {event.id for event in plan.of(liar.url)} <= {one.id for one in NOTES}
    assert len(plan.of(liar.url)) == 60
    left = [
        (full.url, SkipReason.UNSEEN, len(made_up)),
        (half.url, SkipReason.UNSEEN, len(made_up)),
    ]
    assert plan.left == tuple(sorted(left))


async def test_honest_events_that_one_relay_alone_has_count() -> None:
    full, short = FaultyRelay(SpeaksNeg(), events=NOTES), FaultyRelay(SpeaksNeg())
    async with full, short:
        found = await compared(full, short)
    assert shares(found) == [1.0, 0.0]
    assert len(found.union(1)) == 100
    sent = [len(one[2]["ids"]) for one in full.received if one[0] == "REQ" and "ids" in one[2]]
    assert sent == [30]


async def test_a_relay_without_an_answer_is_not_believed_for_what_it_alone_names() -> None:
    full, silent = FaultyRelay(SpeaksNeg(), events=NOTES[:50]), FaultyRelay(Denies(), events=NOTES)
    async with full, silent:
        found = await compared(full, silent)
    assert shares(found) == [1.0, 1.0]
    assert found.alone(silent.url, 1) == 50


async def test_what_a_refuted_relay_names_confirms_nothing() -> None:
    one, other = (FaultyRelay(Invents(FAKES[:n]), events=NOTES[:5]) for n in (600, 590))
    full = FaultyRelay(SpeaksNeg(), events=NOTES)
    async with one, other, full:
        found = await compared(one, other, full)
    assert shares(found) == [0.05, 0.05, 1.0]


@pytest.mark.parametrize("once", [False, True])
async def test_no_relay_is_compared_with_a_long_list_that_is_made_up(once: bool) -> None:
    liar = FaultyRelay(Invents(FAKES, once=once), events=NOTES[:5])
    full = FaultyRelay(SpeaksNeg(), events=NOTES)
    with mock.patch.object(by_ids, "_LONG", 50):
        async with liar, full:
            found = await compared(liar, full)
    assert found.cell(full.url, 1).held == {one.id for one in NOTES}
    assert found.cell(liar.url, 1).by == "ids"
    assert shares(found) == [0.05, 1.0]


IDS = st.frozensets(st.sampled_from([f"{n:064x}" for n in range(12)]))
ROWS = st.lists(st.tuples(IDS, st.sampled_from(["ids", "events"])), min_size=1, max_size=5)


@given(ROWS, IDS, st.data())
def test_an_id_counts_that_is_stored_came_or_has_two_names(
    rows: list[tuple[Collection[str], str]], stored: frozenset[str], data: st.DataObject
) -> None:
    cells = {
        f"r{n}": {1: CoverageCell(held=frozenset(held), whole=True, by=by)}
        for n, (held, by) in enumerate(rows)
    }
    refuted = data.draw(st.frozensets(st.sampled_from(sorted(cells))))
    believed = data.draw(st.frozensets(st.sampled_from(sorted(cells))))
    tested = SampleTest(believed=frozenset((one, 1) for one in believed), refuted=refuted)
    found = covered(OWN.pubkey, cells, (1,), local={1: stored}, tested=tested)
    named = stored.union(*(held for held, _ in rows))
    for one in named:
        holders = [name for name, row in cells.items() if one in row[1].held]
        came = any(cells[name][1].by == "events" for name in holders)
        honest = [name for name in holders if name not in refuted]
        counts = one in stored or came or len(honest) > 1 or not believed.isdisjoint(honest)
        assert (one in found.union(1)) == counts
        assert (one in found.unconfirmed[1]) != counts
