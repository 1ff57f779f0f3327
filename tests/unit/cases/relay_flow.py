"""relay-flow: what a client does as a conversation goes on, over sockets where there is one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from nostr_client.codecs.filters import Filter
from nostr_client.errors import ProtocolError
from nostr_client.network.paging.range_reader import Walk
from nostr_client.network.relay_state import RelayStatus
from nostr_client.protocol import Stamp, StoredFrames
from tests.faults import (
    FewSubscriptions,
    OnlyChallenges,
    SaysThenCloses,
    WantsAuth,
    WrongEvents,
)
from tests.talking import NOTES, SIGNER, Naps, note, talking
from tests.unit.cases import Case, checks


@checks("relay-flow")
async def check_a_flow(case: Case) -> None:
    shape = next((shape for shape in BY_EXPECTATION if shape in case.expected), case.id)
    await (BY_EXPECTATION.get(shape) or BY_ID[shape])(case)


async def dense_second(case: Case) -> None:
    """1,200 events share a second and a page holds 500: never a loop, never silent."""
    second = 1_700_000_000
    page = tuple(Stamp(second, f"{number:064x}") for number in range(500))
    walk = Walk([Filter()], 0, None)
    for _ in range(50):
        asked = walk.ask()
        if asked is None:
            break
        reaches = (asked.until is None or asked.until >= second) and (asked.since or 0) <= second
        walk.take([], StoredFrames(stamps=page if reaches else (), limit=asked.limit))
    else:
        raise AssertionError("the walk does not end")
    assert walk.holes == {second}
    assert not walk.complete


async def page_counts_frames(case: Case) -> None:
    bad = msgspec.structs.replace(note(11), sig="0" * 128)
    asked = Filter.from_json(case.data[0]["client"][2])
    async with talking(events=[*map(note, range(10)), bad]) as (_, relay):
        page = await relay.fetch(asked)
    assert (page.frames >= (asked.limit or 0)) is case.expected["page_full"]
    assert len(page.events) == case.expected["delivered"]


async def auth_required(case: Case) -> None:
    for first in (True, False):  # AUTH may come before or after CLOSED
        server_side = WantsAuth(first=first)
        async with talking(server_side, events=[note(1)], signer=SIGNER) as (server, relay):
            assert len((await relay.fetch(NOTES)).events) == 1
            sent = [message[0] for message in server.received if message[0] != "CLOSE"]
        assert sent == ["REQ", *["AUTH"] * case.expected["max_auth_tries"], "REQ"]
        assert sent.count("REQ") - 1 == case.expected["resend_req"]


async def auth_unasked(case: Case) -> None:
    async with talking(OnlyChallenges(), signer=SIGNER) as (server, relay):
        await relay.fetch(NOTES)
        await relay.count(NOTES)
        assert (server.verbs()["AUTH"] > 0) is case.expected["client_sends_auth"]


async def too_many_subscriptions(case: Case) -> None:
    """Finished reads give their slot back, and what was refused is sent again."""
    reason = case.data[1]["relay"][2]
    crowd = FewSubscriptions(5, reason)
    async with talking(crowd, events=[note(1)]) as (server, relay):
        pages = await asyncio.gather(*(relay.fetch(NOTES) for _ in range(101)))
        assert [len(page.events) for page in pages] == [1] * 101
        await server.heard("CLOSE", 101)
    assert crowd.peak <= 5
    assert crowd.refused > 0


async def notice_on_connect(case: Case) -> None:
    said = case.data[0]["relay"]
    expected = case.expected
    naps = Naps(14)
    async with talking(SaysThenCloses(said), sleep=naps, rand=lambda: 0.99) as (_, relay):
        pauses = await naps.taken()
        assert relay.notices == (said[1],) * min(14, relay.options.limits.notices)
    assert min(pauses) >= expected["reconnect_delay_s_at_least"]
    assert (pauses == sorted(pauses) and pauses[0] < pauses[-1]) is expected["grows"]
    assert max(pauses) <= expected["max_s"]


async def close_1001(case: Case) -> None:
    naps = Naps(3)
    async with talking(SaysThenCloses(code=1001), sleep=naps) as (server, relay):
        await naps.taken()
        assert relay.status is RelayStatus.DISCONNECTED
        assert server.connections == 3
        assert "1001" in relay.stats.last_error


async def wrong_events(case: Case) -> None:
    strangers = [note(number) for number in range(20)]
    asked = Filter.from_json(case.data[0]["client"][2])
    async with talking(WrongEvents(strangers, 1_000_000)) as (server, relay):
        page = await relay.fetch(asked, partial=True)
        await server.heard("CLOSE")
        slack = relay.options.limits.mismatch_slack
        assert isinstance(page.error, ProtocolError)
        assert page.events == ()
        assert page.mismatched == (asked.limit or 0) + slack + 1
        assert page.invalid == 0, "they were verified"
        assert relay.stats.faults == 1


Flow = Callable[[Case], Coroutine[Any, Any, None]]

BY_EXPECTATION: dict[str, Flow] = {
    "page_full": page_counts_frames,
    "resend_req": auth_required,
    "client_sends_auth": auth_unasked,
    "reconnect_delay_s_at_least": notice_on_connect,
}
BY_ID: dict[str, Flow] = {
    "paging-dense-second": dense_second,
    "flow-closed-too-many-subs": too_many_subscriptions,
    "flow-close-1001-ok": close_1001,
    "flow-relay-sends-wrong-events": wrong_events,
}
