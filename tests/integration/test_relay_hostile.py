"""One relay that misbehaves, over a real socket."""

from __future__ import annotations

import msgspec
import pytest

from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.errors import (
    DeadlineExceeded,
    NetworkError,
    ProtocolError,
    RelayRefused,
    Unsupported,
)
from nostr_client.network.relay import Relay
from nostr_client.options import Limits, Options, ReconnectPolicy
from tests.faults import (
    COUNT_LIES,
    COUNT_REFUSALS,
    COUNT_UNSUPPORTED,
    HLL_LIES,
    AnswersCount,
    EarlyEose,
    Flood,
    HugeFrame,
    NoEose,
    RawBytes,
    RefusesCount,
    Silent,
    SlowLoris,
    WrongEvents,
    text_frame,
)
from tests.faulty_relay import FaultyRelay
from tests.talking import NOTES, QUICK, SIGNER, note, talking


@pytest.fixture(scope="module")
def notes() -> list[Event]:
    return [note(1000 + number) for number in range(40)]


async def test_a_page_is_closed_at_eose_and_counts_frames_of_any_quality(
    notes: list[Event],
) -> None:
    forged = msgspec.structs.replace(notes[0], id="f" * 64)
    async with talking(events=[*notes[:10], forged]) as (server, relay):
        page = await relay.fetch(NOTES.replace(limit=11))
        assert (len(page.events), page.frames, page.invalid) == (10, 11, 1)
        await server.heard("CLOSE")


@pytest.mark.parametrize("name", COUNT_REFUSALS)
async def test_every_known_refusal_of_count(name: str) -> None:
    behaviour = RefusesCount(COUNT_REFUSALS[name])
    async with talking(behaviour, options=QUICK) as (server, relay):
        if name == "notice then zero, khatru":
            answer = await relay.count(NOTES)
            assert answer.count == 0
            assert any("cannot count" in warning for warning in answer.warnings)
            return
        with pytest.raises((RelayRefused, DeadlineExceeded)) as caught:
            await relay.count(NOTES)
        assert isinstance(caught.value, DeadlineExceeded) == (name == "silence")
        assert isinstance(caught.value, Unsupported) == (name in COUNT_UNSUPPORTED)
        if name in COUNT_UNSUPPORTED:
            assert relay.capabilities.count is False
            with pytest.raises(Unsupported):
                await relay.count(NOTES)
            assert server.verbs()["COUNT"] == 1, "asked again what it does not know"


@pytest.mark.parametrize("name", COUNT_LIES)
async def test_a_count_that_is_no_number_fails_at_once(name: str) -> None:
    behaviour = AnswersCount({"count": COUNT_LIES[name]})
    async with talking(behaviour) as (_server, relay):
        with pytest.raises(ProtocolError):
            await relay.count(NOTES)


@pytest.mark.parametrize("name", HLL_LIES)
async def test_a_lying_hll_leaves_the_count(name: str) -> None:
    behaviour = AnswersCount({"count": 5, "hll": HLL_LIES[name]})
    async with talking(behaviour) as (_server, relay):
        answer = await relay.count(NOTES)
        assert answer.count == 5
        assert answer.hll is None or max(answer.hll) <= 57


async def test_silence_is_a_deadline_and_the_connection_lives_on(notes: list[Event]) -> None:
    async with talking(Silent(), options=QUICK) as (server, relay):
        with pytest.raises(DeadlineExceeded):
            await relay.count(NOTES)
        with pytest.raises(DeadlineExceeded):
            await relay.publish(SIGNER.sign_now(EventTemplate(kind=1, created_at=1)))
        with pytest.raises(DeadlineExceeded):
            await relay.fetch(NOTES)
        assert server.connections == 1


async def test_an_unreachable_relay_is_told_at_once() -> None:
    async with FaultyRelay() as server:
        url = server.url
    options = Options(reconnect=ReconnectPolicy(first=0.01, longest=0.02))
    async with Relay(url, options=options) as relay:
        with pytest.raises(NetworkError):
            await relay.count(NOTES)
        with pytest.raises(NetworkError):
            await relay.connect()
        with pytest.raises(NetworkError):
            await relay.fetch(NOTES)


async def test_missing_eose_gives_a_partial_page(notes: list[Event]) -> None:
    async with talking(NoEose(), events=notes, options=QUICK) as (server, relay):
        page = await relay.fetch(NOTES, partial=True)
        assert len(page.events) == 40
        assert not page.complete
        assert isinstance(page.error, DeadlineExceeded)
        await server.heard("CLOSE")


async def test_events_after_an_early_eose_are_late_not_lost_silently(notes: list[Event]) -> None:
    async with talking(EarlyEose(), events=notes) as (_server, relay):
        page = await relay.fetch(NOTES)
        assert page.events == ()
        await relay.count(NOTES)  # answered after the late events
        assert relay.stats.unknown == 40


async def test_wrong_events_are_not_verified_and_end_in_close(notes: list[Event]) -> None:
    behaviour = WrongEvents(notes, 1_000_000)
    async with talking(behaviour) as (_server, relay):
        stranger = Filter(
            authors=["79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"]
        )
        page = await relay.fetch(stranger.replace(limit=1), partial=True)
        assert page.events == ()
        assert isinstance(page.error, ProtocolError)
        assert page.mismatched == 102
        assert relay.stats.faults == 1


async def test_forged_events_are_counted_and_do_not_hide_the_true_one(notes: list[Event]) -> None:
    true = notes[0]
    forged = Event(true.id, true.pubkey, true.created_at + 1, 1, (), "forged", true.sig)
    async with talking(events=[]) as (server, relay), relay.subscribe(NOTES) as subscription:
        await server.heard("REQ")
        await server.broadcast(forged)
        await server.broadcast(true)
        assert (await anext(subscription)).event == true
        assert subscription.statistics().invalid == 1


JUNK = {
    "notices": '["NOTICE","x"]',
    "an object": '{"not": "an array"}',
    "nothing": "",
    "challenges": '["AUTH","c"]',
    "a number for an id": '["EOSE",404]',
    "depth": "[" * 100_000,
}


@pytest.mark.parametrize("frame", JUNK.values(), ids=JUNK)
async def test_a_flood_of_junk_is_cut_off(frame: str) -> None:
    behaviour = Flood(frame, 100_000)
    async with talking(behaviour) as (_server, relay):
        await relay.connect()
        with pytest.raises(ProtocolError):
            await relay.fetch(NOTES)
        assert relay.stats.faults == 1
        assert relay.stats.frames <= 200
        assert len(relay.notices) <= 20


@pytest.mark.parametrize("payload", [b'["NOTICE","\xc3"]', b"\xff\xfe", b"["])
async def test_bytes_that_are_no_text_end_the_connection_or_are_counted(payload: bytes) -> None:
    async with talking(RawBytes(text_frame(payload)), options=QUICK) as (_server, relay):
        with pytest.raises((ProtocolError, DeadlineExceeded)):
            await relay.fetch(NOTES)
        assert relay.stats.faults + relay.stats.rejected == 1


async def test_a_frame_beyond_the_limit_ends_the_connection() -> None:
    options = Options(limits=Limits(message_bytes_in=10_000))
    async with talking(HugeFrame(20_000), options=options) as (_server, relay):
        with pytest.raises(ProtocolError, match="10000 bytes"):
            await relay.fetch(NOTES)
        assert relay.stats.faults == 1


async def test_a_slow_loris_is_a_deadline() -> None:
    async with talking(SlowLoris(), options=QUICK) as (_server, relay):
        with pytest.raises(DeadlineExceeded):
            await relay.fetch(NOTES)


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b"[" * 10_000, b" " * 300_000], ids=len)
async def test_a_document_that_is_none_is_a_protocol_error(body: bytes) -> None:
    async with talking(info=body) as (_server, relay):
        with pytest.raises(ProtocolError):
            await relay.info()
