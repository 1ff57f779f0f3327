"""Two relays without a store: both ways, by NIP-77 and by REQ, and what is told when it fails."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.client import NostrClient
from nostr_client.codecs.filters import Filter
from nostr_client.errors import InvalidInput
from nostr_client.options import Limits
from nostr_client.sync.report import SyncStatus
from tests.faults import Silent
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.negrelay import Liar, NeverConverges, RateLimits, SendsFew, SpeaksNeg
from tests.running import nostr_client
from tests.syncing import CONNECTION, NOTES, QUICK, START, crowd, ids, notes, plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nostr_client.codecs.event import Event


class OnlyReq(SpeaksNeg):
    """Keeps what it is sent, and knows no NIP-77."""

    async def on_other(self, peer: Peer, message: list[object]) -> None:
        await Behaviour.on_other(self, peer, message)


class Forgets(SpeaksNeg):
    """Forgets its sessions now and then."""

    asked = 0

    async def on_neg_message(self, peer: Peer, message: list[object]) -> None:
        self.asked += 1
        if self.asked % 3 == 1:
            self.engines.clear()
        await super().on_neg_message(peer, message)


class Breaks(Forgets):
    """Cuts the connection amid a session, twice."""

    async def on_neg_message(self, peer: Peer, message: list[object]) -> None:
        self.asked += 1
        if self.asked <= 2:
            peer.abort()
            return
        await SpeaksNeg.on_neg_message(self, peer, message)


PAIRS: dict[str, tuple[Callable[[], Behaviour], Callable[[], Behaviour]]] = {
    "both by NIP-77": (SpeaksNeg, SpeaksNeg),
    "small frames": (
        lambda: SpeaksNeg(frame_limit=4096), lambda: SpeaksNeg(frame_limit=5000)
    ),
    "the second by REQ": (SpeaksNeg, OnlyReq),
    "the first by REQ": (OnlyReq, SpeaksNeg),
    "both by REQ": (OnlyReq, OnlyReq),
    "too many at once": (lambda: SpeaksNeg(most=60), lambda: SpeaksNeg(most=90, fourth=False)),
    "forgets": (lambda: Forgets(frame_limit=4096), SpeaksNeg),
    "breaks": (SpeaksNeg, lambda: Breaks(frame_limit=4096)),
    "rate limited": (lambda: RateLimits({"NEG-OPEN"}, times=2), SpeaksNeg),
    "never converges": (NeverConverges, SpeaksNeg),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
async def test_both_relays_have_everything_after(name: str) -> None:
    first_of, second_of = PAIRS[name]
    one, two = notes(range(0, 900, 2)), notes(range(0, 900, 3))
    options = dataclasses.replace(QUICK, window=100, pause=0.01, answer=60.0, progress=60.0)
    async with (
        FaultyRelay(first_of(), events=plain(one)) as a,
        FaultyRelay(second_of(), events=plain(two)) as b,
        NostrClient(options=CONNECTION) as client,
    ):
        report = await client.mirror(NOTES, a.url, b.url, options=options, direction="both")
        assert report.complete, [relay.reason for relay in report.relays]
        assert ids(a.events) == ids(b.events) == ids(one) | ids(two)
        first, other = report.relays
        assert (first.need, first.have) == (300, 150) == (other.have, other.need)
        assert (first.downloaded, first.uploaded) == (300, 150)
        assert [bool(relay.paged) for relay in report.relays] == [
            "the first by REQ" in name or name in ("both by REQ", "never converges"),
            name in ("the second by REQ", "both by REQ"),
        ]
        again = await client.mirror(NOTES, a.url, b.url, options=options, direction="both")
        assert (again.complete, again.need, again.uploaded) == (True, 0, 0)


async def test_the_bytes_grow_with_what_differs_and_not_with_what_both_have() -> None:
    both = notes(range(3_000))
    async with (
        FaultyRelay(SpeaksNeg(), events=plain(both[:-3])) as a,
        FaultyRelay(SpeaksNeg(), events=plain(both[3:])) as b,
        NostrClient(options=CONNECTION) as client,
    ):
        dry = await client.mirror(NOTES, a.url, b.url, dry_run=True)
        assert (dry.need, dry.have) == (6, 6)
        assert dry.bytes_sent + dry.bytes_received < 3_000 * 64 / 4
        assert all(one.verbs()["REQ"] == 2 for one in (a, b)), "the oldest id, and what is below"
        assert all(one.verbs()["EVENT"] == 0 for one in (a, b))
        assert (await client.mirror(NOTES, a.url, b.url, direction="both")).uploaded == 6
        assert ids(a.events) == ids(b.events) == ids(both)


async def test_a_crowded_second_is_cut_by_the_kinds_and_authors_that_are_seen() -> None:
    everything = crowd(12, 20)
    async with (
        FaultyRelay(SpeaksNeg(), events=plain(everything[:300])) as a,
        FaultyRelay(SendsFew(most=100, page=50, counts=True), events=plain(everything[200:])) as b,
        NostrClient(options=CONNECTION) as client,
    ):
        report = await client.mirror(Filter(), a.url, b.url, direction="both", include_others=True)
        assert report.complete, [relay.reason for relay in report.relays]
        assert ids(a.events) == ids(b.events) == ids(everything)


async def test_cancelling_ends_both_sessions() -> None:
    class Stops(SpeaksNeg):
        async def on_neg_message(self, peer: Peer, message: list[object]) -> None:
            return

    one, two = notes(range(0, 900, 2)), notes(range(0, 900, 3))
    async with (
        FaultyRelay(Stops(), events=plain(one)) as a,
        FaultyRelay(Stops(), events=plain(two)) as b,
        NostrClient(options=CONNECTION) as client,
    ):
        task = asyncio.create_task(client.mirror(NOTES, a.url, b.url, direction="both"))
        await a.heard("NEG-MSG")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await a.heard("NEG-CLOSE")
        await b.heard("NEG-CLOSE")


async def test_filters_that_overlap_copy_an_event_once() -> None:
    one, two = notes(range(40)), notes(range(20, 60))
    async with (
        FaultyRelay(SpeaksNeg(), events=plain(one)) as a,
        FaultyRelay(SpeaksNeg(), events=plain(two)) as b,
        NostrClient(options=CONNECTION) as client,
    ):
        filters = [NOTES, NOTES.replace(since=START), NOTES.replace(until=START + 60 * 30)]
        report = await client.mirror(filters, a.url, b.url, direction="both")
        assert (report.complete, report.need, report.uploaded) == (True, 40, 40)
        assert ids(a.events) == ids(b.events) == ids(one) | ids(two)


async def test_a_relay_that_names_what_it_does_not_send_is_given_up() -> None:
    async with (
        FaultyRelay(Liar(3_000), events=plain(notes(range(9)))) as a,
        FaultyRelay(SpeaksNeg(), events=plain(notes(range(5, 12)))) as b,
        NostrClient(options=CONNECTION) as client,
    ):
        report = await client.mirror(NOTES, a.url, b.url, options=QUICK, direction="both")
        bad, good = report.relays
        assert (bad.status, good.status) == (SyncStatus.PARTIAL, SyncStatus.COMPLETE)
        assert "named" in bad.reason
        assert ids(a.events) == ids(notes(range(12)))


@pytest.mark.parametrize("capped", ["first", "second", "both"])
async def test_what_a_relay_does_not_compare_is_read_by_req(capped: str) -> None:
    one, two = notes(range(0, 300, 2)), notes(range(0, 300, 3))
    first = SpeaksNeg(snapshot=None if capped == "second" else 40)
    second = SpeaksNeg(snapshot=None if capped == "first" else 40)
    async with (
        FaultyRelay(first, events=plain(one)) as a,
        FaultyRelay(second, events=plain(two)) as b,
        NostrClient(options=CONNECTION) as client,
    ):
        report = await client.mirror(NOTES, a.url, b.url, direction="both")
        assert ids(a.events) == ids(b.events) == ids(one) | ids(two)
        assert report.complete, [relay.reason for relay in report.relays]
        assert [relay.need for relay in report.relays] == [100, 50]
        assert any("only the newest" in relay.reason for relay in report.relays)
        sent = (a.verbs()["EVENT"], b.verbs()["EVENT"])
        assert sent == (50, 100), "what both have is sent to nobody"


async def test_a_floor_that_cannot_be_proven_makes_a_mirror_partial() -> None:
    class SendsByIdAlone(SpeaksNeg):
        async def on_req(self, peer: Peer, message: list[Any]) -> None:
            if "ids" in message[2]:
                await super().on_req(peer, message)
            else:
                await peer.send("CLOSED", message[1], "restricted: not now")

    both = notes(range(30))
    async with (
        FaultyRelay(SendsByIdAlone(), events=plain(both)) as a,
        FaultyRelay(SpeaksNeg(), events=plain(both)) as b,
        NostrClient(options=CONNECTION) as client,
    ):
        report = await client.mirror(NOTES, a.url, b.url, options=QUICK)
    assert [relay.status for relay in report.relays] == [SyncStatus.PARTIAL, SyncStatus.COMPLETE]
    assert "not proven" in report.relays[0].reason


@pytest.mark.parametrize("kept", [True, False])
async def test_what_did_not_move_is_named_on_later_runs_and_not_tried_again(
    kept: bool, tmp_path: Path
) -> None:
    one = notes(range(40))
    withheld, refused = ids(one[3:6]), ids(one[10:14])

    def refuses(event: Event) -> str:
        return "invalid: no" if event.id in refused else ""

    async with (
        FaultyRelay(SpeaksNeg(hides=withheld), events=plain(one)) as a,
        FaultyRelay(SpeaksNeg(refuses=refuses)) as b,
    ):
        said = []
        for run in range(3):
            store = tmp_path / "s.db" if kept else None
            async with NostrClient(options=CONNECTION, store=store) as client:
                report = await client.mirror(NOTES, a.url, b.url, dry_run=run == 1)
            said.append([(r.status, r.hidden, r.refused, r.skipped) for r in report.relays])
            uploads = b.verbs()["EVENT"]
    partial = SyncStatus.PARTIAL
    assert said[0] == [(partial, 3, 0, 0), (partial, 0, 4, 0)]
    if kept:
        assert said[1] == said[2] == [(partial, 3, 0, 3), (partial, 0, 4, 4)]
        assert uploads == 37, "nothing was sent again"
    else:
        assert (said[2], uploads) == (said[0], 41)


async def test_an_event_that_breaks_the_connection_is_not_asked_for_in_every_run() -> None:
    class SendsTooMuch(SpeaksNeg):
        broken = 0

        async def on_req(self, peer: Peer, message: list[Any]) -> None:
            if one[4].event.id in message[2].get("ids", ()):
                text = json.dumps(["EVENT", message[1], {"content": "x" * 300_000}])
                self.broken += 1
                await peer.send_text(text)
            else:
                await super().on_req(peer, message)

    one = notes(range(9))
    small = dataclasses.replace(CONNECTION, limits=Limits(message_bytes_in=200_000))
    behaviour = SendsTooMuch()
    async with (
        FaultyRelay(behaviour, events=plain(one)) as a,
        FaultyRelay(SpeaksNeg(), events=plain(one[:3])) as b,
        NostrClient(options=small) as client,
    ):
        for skipped in (0, 6):
            source, _ = (await client.mirror(NOTES, a.url, b.url, options=QUICK)).relays
            assert (source.status, source.hidden) == (SyncStatus.PARTIAL, 6)
            assert (source.skipped, behaviour.broken) == (skipped, 1)
            assert "a frame of the relay ended the connection" in source.reason


async def test_events_that_were_not_asked_for_are_not_handed_over() -> None:
    class SendsOthers(SpeaksNeg):
        async def on_req(self, peer: Peer, message: list[Any]) -> None:
            if "ids" in message[2]:
                await peer.send_event(message[1], plain(crowd(1, 1))[0])
            await super().on_req(peer, message)

    async with (
        FaultyRelay(SendsOthers(), events=plain(notes(range(5)))) as a,
        FaultyRelay(SpeaksNeg()) as b,
        NostrClient(options=CONNECTION) as client,
    ):
        await client.mirror(NOTES, a.url, b.url, include_others=True)
        assert ids(b.events) == ids(notes(range(5)))


async def test_a_relay_that_cannot_be_listed_is_not_written_to() -> None:
    async with (
        FaultyRelay(SpeaksNeg(), events=plain(notes(range(9)))) as a,
        FaultyRelay(Silent()) as b,
        NostrClient(options=CONNECTION) as client,
    ):
        report = await client.mirror(NOTES, a.url, b.url, options=QUICK, direction="both")
        assert report.relays[1].status is SyncStatus.FAILED
        assert a.verbs()["EVENT"] == b.verbs()["EVENT"] == 0
        with pytest.raises(InvalidInput):
            await client.mirror(NOTES, a.url, a.url, direction="both")


async def test_the_command_copies_and_prints_one_object() -> None:
    one, two = notes(range(0, 60, 2)), notes(range(0, 60, 3))
    async with (
        FaultyRelay(SpeaksNeg(), events=plain(one)) as a,
        FaultyRelay(SpeaksNeg(), events=plain(two)) as b,
    ):
        dry = await nostr_client("mirror", a.url, b.url, "--dry-run", "--json")
        assert json.loads(dry.out)["need"] == 30
        assert ids(a.events) == ids(one)
        run = await nostr_client("mirror", a.url, b.url, "--json")
        assert ids(b.events) == ids(two), "others' events were copied and nobody said so"
        assert json.loads(run.out)["relays"][1]["held_back"] == 20
        others = ("--include-others", "--json")
        run = await nostr_client("mirror", a.url, b.url, *others)
        assert (run.code, ids(a.events)) == (0, ids(one))
        assert ids(b.events) == ids(one) | ids(two)
        run = await nostr_client("mirror", a.url, b.url, "--direction", "both", *others)
        assert run.code == 0, run.err
        told = json.loads(run.out)
        assert [relay["status"] for relay in told["relays"]] == ["complete", "complete"]
        assert ids(a.events) == ids(b.events) == ids(one) | ids(two)
