"""`relay check` of rust-nostr's LocalRelay: what `relays.md` says of it, and nothing else."""

from __future__ import annotations

import pytest

from nostr_client.codecs.keys import KeySigner, verify
from nostr_client.network.check import CheckOutcome, check_relay
from tests.interop.test_sync_local_relay import load
from tests.peers.servers import local_relay
from tests.right_relay import world

pytestmark = pytest.mark.interop


async def test_local_relay_is_reported_as_it_is_known() -> None:
    async with local_relay() as url:
        await load(url, [verify(one) for one in world()])
        own = KeySigner(bytes(31) + b"\x63")
        report = await check_relay(url, signer=own, write=True, wait=5.0)
    assert "first alone" in report.of("count.union").text
    assert report.of("count.limit").outcome is CheckOutcome.NOTED
    refusals = {"read.refusal", "count.zero", "neg.refusal"}
    assert {one.test for one in report.wrong} == {"count.union", *refusals}
