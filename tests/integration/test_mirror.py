"""Two relays without a store: both ways, by NIP-77 and by REQ, and what is told when it fails."""

from __future__ import annotations

import json

import pytest

from nostr_client.client import NostrClient
from nostr_client.errors import InvalidInput
from nostr_client.sync.report import SyncStatus
from tests.faults import Silent
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.negrelay import SpeaksNeg
from tests.running import nostr_client
from tests.syncing import CONNECTION, NOTES, QUICK, ids, notes, plain


class OnlyReq(SpeaksNeg):
    """Keeps what it is sent, and knows no NIP-77."""

    async def on_other(self, peer: Peer, message: list[object]) -> None:
        await Behaviour.on_other(self, peer, message)


@pytest.mark.parametrize("second", [SpeaksNeg, OnlyReq])
async def test_both_relays_have_everything_after(second: type[SpeaksNeg]) -> None:
    one, two = notes(range(0, 900, 2)), notes(range(0, 900, 3))
    async with (
        FaultyRelay(SpeaksNeg(), events=plain(one)) as a,
        FaultyRelay(second(), events=plain(two)) as b,
        NostrClient(options=CONNECTION) as client,
    ):
        report = await client.mirror(NOTES, a.url, b.url, options=QUICK)
        assert report.complete, [relay.reason for relay in report.relays]
        assert ids(a.events) == ids(b.events) == ids(one) | ids(two)
        first, other = report.relays
        assert (first.need, first.have) == (300, 150) == (other.have, other.need)
        assert (first.downloaded, first.uploaded) == (300, 150)
        again = await client.mirror(NOTES, a.url, b.url, options=QUICK)
        assert (again.complete, again.need, again.uploaded) == (True, 0, 0)


async def test_a_relay_that_cannot_be_listed_is_not_written_to() -> None:
    async with (
        FaultyRelay(SpeaksNeg(), events=plain(notes(range(9)))) as a,
        FaultyRelay(Silent()) as b,
        NostrClient(options=CONNECTION) as client,
    ):
        report = await client.mirror(NOTES, a.url, b.url, options=QUICK)
        assert report.relays[1].status is SyncStatus.FAILED
        assert a.verbs()["EVENT"] == b.verbs()["EVENT"] == 0
        with pytest.raises(InvalidInput):
            await client.mirror(NOTES, a.url, a.url)


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
        assert run.code == 0, run.err
        told = json.loads(run.out)
        assert [relay["status"] for relay in told["relays"]] == ["complete", "complete"]
        assert ids(a.events) == ids(b.events) == ids(one) | ids(two)
