"""A store and relays that speak NIP-77: what is moved, not asked again, and reported."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from nostr_client.client import NostrClient
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.errors import InvalidFilter, InvalidInput
from nostr_client.options import Limits
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.direction import Direction
from nostr_client.sync.options import SyncOptions
from nostr_client.sync.report import SyncStatus
from tests.faults import Silent
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.negrelay import NEG_REFUSALS, FilterEvents, LateAnswers, RefusesNeg, SendsFew, SpeaksNeg
from tests.syncing import (
    CONNECTION,
    NOTES,
    QUICK,
    SIGNER,
    START,
    crowd,
    held_ids,
    ids,
    note,
    notes,
    plain,
    syncing,
)

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.keys import VerifiedEvent


def ids_asked(server: FaultyRelay) -> list[list[str]]:
    """The ids that REQs asked for; the REQs that prove a floor ask for none."""
    reqs = [message[2] for message in server.received if message[0] == "REQ"]
    return [wanted["ids"] for wanted in reqs if "ids" in wanted]


@pytest.mark.parametrize("direction", Direction)
async def test_each_direction_moves_its_side_alone(direction: Direction) -> None:
    ours, theirs = notes(range(200)), notes(range(5, 210))
    async with syncing(ours, (SpeaksNeg(), theirs)) as (client, store, (server,)):
        report = await client.sync(NOTES, direction=direction)
        assert report.complete
        assert (report.need, report.have) == (10, 5)
        assert (report.downloaded, report.uploaded) == (10 * direction.down, 5 * direction.up)
        expected_here = ids(notes(range(210))) if direction.down else ids(ours)
        expected_there = ids(notes(range(210))) if direction.up else ids(theirs)
        assert await held_ids(store) == expected_here
        assert ids(server.events) == expected_there
        await server.heard("NEG-CLOSE")


async def test_a_second_sync_moves_nothing_and_costs_one_round() -> None:
    async with syncing(notes(range(300)), (SpeaksNeg(), notes(range(20, 320)))) as (client, _, _):
        await client.sync(NOTES, direction="both")
        again = await client.sync(NOTES, direction="both")
        (one,) = again.relays
        assert (one.need, one.have, one.downloaded, one.uploaded) == (0, 0, 0, 0)
        assert (one.rounds, one.windows, one.status) == (1, 1, SyncStatus.COMPLETE)


async def test_windows_run_side_by_side_and_cover_everything() -> None:
    behaviour = SpeaksNeg()
    ours, theirs = notes(range(0, 1000, 2)), notes(range(0, 1000, 3))
    options = SyncOptions(window=50, in_flight=4)
    async with syncing(ours, (behaviour, theirs)) as (client, store, (server,)):
        report = await client.sync(NOTES, options=options, direction="both")
        assert report.complete
        assert await held_ids(store) == ids(server.events) == ids(ours) | ids(theirs)
        assert report.relays[0].windows == 10
        assert 2 <= behaviour.peak <= 4
        assert server.verbs()["NEG-OPEN"] == server.verbs()["NEG-CLOSE"] == 10


async def test_reqs_name_fifty_to_a_hundred_ids_and_never_none() -> None:
    async with syncing([], (SpeaksNeg(), notes(range(333)))) as (client, _, (server,)):
        await client.sync(NOTES, direction="both")
        asked = ids_asked(server)
        assert sum(map(len, asked)) == 333
        assert all(1 <= len(batch) <= 100 for batch in asked)


async def test_an_event_that_two_relays_have_is_downloaded_once() -> None:
    one, two = SpeaksNeg(), SpeaksNeg()
    both = notes(range(400))
    async with syncing([], (one, both), (two, both)) as (client, store, _):
        report = await client.sync(NOTES, direction="both")
        assert report.complete
        assert await held_ids(store) == ids(both)
        assert len(one.sent) + len(two.sent) == 400
        assert report.downloaded == report.need == 400
        # What one relay brought before the other was compared is not needed from that one.
        assert max(relay.need for relay in report.relays) == 400


async def test_what_one_relay_does_not_send_comes_from_the_other() -> None:
    both = notes(range(100))
    hider, honest = SpeaksNeg(hides=ids(both)), SpeaksNeg()
    async with syncing([], (hider, both), (honest, both)) as (client, store, _):
        report = await client.sync(NOTES, direction="both")
        assert report.complete
        assert await held_ids(store) == ids(both)
        assert len(honest.sent) == 100


async def test_a_relay_that_sends_few_events_for_a_req_hides_none() -> None:
    theirs = notes(range(120))
    behaviour = SendsFew(most=1_000, page=20, counts=False)
    async with syncing([], (behaviour, theirs)) as (client, store, _):
        (one,) = (await client.sync(NOTES, direction="both")).relays
        assert (one.status, one.downloaded, one.hidden) == (SyncStatus.COMPLETE, 120, 0)
        assert await held_ids(store) == ids(theirs)


async def test_events_that_do_not_hold_take_no_place_of_others() -> None:
    class Forges(SendsFew):
        """Sends few events for a REQ, some of them with the signature of another one."""

        async def on_req(self, peer: Peer, message: list[Any]) -> None:
            found = peer.relay.query([Filter.from_json(one) for one in message[2:]])
            for event in found[: self.page]:
                self.sent += [event.id] * ("ids" in message[2])
                forged = event.id in forgeries
                sig = other.sig if forged else event.sig
                await peer.send_event(message[1], msgspec.structs.replace(event, sig=sig))
            await peer.send("EOSE", message[1])

    theirs = notes(range(45))
    forgeries, other = ids(theirs[-20:]), theirs[0].event
    behaviour = Forges(most=1_000, page=20, counts=False)
    async with syncing([], (behaviour, theirs)) as (client, store, _):
        (one,) = (await client.sync(NOTES)).relays
        assert await held_ids(store) == ids(theirs) - forgeries
        assert (one.status, one.hidden) == (SyncStatus.PARTIAL, 20)
        assert "20 ids were sent, but their events do not hold" in one.reason
        assert len(behaviour.sent) == len(set(behaviour.sent))


async def test_ids_that_are_named_and_not_sent_are_named_on_every_run() -> None:
    theirs = notes(range(120))
    behaviour = SpeaksNeg(hides=ids(theirs[:30]))
    now = [float(START)]
    async with syncing([], (behaviour, theirs), now=lambda: now[0]) as (client, _, (server,)):
        (first,) = (await client.sync(NOTES)).relays
        assert (first.status, first.downloaded, first.hidden) == (SyncStatus.PARTIAL, 90, 30)
        assert "30 ids were named and not sent" in first.reason
        for dry_run in (False, True):
            server.received.clear()
            (again,) = (await client.sync(NOTES, dry_run=dry_run)).relays
            assert (again.status, again.need) == (SyncStatus.PARTIAL, 0)
            assert (again.hidden, again.skipped) == (30, 30)
            assert "30 ids were named and not sent" in again.reason
            assert ids_asked(server) == []
        now[0] += 61
        behaviour.hides.clear()
        (healed,) = (await client.sync(NOTES)).relays
        assert (healed.status, healed.downloaded, healed.hidden) == (SyncStatus.COMPLETE, 30, 0)


async def test_tries_of_a_withheld_id_double_their_wait_to_a_day() -> None:
    theirs = notes(range(9))
    behaviour = SpeaksNeg(hides=[theirs[4].event.id])
    now = [float(START)]
    async with syncing([], (behaviour, theirs), now=lambda: now[0]) as (client, _, (server,)):
        tried = []
        for minute in range(3 * 24 * 60):
            now[0] = START + 60.0 * minute
            if minute & (minute + 1) == 0 or minute % 720 == 0:
                server.received.clear()
                await client.sync(NOTES)
                tried += [minute] * bool(ids_asked(server))
        assert tried == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 3600]


async def test_what_the_store_does_not_keep_is_asked_once() -> None:
    profiles = [
        SIGNER.sign_now(EventTemplate(kind=0, content=f"{n}", created_at=START + n))
        for n in range(3)
    ]
    expired = SIGNER.sign_now(EventTemplate(kind=1, tags=(("expiration", "1"),), created_at=START))
    kept = note(1)
    deletion = SIGNER.sign_now(
        EventTemplate(kind=5, tags=(("e", kept.event.id),), created_at=START + 99)
    )
    behaviour = SpeaksNeg()
    theirs = [*profiles, expired, kept]
    async with syncing([deletion, profiles[2]], (behaviour, theirs)) as (client, store, _):
        first = await client.sync(Filter(kinds=[0, 1]), direction="down")
        assert first.complete
        assert await held_ids(store) == ids([deletion, profiles[2]])
        behaviour.sent.clear()
        again = await client.sync(Filter(kinds=[0, 1]), direction="down")
        assert (again.complete, again.need, behaviour.sent) == (True, 0, [])


REFUSALS = {
    "invalid: too long": 7 * 86_400,
    "pow: 20 bits": 7 * 86_400,
    "blocked: not that": 86_400,
    "error: no room": 60,
    "auth-required: who?": 60,
    "": 60,
}


@pytest.mark.parametrize("reason", REFUSALS)
async def test_a_refused_event_is_named_until_its_time_and_then_sent_again(reason: str) -> None:
    unwanted = ids(notes(range(0, 40, 4)))
    behaviour = SpeaksNeg(refuses=lambda event: reason if event.id in unwanted else "")
    if not reason:
        behaviour = RefusesWithoutReason(unwanted)
    now = [float(START)]
    held = notes(range(40))
    async with syncing(held, (behaviour, []), now=lambda: now[0]) as (client, _, (server,)):
        (first,) = (await client.sync(NOTES, direction="up")).relays
        assert (first.status, first.uploaded, first.refused) == (SyncStatus.PARTIAL, 30, 10)
        assert reason in first.reason
        for dry_run in (False, True):
            server.received.clear()
            (one,) = (await client.sync(NOTES, direction="up", dry_run=dry_run)).relays
            assert (one.status, one.have) == (SyncStatus.PARTIAL, 0)
            assert (one.refused, one.skipped) == (10, 10)
            assert reason in one.reason
            assert server.verbs()["EVENT"] == 0
        now[0] += REFUSALS[reason] - 2
        assert (await client.sync(NOTES, direction="up")).uploaded == 0
        unwanted.clear()
        now[0] += 4
        (last,) = (await client.sync(NOTES, direction="up")).relays
        assert (last.status, last.uploaded, last.refused) == (SyncStatus.COMPLETE, 10, 0)


class RefusesWithoutReason(SpeaksNeg):
    """Refuses some events and does not say why."""

    def __init__(self, unwanted: set[str]) -> None:
        super().__init__()
        self.unwanted = unwanted

    async def on_event(self, peer: Peer, message: list[Any]) -> None:
        if message[1]["id"] in self.unwanted:
            await peer.send("OK", message[1]["id"], False, "")
        else:
            await super().on_event(peer, message)


@pytest.mark.parametrize("reason", ["rate-limited: slow down", "restricted: members only"])
async def test_a_refusal_of_us_ends_the_uploads_and_counts_what_was_in_flight(reason: str) -> None:
    held = notes(range(150))
    last = held[60].event.id
    behaviour = SpeaksNeg(refuses=lambda event: reason if event.id == last else "")
    async with syncing(held, (behaviour, notes(range(150, 160)))) as (client, _, (server,)):
        (one,) = (await client.sync(NOTES, direction="both")).relays
        assert (one.status, one.refused, one.downloaded) == (SyncStatus.PARTIAL, 1, 10)
        assert one.uploaded == len(server.events) - 10 < 149
        assert f"uploads ended ({reason}): {149 - one.uploaded} events were not sent" in one.reason
        (again,) = (await client.sync(NOTES, direction="both")).relays
        assert again.uploaded == 149 - one.uploaded
        assert (again.status, again.refused) == (SyncStatus.PARTIAL, 1)


class BreaksAt(SpeaksNeg):
    """Breaks the connection when it is sent one event."""

    def __init__(self, id_: str) -> None:
        super().__init__()
        self.id = id_
        self.tried = 0

    async def on_event(self, peer: Peer, message: list[Any]) -> None:
        if message[1]["id"] == self.id:
            self.tried += 1
            peer.abort()
        else:
            await super().on_event(peer, message)


async def test_an_upload_that_breaks_the_connection_doubles_its_wait() -> None:
    held = notes(range(9))
    behaviour = BreaksAt(held[4].event.id)
    now = [float(START)]
    async with syncing(held, (behaviour, []), now=lambda: now[0]) as (client, _, (server,)):
        runs = []
        for minute in range(16):
            now[0] = START + 61.0 * minute
            behaviour.tried = 0
            (one,) = (await client.sync(NOTES, direction="up", options=QUICK)).relays
            runs.append(behaviour.tried)
            assert (one.status, one.refused) == (SyncStatus.PARTIAL, 1), one.reason
            assert "1 event was not answered" in one.reason
            assert one.skipped == (not behaviour.tried)
        tries = QUICK.tries
        assert runs == [tries if minute in (0, 1, 3, 7, 15) else 0 for minute in range(16)]
        assert len(server.events) == 8


async def test_what_one_key_is_refused_is_tried_again_with_another() -> None:
    class Members(SpeaksNeg):
        async def on_connect(self, peer: Peer) -> None:
            await peer.send("AUTH", "challenge")

        async def on_event(self, peer: Peer, message: list[Any]) -> None:
            if peer.authenticated is None:
                await peer.send("OK", message[1]["id"], False, "auth-required: who?")
            else:
                await super().on_event(peer, message)

    async with syncing(notes(range(40)), (Members(), [])) as (client, store, (server,)):
        (stranger,) = (await client.sync(NOTES, direction="up")).relays
        assert (stranger.status, stranger.uploaded) == (SyncStatus.PARTIAL, 0)
        assert stranger.refused == server.verbs()["EVENT"] < 40 + 20
        async with NostrClient(
            server.url, store=store, options=CONNECTION, signer=SIGNER
        ) as member:
            (one,) = (await member.sync(NOTES, direction="up")).relays
            assert (one.status, one.uploaded) == (SyncStatus.COMPLETE, 40), one.reason


async def test_a_refused_filter_says_nothing_about_other_filters_or_another_key() -> None:
    class Private(SpeaksNeg):
        async def on_neg_open(self, peer: Peer, message: list[Any]) -> None:
            if message[2].get("kinds") == [4]:
                self.opened.append(message[2])
                await self.neg_error(peer, message[1], "auth-required: direct messages")
            else:
                await super().on_neg_open(peer, message)

    behaviour = Private()
    theirs = [*notes(range(9)), note(20, kind=4)]
    async with syncing([], (behaviour, theirs)) as (client, store, (server,)):
        (private,) = (await client.sync(Filter(kinds=[4]))).relays
        assert (private.status, private.paged) == (SyncStatus.COMPLETE, 1)
        (public,) = (await client.sync(NOTES)).relays
        assert (public.status, public.paged, public.rounds) == (SyncStatus.COMPLETE, 0, 1)
        asked = len(behaviour.opened)
        assert (await client.sync(Filter(kinds=[4]))).relays[0].paged == 1
        assert len(behaviour.opened) == asked, "asked again at once"
        async with NostrClient(server.url, store=store, options=CONNECTION, signer=SIGNER) as other:
            await other.sync(Filter(kinds=[4]))
        assert len(behaviour.opened) > asked, "another key was not tried"


async def test_a_filter_that_is_invalid_is_not_asked_again_unchanged() -> None:
    behaviour = RefusesNeg([["NEG-ERR", "{id}", "FILTER_INVALID: tags"]])
    async with syncing([], (behaviour, notes(range(9)))) as (client, _, _):
        (one,) = (await client.sync(NOTES)).relays
        assert (one.status, one.paged) == (SyncStatus.COMPLETE, 1)
        await client.sync(NOTES)
        assert len(behaviour.opened) == 1
        await client.sync(Filter(kinds=[7]))
        assert len(behaviour.opened) == 2


class Capped(SpeaksNeg):
    """Answers NIP-77 from its newest events only, as khatru's event store does."""

    def __init__(self, cap: int) -> None:
        super().__init__()
        self.cap = cap

    async def neg_items(self, peer: Peer, filters: list[Filter]) -> list[Event]:
        return (await super().neg_items(peer, filters))[: self.cap]


async def test_a_capped_snapshot_is_read_to_its_end_and_never_sent_what_it_has() -> None:
    everything = notes(range(700))
    async with syncing([], (Capped(500), everything)) as (client, store, (server,)):
        (dry,) = (await client.sync(NOTES, dry_run=True)).relays
        assert (dry.status, dry.need) == (SyncStatus.PARTIAL, 500), dry.reason
        (one,) = (await client.sync(NOTES, direction="both")).relays
        assert (one.status, one.downloaded, one.need) == (SyncStatus.COMPLETE, 700, 700)
        assert "compares only the newest" in one.reason
        assert await held_ids(store) == ids(everything)
        for direction in Direction:
            (again,) = (await client.sync(NOTES, direction=direction)).relays
            assert (again.status, again.need, again.have) == (SyncStatus.COMPLETE, 0, 0)
        assert server.verbs()["EVENT"] == 0


class CappedWithoutUntil(Capped):
    """Leaves out the second of `until` as well."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        asked = message[2]
        if "until" in asked:
            asked = asked | {"until": asked["until"] - 1}
        await super().on_req(peer, [*message[:2], asked])


@pytest.mark.parametrize("behaviour", [Capped(20), CappedWithoutUntil(20)])
@pytest.mark.parametrize("direction", [Direction.DOWN, Direction.BOTH])
async def test_a_snapshot_that_was_cut_within_a_second_is_read(
    behaviour: Capped, direction: Direction
) -> None:
    second = [note(number, at=START) for number in range(5)]
    later = notes(range(1, 19))
    async with syncing([], (behaviour, [*second, *later])) as (client, store, (server,)):
        (one,) = (await client.sync(NOTES, direction=direction)).relays
        assert one.status is SyncStatus.COMPLETE
        assert "compares only the newest" in one.reason
        assert await held_ids(store) == ids([*second, *later])
        assert server.verbs()["EVENT"] == 0


async def test_ours_in_the_second_of_the_floor_are_no_sign_of_a_capped_snapshot() -> None:
    second = [note(number, at=START) for number in range(6)]
    later = notes(range(1, 30))
    async with syncing([*second, *later], (SpeaksNeg(), [*second[:3], *later])) as run:
        client, _, (server,) = run
        (one,) = (await client.sync(NOTES, direction="both")).relays
        assert (one.status, one.uploaded, one.reason) == (SyncStatus.COMPLETE, 3, "")
        assert server.verbs()["REQ"] == 2  # below the floor, and for what was accepted


class HidesAndCountsNot(SpeaksNeg):
    """Names what it does not send, and knows no COUNT."""

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("CLOSED", message[1], "unsupported: no COUNT")


async def test_a_relay_that_sends_nothing_of_what_it_named_proves_nothing() -> None:
    both = notes(range(30))
    async with syncing(both, (HidesAndCountsNot(hides=ids(both)), both)) as (client, _, (server,)):
        (dry,) = (await client.sync(NOTES, dry_run=True)).relays
        assert dry.status is SyncStatus.PARTIAL
        assert "does not send what it named" in dry.reason
        (one,) = (await client.sync(NOTES, direction="both")).relays
        assert (one.have, server.verbs()["EVENT"]) == (0, 0)
        assert "compares only the newest" not in one.reason


async def test_an_empty_first_answer_is_proven() -> None:
    async with syncing(notes(range(5)), (Capped(0), notes(range(3, 40)))) as (client, store, _):
        (one,) = (await client.sync(NOTES, direction="both")).relays
        assert (one.status, one.downloaded, one.uploaded) == (SyncStatus.COMPLETE, 35, 3)
        assert await held_ids(store) == ids(notes(range(40)))


async def test_an_honest_relay_pays_one_req_for_the_proof() -> None:
    both = notes(range(300))
    async with syncing(both, (SpeaksNeg(), both)) as (client, _, (server,)):
        report = await client.sync(NOTES)
        assert (report.complete, server.verbs()["REQ"], server.verbs()["COUNT"]) == (True, 1, 0)


async def test_versions_that_a_download_supersedes_are_not_sent() -> None:
    old, new = (
        SIGNER.sign_now(EventTemplate(kind=0, content=text, created_at=at))
        for text, at in [("old", START), ("new", START + 9)]
    )
    asked = Filter(kinds=[0])
    async with syncing([old], (SpeaksNeg(), []), (SpeaksNeg(), [new])) as (client, store, servers):
        report = await client.sync(asked, direction="both")
        assert report.complete, [one.reason for one in report.relays]
        assert await held_ids(store) == ids([new])
        assert all(server.verbs()["EVENT"] == 0 for server in servers)


@pytest.mark.parametrize(
    "reason",
    ["replaced: have newer event", "duplicate: already have a newer version of this event"],
)
async def test_a_newer_version_there_is_no_refusal(reason: str) -> None:
    behaviour = SpeaksNeg(refuses=lambda event: reason)
    async with syncing([note(1, kind=0)], (behaviour, [])) as (client, _, _):
        (one,) = (await client.sync(Filter(kinds=[0]), direction="up")).relays
        assert (one.status, one.refused, one.uploaded) == (SyncStatus.COMPLETE, 0, 0)
        assert "1 event of which it has a newer version" in one.reason


async def test_uploads_have_a_bounded_number_of_events_without_an_answer() -> None:
    unanswered: list[int] = []

    class Slow(SpeaksNeg):
        flying = 0

        async def on_event(self, peer: Peer, message: list[Any]) -> None:
            self.flying += 1
            unanswered.append(self.flying)
            await asyncio.sleep(0)
            await super().on_event(peer, message)
            self.flying -= 1

    options = SyncOptions(unanswered=20)
    slow_out = dataclasses.replace(CONNECTION, limits=Limits(messages_per_second_out=20))
    async with syncing(notes(range(300)), (Slow(), []), connection=slow_out) as (
        client,
        _,
        (server,),
    ):
        async with asyncio.timeout(10):  # the OKs pace it, not `messages_per_second_out`
            report = await client.sync(NOTES, options=options, direction="both")
        assert report.uploaded == 300
        assert len(server.events) == 300
        assert max(unanswered) <= 20


async def test_private_events_that_a_relay_has_and_does_not_list_are_sent_once_more_at_most() -> (
    None
):
    class Private(SpeaksNeg):
        async def neg_filters(self, peer: Peer, sub_id: str, wanted: Any) -> list[Filter]:
            return [NOTES]

    private = [note(n, kind=4) for n in range(9)]
    async with syncing(private, (Private(), notes(range(3)))) as (client, _, (server,)):
        asked = Filter(kinds=[1, 4])
        haves = [(await client.sync(asked, direction="both")).have for _ in range(3)]
        assert (haves[0], haves[2]) == (9, 0)
        assert server.verbs()["EVENT"] <= 18


OVERFLOWS = {
    "strfry": ("blocked: too many query results", True),
    "first text": ("RESULTS_TOO_BIG", False),
    "first text with maximum": ("RESULTS_TOO_BIG", True),
    "in prose": ("blocked: this query is too big, the maximum is {most} records", False),
}


@pytest.mark.parametrize("name", OVERFLOWS)
async def test_refused_windows_are_halved(name: str) -> None:
    overflow, fourth = OVERFLOWS[name]
    behaviour = SpeaksNeg(most=60, overflow=overflow, fourth=fourth)
    ours, theirs = notes(range(0, 600, 2)), notes(range(0, 600, 3))
    async with syncing(ours, (behaviour, theirs)) as (client, store, (server,)):
        report = await client.sync(NOTES, direction="both")
        assert report.complete, report.relays[0].reason
        assert report.relays[0].paged == 0
        assert await held_ids(store) == ids(server.events) == ids(ours) | ids(theirs)


async def test_a_relay_with_more_than_us_is_halved_by_time() -> None:
    behaviour = SpeaksNeg(most=50)
    theirs = notes(range(400))
    async with syncing([], (behaviour, theirs)) as (client, store, _):
        report = await client.sync(NOTES, direction="both")
        assert report.complete
        assert report.relays[0].paged == 0
        assert await held_ids(store) == ids(theirs)


async def test_empty_stretches_are_not_halved_to_seconds() -> None:
    theirs = notes(range(120))

    class CountsWrong(SpeaksNeg):
        async def on_neg_open(self, peer: Peer, message: list[Any]) -> None:
            if message[2].get("until", START) < START:
                self.opened.append(message[2])
                await self.neg_error(peer, message[1], "blocked: too many query results")
            else:
                await super().on_neg_open(peer, message)

    behaviour = CountsWrong(most=100)
    async with syncing([], (behaviour, theirs)) as (client, store, _):
        (one,) = (await client.sync(NOTES)).relays
        assert (one.status, one.downloaded) == (SyncStatus.COMPLETE, 120), one.reason
        assert await held_ids(store) == ids(theirs)
    empty = [wanted for wanted in behaviour.opened if wanted.get("until", START) < START]
    assert len(empty) <= len(behaviour.opened) / 2 < 25


async def test_a_second_that_is_too_full_is_split_by_kind_then_author() -> None:
    behaviour = SpeaksNeg(most=25)
    kinds = [1, 6, 7, 16]
    theirs = [note(n, at=START, kind=kinds[n % 4]) for n in range(80)]
    async with syncing(theirs[:7], (behaviour, theirs)) as (client, store, _):
        report = await client.sync(Filter(kinds=kinds, since=START, until=START), direction="both")
        assert report.complete
        assert report.relays[0].paged == 0
        assert await held_ids(store) == ids(theirs)
    sent = [wanted.get("kinds") for wanted in behaviour.opened]
    assert [7] in sent


async def test_a_second_that_nothing_splits_is_read_by_req() -> None:
    behaviour = SpeaksNeg(most=25)
    theirs = [note(n, at=START) for n in range(60)]
    async with syncing(theirs[:5], (behaviour, theirs)) as (client, store, (server,)):
        report = await client.sync(NOTES, direction="both")
        assert await held_ids(store) == ids(theirs) == ids(server.events)
        assert report.relays[0].paged >= 1
        assert report.complete


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("asked", [Filter(), Filter(kinds=[1, 7]), Filter(since=START)])
async def test_a_crowded_second_is_cut_by_the_kinds_and_authors_that_are_seen(
    asked: Filter, counts: bool
) -> None:
    everything = crowd(12, 20)
    behaviour = SendsFew(most=100, page=50, counts=counts)
    ours, theirs = everything[:300], everything[200:]
    async with syncing(ours, (behaviour, theirs)) as (client, store, (server,)):
        report = await client.sync(asked, direction="both", include_others=True)
        (one,) = report.relays
        assert await held_ids(store) == ids(server.events) == ids(everything)
        assert one.paged == 0
        assert one.status is (SyncStatus.COMPLETE if counts else SyncStatus.PARTIAL), one.reason
        assert ("kinds and authors" in one.reason) is not counts


async def test_a_crowded_second_of_one_author_and_kind_is_partial() -> None:
    everything = crowd(1, 120)
    behaviour = SendsFew(most=100, page=50, counts=True)
    async with syncing(everything[:20], (behaviour, everything)) as (client, store, _):
        (one,) = (await client.sync(Filter(), direction="both")).relays
        assert one.status is SyncStatus.PARTIAL
        assert "1 second may hold more events than the relay sends" in one.reason
        assert len(await held_ids(store)) > 100


async def test_too_old_is_capped_paged_and_partial() -> None:
    border = START + 60 * 100

    class ForgetsTheOld(SpeaksNeg):
        async def on_neg_open(self, peer: Peer, message: list[Any]) -> None:
            self.opened.append(message[2])
            if message[2].get("since", 0) < border:
                await self.neg_error(peer, message[1], "RESULTS_TOO_BIG")
                return
            await super().on_neg_open(peer, message)

    behaviour = ForgetsTheOld()
    ours, theirs = notes(range(0, 200, 2)), notes(range(0, 200, 3))
    async with syncing(ours, (behaviour, theirs)) as (client, store, (server,)):
        report = await client.sync(NOTES, options=SyncOptions(halvings=12), direction="both")
        (one,) = report.relays
        assert one.status is SyncStatus.PARTIAL
        assert "read by REQ" in one.reason
        assert await held_ids(store) == ids(server.events) == ids(ours) | ids(theirs)
        assert len(behaviour.opened) < 100


NOT_AT_ONCE = ("silence", "notice, strfry negentropy error")
"""Refusals that are none in so many words: only the clock can tell."""


@pytest.mark.parametrize("name", NEG_REFUSALS)
async def test_every_known_refusal_ends_in_pages_and_is_remembered(name: str) -> None:
    behaviour = RefusesNeg(NEG_REFUSALS[name])
    ours, theirs = notes(range(0, 60, 2)), notes(range(0, 60, 3))
    options = QUICK if name in NOT_AT_ONCE else dataclasses.replace(QUICK, answer=600)
    async with syncing(ours, (behaviour, theirs)) as (client, store, (server,)):
        async with asyncio.timeout(20):
            report = await client.sync(NOTES, options=options, direction="both")
        (one,) = report.relays
        assert one.status is SyncStatus.COMPLETE, one.reason
        assert (one.paged, one.windows) == (1, 1)
        assert "read by REQ" in one.reason
        assert await held_ids(store) == ids(server.events) == ids(ours) | ids(theirs)
        asked = len(behaviour.opened)
        assert asked <= 3
        await client.sync(NOTES, options=QUICK, direction="both")
        assert len(behaviour.opened) == asked, "asked again what it refuses"


@pytest.mark.parametrize("nips", [[1, 11], [1, 77], []])
async def test_a_silent_relay_that_claims_no_nip77_is_not_waited_for(nips: list[int]) -> None:
    behaviour = RefusesNeg([])
    async with syncing([], (behaviour, notes(range(9)))) as (client, _, (server,)):
        server.info = {"supported_nips": nips}
        (one,) = (
            await client.sync(
                NOTES, options=dataclasses.replace(QUICK, answer=0.4), direction="both"
            )
        ).relays
        assert (one.status, one.paged, len(behaviour.opened)) == (SyncStatus.COMPLETE, 1, 1)
        assert ("NIP-77 is not in its NIP-11" in one.reason) == (nips == [1, 11])


async def test_an_answer_that_comes_late_is_waited_for() -> None:
    class Slow(SpeaksNeg):
        async def on_neg_open(self, peer: Peer, message: list[Any]) -> None:
            await server.asked_for_info.wait()
            await peer.send("NOTICE", "busy today")
            await super().on_neg_open(peer, message)

    async with syncing([], (Slow(), notes(range(9)))) as (client, _, (server,)):
        server.info = {"supported_nips": [1, 77]}
        (one,) = (
            await client.sync(NOTES, options=dataclasses.replace(QUICK, answer=2), direction="both")
        ).relays
        assert (one.status, one.paged, one.downloaded) == (SyncStatus.COMPLETE, 0, 9)


async def test_a_refusal_is_forgotten_after_its_time() -> None:
    behaviour = RefusesNeg([["NEG-ERR", "{id}", "unsupported: no"]], times=1)
    now = [float(START)]
    async with syncing([], (behaviour, notes(range(9))), now=lambda: now[0]) as (client, _, _):
        assert (await client.sync(NOTES, direction="both")).relays[0].paged == 1
        now[0] += 100_000
        again = await client.sync(NOTES, direction="both")
        assert (again.complete, again.relays[0].paged, again.relays[0].rounds) == (True, 0, 1)


async def test_without_pages_and_in_a_dry_run_it_is_unsupported() -> None:
    refuses = NEG_REFUSALS["notice, strfry disabled"]
    async with syncing([], (RefusesNeg(refuses), notes(range(9)))) as (client, store, _):
        dry = await client.sync(NOTES, dry_run=True)
        assert dry.relays[0].status is SyncStatus.UNSUPPORTED
        assert "negentropy disabled" in dry.relays[0].reason
        strict = await client.sync(NOTES, options=SyncOptions(pages=False), direction="both")
        assert strict.relays[0].status is SyncStatus.UNSUPPORTED
        assert await held_ids(store) == set()


@pytest.mark.parametrize("dry", [True, False], ids=["dry_run", "ids_only"])
async def test_an_unreachable_relay_has_failed_where_nothing_is_moved(dry: bool) -> None:
    async with NostrClient(["ws://127.0.0.1:1"]) as client:
        report = await client.sync(NOTES, options=QUICK, dry_run=dry, ids_only=not dry)
    (relay,) = report.relays
    assert relay.status is SyncStatus.FAILED, relay
    assert "connect" in relay.reason


async def test_by_req_from_a_relay_that_leaves_out_until_and_knows_no_empty_filter() -> None:
    class Odd(SpeaksNeg):
        async def on_other(self, peer: Peer, message: list[Any]) -> None:
            await Behaviour.on_other(self, peer, message)

        async def on_req(self, peer: Peer, message: list[Any]) -> None:
            asked = message[2]
            if "until" in asked:
                asked["until"] -= 1
            if asked.keys() <= {"limit"}:
                await peer.send("EOSE", message[1])
            else:
                await super().on_req(peer, message)

    theirs = [note(n, at=START + n // 9) for n in range(1_200)]
    async with syncing(theirs[:3], (Odd(), theirs)) as (client, store, _):
        (one,) = (await client.sync(Filter(), direction="both")).relays
        assert (one.status, one.downloaded, one.have) == (SyncStatus.COMPLETE, 1_197, 0)
        assert await held_ids(store) == ids(theirs)


async def test_a_relay_without_nip77_is_synced_both_ways_by_req() -> None:
    class Keeps(SpeaksNeg):
        async def on_other(self, peer: Peer, message: list[Any]) -> None:
            await Behaviour.on_other(self, peer, message)

    ours, theirs = notes(range(0, 900, 2)), notes(range(0, 900, 3))
    async with syncing(ours, (Keeps(), theirs)) as (client, store, (server,)):
        report = await client.sync(NOTES, direction="both")
        assert report.complete
        assert await held_ids(store) == ids(server.events) == ids(ours) | ids(theirs)
        assert (report.need, report.have) == (len(ids(theirs) - ids(ours)), 300)


async def test_too_many_sessions_lowers_how_many_are_open() -> None:
    behaviour = SpeaksNeg(sessions=2)
    ours, theirs = notes(range(0, 600, 2)), notes(range(0, 600, 3))
    options = SyncOptions(window=20, in_flight=6)
    async with syncing(ours, (behaviour, theirs)) as (client, store, (server,)):
        report = await client.sync(NOTES, options=options, direction="both")
        assert report.complete, report.relays[0].reason
        assert report.relays[0].paged == 0
        assert await held_ids(store) == ids(server.events)
        assert behaviour.peak <= 2


async def test_a_forgotten_session_is_closed_opened_again_and_its_late_answers_ignored() -> None:
    behaviour = LateAnswers()
    ours, theirs = notes(range(0, 900, 2)), notes(range(0, 900, 3))
    async with syncing(ours, (behaviour, theirs)) as (client, store, (server,)):
        report = await client.sync(NOTES, direction="both")
        assert report.complete
        assert report.relays[0].hidden == 0
        assert await held_ids(store) == ids(server.events)
        opened = [message[1] for message in server.received if message[0] == "NEG-OPEN"]
        assert len(opened) == len(set(opened)) == 2


async def test_cancelling_sends_neg_close() -> None:
    class Slow(SpeaksNeg):
        async def answer(self, *args: Any) -> None:
            return

    async with syncing(notes(range(9)), (Slow(), [])) as (client, _, (server,)):
        task = asyncio.create_task(client.sync(NOTES, direction="both"))
        await server.heard("NEG-OPEN")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.heard("NEG-CLOSE")


async def test_a_timeout_ends_it_with_a_status() -> None:
    class Slow(SpeaksNeg):
        async def answer(self, *args: Any) -> None:
            return

    honest = (SpeaksNeg(), notes(range(50)))
    async with syncing([], honest, (Slow(), [])) as (client, _, (_, slow)):
        report = await client.sync(NOTES, timeout=1.0, direction="both")
        done, late = report.relays
        assert (done.status, done.downloaded) == (SyncStatus.COMPLETE, 50)
        assert late.status is SyncStatus.FAILED
        assert "stopped after 1 s" in late.reason
        await slow.heard("NEG-CLOSE")


async def test_dry_run_lists_what_differs_and_moves_nothing() -> None:
    async with syncing(notes(range(50)), (SpeaksNeg(), notes(range(10, 55)))) as (
        client,
        store,
        (server,),
    ):
        report = await client.sync(NOTES, dry_run=True, keep_ids=True)
        (one,) = report.relays
        assert set(one.missing_here) == ids(notes(range(50, 55)))
        assert set(one.missing_there) == ids(notes(range(10)))
        assert (report.downloaded, report.uploaded) == (0, 0)
        assert len(await held_ids(store)) == 50
        assert len(server.events) == 45


@pytest.mark.parametrize("with_store", [True, False])
async def test_ids_only_counts_distinct_events_without_a_download(with_store: bool) -> None:
    ours = notes(range(30)) if with_store else []
    one, two = notes(range(20, 100)), notes(range(60, 150))
    async with syncing(ours, (SpeaksNeg(), one), (SpeaksNeg(), two)) as (client, _, servers):
        report = await client.sync(NOTES, ids_only=True)
        assert report.events == (150 if with_store else 130)
        assert [relay.held for relay in report.relays] == [80, 90]
        assert not any(ids_asked(server) for server in servers)


async def test_a_sync_needs_a_store_and_a_filter_that_can_be_compared() -> None:
    async with syncing([], (SpeaksNeg(), [])) as (client, _, _):
        with pytest.raises(InvalidFilter):
            await client.sync(Filter(search="x"), direction="both")
        with pytest.raises(InvalidFilter):
            await client.sync([], direction="both")
        with pytest.raises(InvalidInput):
            await client.sync("0" * 64, direction="both")


def filter_event(*filters: Filter) -> VerifiedEvent:
    """An event whose content is a filter, or an array of them."""
    dicts = [one.to_dict() for one in filters]
    content = json.dumps(dicts[0] if len(dicts) == 1 else dicts)
    return SIGNER.sign_now(EventTemplate(kind=30_000, content=content, created_at=START))


TWO = (Filter(kinds=[1]), Filter(kinds=[7]))


@pytest.mark.parametrize("filters", [TWO[:1], TWO], ids=["one", "several"])
async def test_an_event_id_as_filter(filters: tuple[Filter, ...]) -> None:
    holder = filter_event(*filters)
    mine = [note(n, kind=1 + 6 * (n % 2)) for n in range(0, 90, 2)]
    theirs = [note(n, kind=1 + 6 * (n % 2)) for n in range(0, 90, 3)]
    behaviour = FilterEvents()
    async with syncing([holder, *mine], (behaviour, theirs)) as (client, store, (server,)):
        report = await client.sync(holder.event.id, direction="both")
        assert report.complete, report.relays[0].reason
        assert behaviour.opened == [holder.event.id] * 2  # not found, handed over, found
        wanted = {e.event.id for e in theirs if any(f.matches(e.event) for f in filters)}
        assert wanted <= await held_ids(store)
        assert ids(mine) & wanted | wanted <= ids(server.events)
        assert holder.event.id in ids(server.events)


@pytest.mark.parametrize("dry_run", [True, False], ids=["dry run", "down"])
async def test_a_run_that_uploads_nothing_hands_over_no_filter_event(dry_run: bool) -> None:
    holder = filter_event(*TWO)
    behaviour = FilterEvents()
    async with syncing([holder], (behaviour, notes(range(9)))) as (client, _, (server,)):
        report = await client.sync(holder.event.id, dry_run=dry_run)
        assert (report.relays[0].status, report.need) == (SyncStatus.COMPLETE, 9)
        assert holder.event.id not in ids(server.events)
        assert server.verbs()["EVENT"] == 0


async def test_a_relay_that_takes_no_event_id_gets_a_session_for_each_filter() -> None:
    holder = filter_event(*TWO)
    theirs = [note(n, kind=1 + 6 * (n % 2)) for n in range(60)]
    behaviour = SpeaksNeg()
    async with syncing([holder], (behaviour, theirs)) as (client, store, _):
        report = await client.sync(holder.event.id, options=QUICK, direction="both")
        assert report.complete, report.relays[0].reason
        assert ids(theirs) <= await held_ids(store)
        assert [one for one in behaviour.opened if not isinstance(one, str)] == [
            one.to_dict() for one in reversed(TWO)
        ]


async def test_a_filter_event_is_found_at_a_relay() -> None:
    holder = filter_event(NOTES)
    async with syncing([], (FilterEvents(), [holder, *notes(range(9))])) as (client, store, _):
        assert (await client.sync(holder.event.id, direction="both")).complete
        assert await held_ids(store) == ids(notes(range(9)))


async def test_several_filters_that_overlap_move_each_event_once() -> None:
    behaviour = SpeaksNeg()
    theirs = [note(n, tag="x" if n % 2 else "y") for n in range(100)]
    filters = [Filter(kinds=[1]), Filter(tags={"#t": ["x"]})]
    async with syncing([], (behaviour, theirs)) as (client, store, _):
        report = await client.sync(filters, direction="both")
        assert report.complete
        assert await held_ids(store) == ids(theirs)
        assert len(behaviour.sent) == 100
        assert report.need == 100


async def test_progress_is_told_until_the_end() -> None:
    told: list[tuple[int, str]] = []
    async with syncing([], (SpeaksNeg(), notes(range(99)))) as (client, _, _):
        await client.sync(
            NOTES,
            on_progress=lambda relays: told.append((relays[0].downloaded, relays[0].status)),
            direction="both",
        )
    assert told[-1] == (99, "complete")


async def test_no_relay_is_complete_before_its_sync_ends() -> None:
    told: list[str] = []
    async with syncing([], (Silent(), notes(range(9)))) as (client, _, _):
        await client.sync(
            NOTES, on_progress=lambda relays: told.append(relays[0].status), timeout=2
        )
    assert told[0] == "running"
    assert "complete" not in told


async def test_the_json_has_the_promised_keys() -> None:
    totals = ["downloaded", "uploaded", "need", "have", "bytes_sent", "bytes_received"]
    async with syncing(notes(range(9)), (SpeaksNeg(), notes(range(5, 12)))) as (client, _, _):
        told = (await client.sync(NOTES, direction="both")).to_dict()
    assert list(told) == [*totals, "relays"]
    left = ["hidden", "refused", "skipped", "held_back"]
    first = ["relay", "status", "reason", *totals, "rounds", "windows"]
    assert list(told["relays"][0]) == [*first, *left]
    assert (told["need"], told["have"]) == (3, 5)
    assert told["bytes_sent"] > 1000
    assert told["bytes_received"] > 500


async def test_the_relay_is_reached_again_after_a_broken_connection() -> None:
    class Breaks(SpeaksNeg):
        broken = 0

        async def on_neg_message(self, peer: Peer, message: list[Any]) -> None:
            if self.broken < 2:
                self.broken += 1
                peer.abort()
                return
            await super().on_neg_message(peer, message)

    ours, theirs = notes(range(0, 900, 2)), notes(range(0, 900, 3))
    async with syncing(ours, (Breaks(frame_limit=4096), theirs)) as (client, store, (server,)):
        report = await client.sync(NOTES, options=QUICK, direction="both")
        assert report.complete, report.relays[0].reason
        assert await held_ids(store) == ids(server.events) == ids(ours) | ids(theirs)


async def test_kept_fingerprints_sync_the_same_as_a_scan(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    ours, theirs = notes(range(0, 3_000, 2)), notes(range(0, 3_000, 3))
    async with await SqliteStore.open(path) as store:
        await store.save(ours)
        assert await store.fingerprints.register(NOTES)
    async with (
        FaultyRelay(SpeaksNeg(), events=plain(theirs)) as server,
        NostrClient(server.url, store=path, options=CONNECTION) as client,
    ):
        report = await client.sync(NOTES, options=SyncOptions(window=200), direction="both")
        assert report.complete
        assert (report.need, report.have, report.relays[0].windows) == (500, 1_000, 7)
        assert ids(server.events) == ids(ours) | ids(theirs)
        again = await client.sync(NOTES, options=SyncOptions(window=200), direction="both")
        assert (again.complete, again.need, again.have) == (True, 0, 0)
        assert again.relays[0].windows == again.relays[0].rounds == 10
