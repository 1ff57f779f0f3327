"""Many relays at once: a status from each, and each event verified once for all."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import msgspec
import pytest

from nostr_client.client import NostrClient
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.errors import (
    DeadlineExceeded,
    InvalidInput,
    InvalidRelayURL,
    NetworkError,
    RelayRefused,
)
from nostr_client.network.pool import PublishStatus, RelayPool
from nostr_client.network.verifier import ThreadVerifier
from nostr_client.options import Limits, Options
from tests.faults import COUNT_REFUSALS, RefusesCount, Silent, WantsAuth
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.talking import NOTES, SIGNER, note

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from typing import Any

    from nostr_client.codecs.event import Event


class RefusesEvents(Behaviour):
    """OK, false, for every event."""

    async def on_event(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("OK", message[1]["id"], False, "blocked: not here")


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as open_ones:
        yield open_ones


async def serve(
    stack: AsyncExitStack, *behaviours: Behaviour | None, events: Sequence[Event] = ()
) -> list[FaultyRelay]:
    servers = [FaultyRelay(one, events=events) for one in behaviours]
    return [await stack.enter_async_context(server) for server in servers]


async def gone(stack: AsyncExitStack) -> str:
    async with FaultyRelay() as server:
        return server.url


async def test_one_relay_for_all_spellings_of_a_url() -> None:
    async with RelayPool() as pool:
        relay = pool.relay("WSS://Relay.Example:443/")
        assert pool.relay("wss://relay.example") is relay
        assert list(pool.relays) == ["wss://relay.example"]
        with pytest.raises(InvalidRelayURL):
            pool.relay("ftp://relay.example")


async def test_a_bounded_number_of_relays() -> None:
    async with RelayPool(options=Options(limits=Limits(relays=2))) as pool:
        pool.relay("wss://a.example")
        pool.relay("wss://b.example")
        with pytest.raises(InvalidInput, match="2"):
            pool.relay("wss://c.example")
        await pool.remove("wss://b.example")
        pool.relay("wss://c.example")


async def test_count_has_a_status_from_each_and_ends_at_the_deadline(stack: AsyncExitStack) -> None:
    refusals = [
        RefusesCount(COUNT_REFUSALS[name]) for name in ("closed, restricted", "closed, khatru")
    ]
    silent, good, *refusing = await serve(stack, Silent(), None, *refusals, events=[note(1)])
    nobody = await gone(stack)
    loop = asyncio.get_running_loop()
    async with RelayPool() as pool:
        started = loop.time()
        urls = [silent.url, good.url, *(one.url for one in refusing), nobody]
        told = await pool.count(NOTES, urls, timeout=0.5)
        assert 0.4 < loop.time() - started < 3
    assert {url: answer.count for url, answer in told.answers.items()} == {good.url: 1}
    assert isinstance(told.errors[silent.url], DeadlineExceeded)
    assert isinstance(told.errors[nobody], NetworkError)
    assert all(isinstance(told.errors[one.url], RelayRefused) for one in refusing)


async def test_auth_is_signed_for_relays_that_the_user_named_alone(
    stack: AsyncExitStack,
) -> None:
    pool = await stack.enter_async_context(RelayPool(signer=SIGNER))
    stranger = pool.relay("wss://r.example/path", stranger=True)
    assert stranger.pubkey is None
    assert pool.relay("wss://R.example/path/") is stranger
    assert (stranger.pubkey, stranger.address) == (SIGNER.pubkey, "wss://r.example/path/")
    assert pool.relay("wss://r.example/path", stranger=True).pubkey == SIGNER.pubkey


async def test_auth_is_signed_for_a_program_s_own_defaults_once_the_user_names_them(
    stack: AsyncExitStack,
) -> None:
    defaults = ("wss://r.example", "wss://other.example")
    pool = await stack.enter_async_context(RelayPool(signer=SIGNER, unnamed=defaults))
    first, other = (pool.relay(url) for url in defaults)
    assert (first.pubkey, other.pubkey) == (None, None)
    pool.name(["WSS://R.example/"])
    assert (first.pubkey, other.pubkey) == (SIGNER.pubkey, None)
    assert pool.relay("wss://r.example", stranger=True).pubkey == SIGNER.pubkey
    assert pool.relay("wss://other.example", stranger=True).pubkey is None
    assert pool.relay("wss://mine.example").pubkey == SIGNER.pubkey


async def test_to_ask_a_relay_is_not_to_name_it(stack: AsyncExitStack) -> None:
    """A relay that only strangers name gets no AUTH, and stays at public addresses."""
    async with FaultyRelay() as relay:
        pool = await stack.enter_async_context(RelayPool(signer=SIGNER))
        stranger = pool.relay(relay.url, stranger=True)
        gathered = await pool.fetch(Filter(kinds=[1]), [relay.url])
        assert relay.url in gathered.errors, "a relay on this machine is not reached"
        assert (stranger.pubkey, pool.is_named(relay.url)) == (None, False)
        pool.name([relay.url])
        assert (stranger.pubkey, pool.is_named(relay.url)) == (SIGNER.pubkey, True)
        assert relay.url in (await pool.fetch(Filter(kinds=[1]), [relay.url])).answers


async def test_a_relay_is_reached_at_the_spelling_that_was_typed(stack: AsyncExitStack) -> None:
    pool = await stack.enter_async_context(RelayPool())
    pool.spell(["WS://h.example:80/Relay/", "ws://h.example/Relay"])
    relay = pool.relay("ws://h.example/Relay")
    assert (relay.url, relay.address) == ("ws://h.example/Relay", "ws://h.example/Relay/")


class NotesPaths(WantsAuth):
    """Wants AUTH, and notes the path of each handshake as it came."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: set[str] = set()

    async def on_connect(self, peer: Peer) -> None:
        self.paths.add(peer.request.raw_path)
        await super().on_connect(peer)


@pytest.mark.parametrize("typed", ["/relay/", "/a%7eb/", "/x/../y", "/r/?k=%41"])
@pytest.mark.parametrize("own", [True, False])
async def test_a_client_dials_and_signs_for_the_spelling_that_was_typed(
    stack: AsyncExitStack, typed: str, own: bool
) -> None:
    behaviour = NotesPaths()
    (server,) = await serve(stack, behaviour)
    url = f"{server.url}{typed}"
    async with NostrClient([url] if own else [], signer=SIGNER) as client:
        await client.count(NOTES, relays=None if own else [url])
    assert behaviour.paths == {typed}
    tags = [message[1]["tags"] for message in server.received if message[0] == "AUTH"]
    assert tags
    assert all(["relay", url] in one for one in tags)


class AnswersByNotice(Behaviour):
    """A NOTICE, and no OK, for every event."""

    async def on_event(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("NOTICE", "blocked: pay first")


class BreaksOk(Behaviour):
    """An OK that names the event or not, and does not say whether it was taken."""

    def __init__(self, *parts: object) -> None:
        self.parts = parts

    async def on_event(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("OK", *(message[1]["id"] if one == "id" else one for one in self.parts))


async def test_a_notice_in_the_place_of_an_ok_is_shown(stack: AsyncExitStack) -> None:
    (server,) = await serve(stack, AnswersByNotice())
    pool = await stack.enter_async_context(RelayPool())
    event = SIGNER.sign_now(EventTemplate(kind=1, created_at=1))
    result = (await pool.publish(event, [server.url], timeout=0.3))[server.url]
    assert result.status is PublishStatus.TIMEOUT
    assert "blocked: pay first" in result.message


@pytest.mark.parametrize("parts", [("id",), ("id", "yes"), (), (7, True)])
async def test_a_malformed_ok_is_the_fault_of_the_relay(
    stack: AsyncExitStack, parts: tuple[object, ...]
) -> None:
    (server,) = await serve(stack, BreaksOk(*parts))
    pool = await stack.enter_async_context(RelayPool())
    event = SIGNER.sign_now(EventTemplate(kind=1, created_at=1))
    result = (await pool.publish(event, [server.url]))[server.url]
    assert result.status is PublishStatus.INVALID
    assert "OK" in result.message


async def test_publish_has_a_status_from_each(stack: AsyncExitStack) -> None:
    silent, good, refusing = await serve(stack, Silent(), None, RefusesEvents())
    nobody = await gone(stack)
    event = SIGNER.sign_now(EventTemplate(kind=1, created_at=1))
    async with RelayPool() as pool:
        told = await pool.publish(event, [silent.url, good.url, refusing.url, nobody], timeout=0.5)
    assert {url: one.status for url, one in told.items()} == {
        silent.url: PublishStatus.TIMEOUT,
        good.url: PublishStatus.OK,
        refusing.url: PublishStatus.REFUSED,
        nobody: PublishStatus.UNREACHABLE,
    }
    assert told[refusing.url].message == "blocked: not here"


async def test_an_event_is_verified_once_for_all_relays(stack: AsyncExitStack) -> None:
    events = [note(number) for number in range(100)]
    servers = await serve(stack, None, None, None, events=events)
    verifier = ThreadVerifier()
    async with RelayPool(verifier=verifier) as pool:
        urls = [server.url for server in servers]
        first = await pool.fetch(NOTES, urls[:1])
        rest = await pool.fetch(NOTES, urls[1:])
        pages = [*first.answers.values(), *rest.answers.values()]
        assert [len(page.events) for page in pages] == [100] * 3
        assert verifier.checked == 100
        assert verifier.reused == 200
        async with pool.subscribe(NOTES, urls, live=False) as subscription:
            got = [one.event async for one in subscription]
        assert sorted(one.created_at for one in got) == list(range(100))
        assert subscription.statistics().duplicates == 200
    await verifier.close()


async def test_a_forged_copy_from_one_relay_does_not_hide_the_true_event(
    stack: AsyncExitStack,
) -> None:
    true = note(1)
    forged = msgspec.structs.replace(true, content="forged")
    liar, honest = await serve(stack, None, None)
    liar.events, honest.events = [forged], [true]
    async with RelayPool() as pool:
        async with pool.subscribe(NOTES, [liar.url, honest.url], live=False) as subscription:
            got = [one.event async for one in subscription]
        assert got == [true]
        assert subscription.sources[liar.url].invalid == 1
        assert subscription.sources[honest.url].invalid == 0


async def test_a_merged_subscription_outlives_the_relays_that_fail(stack: AsyncExitStack) -> None:
    good, other = await serve(stack, None, None, events=[note(1)])
    nobody = await gone(stack)
    async with RelayPool() as pool:
        async with pool.subscribe(NOTES, [good.url, other.url, nobody], live=False) as subscription:
            assert [one.event async for one in subscription] == [note(1)]
        assert isinstance(subscription.sources[nobody].error, NetworkError)
        again = pool.subscribe(NOTES, [nobody], live=False)
        with pytest.raises(NetworkError):
            await anext(again)


async def test_fetched_events_come_once_newest_first_with_the_relays_that_failed(
    stack: AsyncExitStack,
) -> None:
    good, other = await serve(stack, None, None, events=[note(1), note(2)])
    nobody = await gone(stack)
    async with NostrClient([good.url, other.url]) as client:
        found = await client.fetch_events(NOTES)
        assert (found.complete, dict(found.errors)) == (True, {})
        assert [one.event for one in found] == [note(2), note(1)]
        partial = await client.fetch_events(NOTES, relays=[good.url, nobody])
    assert (len(partial), partial.complete, list(partial.errors)) == (2, False, [nobody])


async def test_live_events_of_many_relays_come_once(stack: AsyncExitStack) -> None:
    servers = await serve(stack, None, None)
    async with RelayPool() as pool:
        async with pool.subscribe(NOTES, [server.url for server in servers]) as subscription:
            await subscription.stored()
            for number in range(5):
                for server in servers:
                    await server.broadcast(note(number))
            got = [(await anext(subscription)).event for _ in range(5)]
        assert got == [note(number) for number in range(5)]


async def test_closing_a_pool_leaves_no_task(stack: AsyncExitStack) -> None:
    servers = await serve(stack, None, None, Silent())
    before = asyncio.all_tasks()
    async with RelayPool() as pool:
        await pool.count(NOTES, [server.url for server in servers], timeout=0.2)
    assert {
        task for task in asyncio.all_tasks() - before if task.get_name().startswith("ws://")
    } == set()


async def test_no_relay_is_an_empty_result() -> None:
    async with RelayPool() as pool:
        told = await pool.count(NOTES, [])
        assert (dict(told.answers), dict(told.errors)) == ({}, {})


async def test_a_wrong_argument_is_an_error_of_its_own_kind(stack: AsyncExitStack) -> None:
    (server,) = await serve(stack, None)
    async with RelayPool() as pool:
        with pytest.raises(InvalidInput, match="at least one filter"):
            await pool.count([], [server.url])


async def test_a_closed_pool_makes_no_connection(stack: AsyncExitStack) -> None:
    (server,) = await serve(stack, None)
    pool, client = RelayPool(), NostrClient(server.url)
    await pool.close()
    await client.close()
    with pytest.raises(InvalidInput, match="closed"):
        await pool.count(NOTES, [server.url])
    with pytest.raises(InvalidInput, match="closed"):
        await client.count(NOTES)
    with pytest.raises(InvalidInput, match="closed"):
        client.subscribe(NOTES)
    assert server.connections == 0
