"""The relay over real sockets and a real store."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from agent.relay.options import RelayAccess, RelayLimits, RelayOptions
from agent.relay.policy import all_of, everything
from agent.relay.server import RelayServer, serve
from nostr_client import hll
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.errors import InvalidInput, NetworkError
from tests.agent.relay.client import Client, connect, deaf
from tests.agent.relay.kit import NOW, auth_event, frame, key, numbered, signed

if TYPE_CHECKING:
    from agent.relay.policy import WriteContext
    from nostr_client.codecs.event import Event
    from nostr_client.store.sqlite import SqliteStore

TARGET = "ab" * 32


def http_url(server: RelayServer) -> str:
    return server.url.replace("ws", "http", 1)


async def login(client: Client, server: RelayServer, seed: int) -> None:
    """AUTH on demand: ask for something private, answer the challenge."""
    challenge = await client.ask("REQ", "private", {"kinds": [4]})
    if challenge[0] == "AUTH":
        assert (await client.receive())[0] == "CLOSED"
    event = auth_event(seed, challenge[1], server.url, int(time.time()))
    assert (await client.ask("AUTH", event))[2] is True


async def test_eose_says_whether_there_are_more(relay: RelayServer) -> None:
    """NIP-67: of one filter it is always known, of several only where none was cut."""
    events = numbered(5)
    one, other = {"kinds": [1], "limit": 4}, {"kinds": [1, 7], "limit": 5}
    asked = {
        "finish": [{"kinds": [1]}],
        "finish at exactly the limit": [{"kinds": [1], "limit": 5}],
        "finish of none": [{"kinds": [7]}],
        "finish of several": [{"kinds": [1], "limit": 6}, {"kinds": [7], "limit": 6}],
        "more": [one],
        "nothing of a limit of 0": [{"kinds": [1], "limit": 0}],
        "nothing of several": [one, other],
    }
    async with connect(relay.url) as client:
        for event in events:
            await client.publish(event)
        for expected, filters in asked.items():
            await client.send("REQ", "s", *filters)
            got = 0
            while (message := await client.receive())[0] == "EVENT":
                got += 1
            word = expected.split()[0]
            assert message == ["EOSE", "s", *([] if word == "nothing" else [[word]])], expected
            if len(filters) == 1:
                assert got <= filters[0].get("limit", 5), expected


async def test_publish_subscribe_live_and_read_back(relay: RelayServer) -> None:
    async with connect(relay.url) as alice, connect(relay.url) as bob:
        assert (await bob.ask("REQ", "live", {"kinds": [1]}))[:2] == ["EOSE", "live"]
        event = signed()
        assert await alice.publish(event) == ["OK", event.id, True, ""]
        message = await bob.receive()
        assert message[:2] == ["EVENT", "live"]
        assert message[2]["id"] == event.id
        assert (await alice.publish(event))[2:] == [True, "duplicate: already have this event"]
        assert await alice.stored({"ids": [event.id]}) == [event.id]


async def test_ephemeral_events_pass_through(relay: RelayServer) -> None:
    async with connect(relay.url) as alice, connect(relay.url) as bob:
        await bob.ask("REQ", "live", {"kinds": [20_001]})
        event = signed(kind=20_001)
        assert (await alice.publish(event))[2] is True
        assert (await bob.receive())[2]["id"] == event.id
        assert await alice.stored({"kinds": [20_001]}) == []


async def test_a_bad_signature_is_refused_and_its_neighbours_are_not(relay: RelayServer) -> None:
    good, other = numbered(2)
    async with connect(relay.url) as client:
        bad = {name: getattr(good, name) for name in good.__struct_fields__}
        bad["sig"] = other.sig
        for event in (good, bad, other):
            await client.send("EVENT", event)
        answers = [await client.receive() for _ in range(3)]
        assert [a[2] for a in answers] == [True, False, True]
        assert answers[1][3].startswith("invalid:")


async def test_order_and_limits(relay: RelayServer) -> None:
    events = [signed(content=str(i), created_at=NOW + i // 2) for i in range(10)]
    async with connect(relay.url) as client:
        for event in events:
            await client.publish(event)
        newest = sorted(events, key=lambda e: (-e.created_at, e.id))
        assert await client.stored({}) == [e.id for e in newest]
        assert await client.stored({"limit": 3}) == [e.id for e in newest[:3]]
        assert await client.stored({"limit": 0}) == []
        assert await client.stored({"kinds": []}) == []
        both = await client.stored({"limit": 2}, {"until": NOW, "limit": 1})
        assert both == [e.id for e in newest[:2]] + [newest[8].id]


async def test_a_large_answer_comes_in_parts_and_whole(
    store: SqliteStore, relay: RelayServer
) -> None:
    events = [signed(content=str(i), created_at=NOW + i // 700) for i in range(1_500)]
    private = [signed(1, 4, content=str(i), created_at=NOW) for i in range(50)]
    await store.save([VerifiedEvent(event) for event in events + private])
    newest = sorted(events, key=lambda e: (-e.created_at, e.id))
    async with connect(relay.url) as client:
        assert await client.stored({"limit": 5_000}) == [e.id for e in newest]
        assert await client.stored({"limit": 1_234}) == [e.id for e in newest[:1_234]]


async def test_count_is_a_union_without_limit(relay: RelayServer) -> None:
    async with connect(relay.url) as client:
        for event in [signed(seed, 7, [["e", TARGET]]) for seed in (1, 2, 3)]:
            await client.publish(event)
        await client.publish(signed(1, 1))
        answer = await client.ask("COUNT", "q", {"kinds": [7], "limit": 1}, {"#e": [TARGET]}, {})
        assert answer == ["COUNT", "q", {"count": 4, "approximate": False}]


async def test_registers_fall_with_deletions_and_replacements(relay: RelayServer) -> None:
    reactions = [signed(seed, 7, [["e", TARGET]]) for seed in range(1, 30)]
    offset = hll.offset({"#e": [TARGET]})
    assert offset is not None

    def registers(seeds: Any) -> str:
        return hll.to_hex(hll.from_pubkeys({key(s).pubkey for s in seeds}, offset))

    async with connect(relay.url) as client:
        for event in reactions:
            await client.publish(event)
        _, _, body = await client.ask("COUNT", "q", {"kinds": [7], "#e": [TARGET]})
        assert (body["count"], body["hll"]) == (29, registers(range(1, 30)))
        for event in reactions[:10]:
            seed = reactions.index(event) + 1
            await client.publish(signed(seed, 5, [["e", event.id]], created_at=NOW + 1))
        _, _, body = await client.ask("COUNT", "q", {"kinds": [7], "#e": [TARGET]})
        assert (body["count"], body["hll"]) == (19, registers(range(11, 30)))

        await client.publish(signed(1, 3, [["p", TARGET]]))
        await client.publish(signed(2, 3, [["p", TARGET]]))
        await client.publish(signed(1, 3, [], created_at=NOW + 1))
        _, _, body = await client.ask("COUNT", "q", {"kinds": [3], "#p": [TARGET]})
        assert (body["count"], body["hll"]) == (1, registers([2]))


@pytest.mark.parametrize("ours", ["{url}/", "wss://relay.example", "ws://relay.example:{port}/"])
async def test_a_request_to_vanish_names_the_relay_as_clients_do(
    store: SqliteStore, ours: str
) -> None:
    options = RelayOptions(access=RelayAccess(hosts=frozenset({"relay.example"})))
    async with serve(store, port=0, options=options) as server, connect(server.url) as client:
        note = signed(1)
        await client.publish(note)
        await client.publish(signed(1, 62, [["relay", "wss://other.example"]], created_at=NOW + 1))
        assert await client.stored({"kinds": [1]}) == [note.id]
        named = ours.format(url=server.url, port=server.port)
        await client.publish(signed(1, 62, [["relay", named]], created_at=NOW + 2))
        assert await client.stored({"kinds": [1]}) == []
        assert (await client.publish(note))[3].startswith("blocked:")


async def test_private_events_are_hidden_and_do_not_eat_the_limit(relay: RelayServer) -> None:
    bob = key(2).pubkey
    private = [
        signed(1, 4, [["p", bob]], content=str(i), created_at=NOW + 10 + i) for i in range(5)
    ]
    public = [signed(1, 1, [["p", bob]], content=str(i), created_at=NOW + i) for i in range(3)]
    async with connect(relay.url) as stranger, connect(relay.url) as party:
        for event in private + public:
            await stranger.publish(event)
        ids = {e.id for e in public}
        assert set(await stranger.stored({})) == ids
        assert set(await stranger.stored({"limit": 3})) == ids
        assert await stranger.stored({"ids": [private[0].id]}) == []
        for_bob = {"#p": [bob]}
        answer = await stranger.ask("COUNT", "q", for_bob)
        assert answer[2]["count"] == 3
        await login(party, relay, 2)
        assert len(await party.stored({})) == 8
        assert set(await party.stored({"kinds": [4]})) == {e.id for e in private}
        assert (await party.ask("COUNT", "q", for_bob))[2]["count"] == 8


async def test_registers_leave_private_authors_out(relay: RelayServer) -> None:
    bob = key(2).pubkey
    offset = hll.offset({"#p": [bob]})
    assert offset is not None
    async with connect(relay.url) as client:
        await client.publish(signed(1, 4, [["p", bob]]))
        await client.publish(signed(3, 1, [["p", bob]]))
        _, _, body = await client.ask("COUNT", "q", {"#p": [bob]})
        assert body["hll"] == hll.to_hex(hll.from_pubkeys([key(3).pubkey], offset))


async def test_nip11_for_any_accept_that_names_it(relay: RelayServer) -> None:
    async with aiohttp.ClientSession() as http:
        for accept in ("application/nostr+json", "text/html, Application/Nostr+JSON;q=0.9"):
            async with http.get(http_url(relay), headers={"Accept": accept}) as response:
                assert response.content_type == "application/nostr+json"
                assert response.headers["Access-Control-Allow-Origin"] == "*"
                document = await response.json(content_type=None)
                assert {1, 11, 45, 77} <= set(document["supported_nips"])
        async with http.get(http_url(relay)) as response:
            assert "Nostr" in await response.text()
        async with http.options(http_url(relay)) as response:
            assert response.status == 204


async def test_nip11_tells_what_is_off(store: SqliteStore) -> None:
    options = RelayOptions(count=False, negentropy=False, extra_info={"icon": "x"})
    async with serve(store, port=0, options=options) as server:
        document = server.document()
        assert not {45, 77} & set(document["supported_nips"])
        assert document["icon"] == "x"


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Host": "rebound.example"}]
)
async def test_web_pages_are_kept_out(relay: RelayServer, headers: dict[str, str]) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        async with connect(relay.url, headers=headers):
            pass
    assert caught.value.status == 403


async def test_the_token_is_for_writing(store: SqliteStore) -> None:
    options = RelayOptions(access=RelayAccess(token="s3cret"))
    async with serve(store, port=0, options=options) as server:
        async with connect(server.url) as client:
            assert (await client.publish(signed()))[3].startswith("restricted:")
        async with connect(f"{server.url}?token=s3cret") as client:
            assert (await client.publish(signed()))[2] is True
        async with connect(server.url, headers={"Authorization": "Bearer s3cret"}) as client:
            assert (await client.publish(signed()))[2] is True


async def test_a_policy_that_breaks_refuses_and_says_so_in_the_log(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(event: Event, context: WriteContext) -> str:
        if event.content == "bad":
            raise ZeroDivisionError("bad")
        return ""

    options = RelayOptions(write_policy=all_of(everything, broken))
    async with serve(store, port=0, options=options) as server, connect(server.url) as client:
        bad = signed(content="bad")
        answer = await client.publish(bad)
        assert answer[:3] == ["OK", bad.id, False]
        assert answer[3] == "error: the write policy broke"
        for _ in range(3):
            assert (await client.publish(bad))[2] is False
        assert server.counted["policy_errors"] == 4
        assert (await client.publish(signed()))[2] is True
    (told,) = caplog.messages
    assert told == f"the write policy raised ZeroDivisionError for event {bad.id}"


async def test_connections_of_an_address_are_limited(store: SqliteStore) -> None:
    options = RelayOptions(limits=RelayLimits(connections_per_address=1))
    async with serve(store, port=0, options=options) as server, connect(server.url) as client:
        await client.publish(signed())
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            async with connect(server.url):
                pass
        assert caught.value.status == 429


@pytest.mark.parametrize("compress", [False, True])
async def test_frames_of_every_size(store: SqliteStore, compress: bool) -> None:
    sizes = (0, 1, 60, 125, 126, 127, 65_400, 65_535, 65_536, 300_000)
    events = [signed(content="é" * (size // 2), created_at=NOW + size) for size in sizes]
    options = RelayOptions(compress=compress)
    async with (
        serve(store, port=0, options=options) as server,
        connect(server.url, compress=15 if compress else 0) as client,
    ):
        assert bool(client.ws.compress) is compress
        for event in events:
            await client.publish(event)
        assert await client.stored({}) == [event.id for event in reversed(events)]


async def test_a_message_above_the_size_ends_the_connection(store: SqliteStore) -> None:
    options = RelayOptions(limits=RelayLimits(message_bytes=1_000))
    async with serve(store, port=0, options=options) as server, connect(server.url) as client:
        await client.ws.send_str("x" * 2_000)
        assert await client.closed() == 1009


async def test_a_reader_that_is_too_slow_is_disconnected_with_a_reason(store: SqliteStore) -> None:
    limits = RelayLimits(send_bytes=200_000, send_low_bytes=10_000)
    options = RelayOptions(limits=limits)
    live = frame("REQ", "live", {"kinds": [20_001]})
    async with (
        serve(store, port=0, options=options) as server,
        deaf(server.url, live),
        connect(server.url) as fast,
    ):
        while not server.subscriptions:
            await fast.publish(signed())
        for event in numbered(200, kind=20_001, tags=[["x", "y" * 60_000]]):
            await fast.publish(event)
            if server.counted["slow_readers"]:
                break
        assert server.counted["slow_readers"] == 1
        assert (await fast.publish(signed()))[2] is True
        async with asyncio.timeout(10):
            while server.connections > 1:
                await fast.publish(signed())


async def test_leaving_answers_what_was_taken_and_says_goodbye(store: SqliteStore) -> None:
    events = numbered(50)
    async with aiohttp.ClientSession() as http:
        async with serve(store, port=0) as server:
            client = Client(await http.ws_connect(server.url))
            for event in events:
                await client.send("EVENT", event)
            assert (await client.receive())[2] is True
            reading = asyncio.create_task(client.rest())
        answers = await reading
        assert client.ws.close_code == 1001
        taken = [a[1] for a in answers if a[2]]
        assert len(await store.query([Filter(ids=taken)])) == len(taken)


async def test_where_it_may_listen(store: SqliteStore) -> None:
    with pytest.raises(InvalidInput):
        async with serve(store, host="0.0.0.0", port=0):
            pass
    async with serve(store, port=0) as server:
        with pytest.raises(NetworkError):
            async with serve(store, port=server.port):
                pass
