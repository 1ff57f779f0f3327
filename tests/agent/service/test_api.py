"""The API of a running agent: what it answers, what it refuses, and that it stays up."""

from __future__ import annotations

import asyncio
import gzip
import io
import stat
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
import pytest

from agent.api import schema
from agent.api.client import AgentClient, ApiError
from agent.api.document import document
from agent.specs import SyncSpec
from nostr_client.codecs.event import EventTemplate
from nostr_client.errors import NetworkError
from nostr_client.watch import repository
from nostr_client.watch.definition import AlertSpec, Watch
from tests.agent.service.kit import an_agent, eventually
from tests.faulty_relay import FaultyRelay
from tests.worlds import NOTE, TARGET, Sketches, follow, reaction, signer

if TYPE_CHECKING:
    from pathlib import Path

    from agent.service.run import Service

FOLLOWERS = f"""
[[watches]]
name = "followers"
query = "followers"
target = "{TARGET}"
"""


async def raw(service: Service, method: str, path: str, **how: Any) -> tuple[int, dict[str, Any]]:
    """One request by hand: status and JSON."""
    headers = {"Authorization": f"Bearer {service.token}"} | how.pop("headers", {})
    headers = {key: value for key, value in headers.items() if value is not None}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, service.api.url + path, headers=headers, **how) as response,
    ):
        return response.status, await response.json(content_type=None)


async def test_a_watch_counts_and_says_why(tmp_path: Path) -> None:
    events = [follow(i) for i in range(20)]
    async with (
        FaultyRelay(Sketches(), events=events[:15]) as one,
        FaultyRelay(events=events[5:]) as two,
        an_agent(tmp_path, [one.url, two.url], FOLLOWERS) as agent,
    ):
        watch = await agent.until(lambda w: w.answered == 2, "followers")
        assert watch.figure is not None
        assert watch.figure.low <= 20 <= (watch.figure.high or 20)
        found = await agent.client.explain("followers")
        assert {claim.method for claim in found.relays} == {"hll", "events"}
        without = await agent.client.explain("followers", excluded=two.url)
        assert [claim.excluded for claim in without.relays if claim.relay == two.url] == [True]
        assert without.figure != found.figure
        assert (await agent.client.explain("followers")).figure == found.figure
        received = len(one.received) + len(two.received)
        shared = await agent.client.overlaps("followers")
        (pair,) = shared.overlaps
        assert set(pair.relays) == {one.url, two.url}
        assert pair.low <= 0.5 <= pair.high
        assert (shared.watch, shared.uncompared, pair.exact) == ("followers", (), False)
        assert len(one.received) + len(two.received) == received  # no relay was asked
        (past,) = (await agent.client.claims("followers", one.url)).claims
        assert (past.status, past.method, past.count) == ("ok", "hll", 15)
        people = await agent.client.people("followers")
        assert (people.people, people.known) == ((), 15)
        assert people.unnamed is not None
        assert people.unnamed.low <= 5
        points = (await agent.client.history("followers")).points
        assert points[-1].value == watch.figure.value
        (relay, _) = (await agent.client.relays()).relays
        assert relay.status == "connected"
        assert (await agent.client.status()).ready


async def test_a_live_event_moves_the_number(tmp_path: Path) -> None:
    more = f'[[watches]]\nname = "likes"\nquery = "reactions"\ntarget = "{NOTE}"\n'
    async with (
        FaultyRelay(events=[reaction(1)]) as relay,
        an_agent(tmp_path, [relay.url], more) as agent,
    ):
        await agent.until(lambda w: w.figure is not None and w.figure.value == 1, "likes")
        await eventually(lambda: _listens(relay))
        template = EventTemplate(
            kind=7, content="+", tags=(("e", NOTE),), created_at=int(time.time()) + 1
        )
        event = signer(2).sign_now(template).event
        relay.events.append(event)
        for peer in relay.peers:
            for sub_id, filters in list(peer.subscriptions.items()):
                if filters[0].matches(event):
                    await peer.send_event(sub_id, event)
        await agent.until(lambda w: w.figure is not None and w.figure.value == 2, "likes")


async def _listens(relay: FaultyRelay) -> bool:
    return any(message[0] == "REQ" and "since" in message[2] for message in relay.received)


async def test_watches_are_added_changed_and_removed(tmp_path: Path) -> None:
    spec = Watch(name="mine", query="followers", target=TARGET, interval="1h")
    async with FaultyRelay(events=[follow(1)]) as relay:
        async with an_agent(tmp_path, [relay.url], FOLLOWERS) as agent:
            assert (await agent.client.add_watch(spec)).origin == "api"
            await agent.until(lambda w: w.figure is not None, "mine")
            with pytest.raises(ApiError, match="there is a watch called mine"):
                await agent.client.add_watch(spec)
            hasty = msgspec.structs.replace(spec, name="hasty", interval="1ms")
            with pytest.raises(ApiError, match="interval: is 10 seconds at least"):
                await agent.client.add_watch(hasty)
            sync = SyncSpec(name="hasty", filters=({"kinds": [1]},), interval="1ms")
            with pytest.raises(ApiError, match="interval: is 10 seconds at least"):
                await agent.client.add_sync(sync)
            changed = Watch(name="mine", query="followers", target=TARGET, interval="2h")
            assert (await agent.client.change_watch(changed.name, changed)).spec == changed
        async with an_agent(tmp_path, [relay.url], FOLLOWERS) as agent:
            found = {w.spec.name: w.origin for w in (await agent.client.watches()).watches}
            assert found == {"followers": "file", "mine": "api"}
            assert (await agent.client.watch("mine")).spec == changed
            await agent.client.remove_watch("mine")
            for call in (agent.client.watch("mine"), agent.client.remove_watch("mine")):
                with pytest.raises(ApiError) as refused:
                    await call
                assert refused.value.status == 404


async def test_a_changed_question_is_asked_at_once_in_a_history_of_its_own(tmp_path: Path) -> None:
    spec = Watch(name="mine", query="followers", target=TARGET, interval="1h")
    other = Watch(name="mine", query="reactions", target=NOTE, interval="1h")
    events = [*(follow(i) for i in range(5)), *(reaction(i) for i in range(2))]
    async with FaultyRelay(events=events) as relay, an_agent(tmp_path, [relay.url]) as agent:
        await agent.client.add_watch(spec)
        await agent.until(lambda w: w.figure is not None and w.figure.value == 5, "mine")
        await agent.client.change_watch(other.name, other)
        await agent.until(lambda w: w.figure is not None and w.figure.value == 2, "mine")
        assert {one.value for one in (await agent.client.history("mine")).points} == {2}
        await agent.client.change_watch(spec.name, spec)
        assert 5 in {one.value for one in (await agent.client.history("mine")).points}


async def test_what_stands_in_the_file_is_read_only(tmp_path: Path) -> None:
    async with an_agent(tmp_path, [], FOLLOWERS) as agent:
        spec = (await agent.client.watch("followers")).spec
        for call in (
            agent.client.remove_watch("followers"),
            agent.client.change_watch(spec.name, spec),
        ):
            with pytest.raises(ApiError) as refused:
                await call
            assert (refused.value.status, refused.value.code) == (409, "read_only")


@pytest.mark.parametrize(
    "spec",
    [
        Watch(name="a"),
        Watch(name="a", query="followers", target="npub1"),
        Watch(name="a", filters=({"kinds": "x"},)),
        Watch(name="a", filters=({},), relays=("ftp://x",)),
        Watch(name="a", filters=({},), alerts=(AlertSpec(when="soon", command=("x",)),)),
    ],
)
async def test_watches_that_mean_nothing_are_refused(tmp_path: Path, spec: Watch) -> None:
    async with an_agent(tmp_path) as agent:
        with pytest.raises(ApiError) as refused:
            await agent.client.add_watch(spec)
        assert refused.value.status == 400
        assert not (await agent.client.watches()).watches


async def test_the_api_takes_no_alert_command(tmp_path: Path) -> None:
    """The token may add watches; what this machine runs stands in the configuration file alone."""
    alerts = (AlertSpec(when=">= 0", command=("touch", str(tmp_path / "ran"))),)
    plain = Watch(name="mine", query="followers", target=TARGET)
    armed = msgspec.structs.replace(plain, alerts=alerts)
    async with an_agent(tmp_path) as agent:
        with pytest.raises(ApiError, match="configuration file alone") as refused:
            await agent.client.add_watch(armed)
        assert (refused.value.status, refused.value.code) == (403, "file_only")
        await agent.client.add_watch(plain)
        with pytest.raises(ApiError, match="configuration file alone"):
            await agent.client.change_watch(armed.name, armed)
        assert (await agent.client.watch("mine")).spec == plain


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/",
        "http://0x7f.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://192.168.0.1/",
        "http://localhost/",
        "https://metadata.google.internal/",
        "http://router/",
    ],
)
async def test_the_api_takes_no_webhook_to_this_network(tmp_path: Path, url: str) -> None:
    spec = Watch(name="m", filters=({},), alerts=(AlertSpec(when="> 1", webhook=url),))
    async with an_agent(tmp_path) as agent:
        with pytest.raises(ApiError, match="webhook") as refused:
            await agent.client.add_watch(spec)
        assert (refused.value.status, refused.value.code) == (403, "file_only")


async def test_the_api_takes_a_private_webhook_that_the_file_names(tmp_path: Path) -> None:
    alerts = (AlertSpec(when="> 1", webhook="http://127.0.0.1:8080/mine"),)
    spec = Watch(name="mine", filters=({},), alerts=alerts)
    more = FOLLOWERS + 'alerts = [{ when = "> 9", webhook = "http://127.0.0.1:8080/hook" }]\n'
    async with an_agent(tmp_path, more=more) as agent:
        assert (await agent.client.add_watch(spec)).spec.alerts[0].webhook == "127.0.0.1:8080"
        assert agent.service.agent.engine.watches["mine"].watch == spec


async def test_an_alert_command_that_an_earlier_version_stored_is_left_out(tmp_path: Path) -> None:
    hook = AlertSpec(when="> 1", webhook="https://hook.example", command=("true",))
    alerts = (AlertSpec(when=">= 0", command=("touch", str(tmp_path / "ran"))), hook)
    spec = Watch(name="mine", query="followers", target=TARGET, alerts=alerts)
    async with an_agent(tmp_path) as agent:
        database = agent.service.agent.parts.store.database
        await database.write(lambda conn: repository.put(conn, spec))
    async with an_agent(tmp_path) as agent:
        kept = agent.service.agent.engine.watches["mine"].watch.alerts
        assert kept == (msgspec.structs.replace(hook, command=()),)
        (shown,) = (await agent.client.watch("mine")).spec.alerts
        assert (shown.webhook, shown.command) == ("hook.example", ())
        assert "alert_command" in agent.log.getvalue()


async def test_a_sync_runs_now_and_shows_its_progress(tmp_path: Path) -> None:
    async with (
        FaultyRelay(events=[follow(i) for i in range(30)]) as relay,
        an_agent(tmp_path, [relay.url]) as agent,
    ):
        with pytest.raises(ApiError, match="there is no sync"):
            await agent.client.run_sync("all")
        await agent.client.add_sync(SyncSpec(name="all", filters=({"kinds": [3]},)))

        async def ended() -> bool:
            return bool((await agent.client.sync("all")).outcome)

        await eventually(ended, 30)
        found = await agent.client.sync("all")
        assert found.outcome == "complete"
        assert found.relays[0].downloaded == 30
        assert (await agent.client.store()).events == 30
        with pytest.raises(ApiError, match="does not run"):
            await agent.client.cancel_sync("all")
        await agent.client.remove_sync("all")
        assert not (await agent.client.syncs()).syncs


async def test_counters_of_any_size(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        big = 10**4000
        added = await agent.client.add("app", "app.big", str(big))
        assert added.value == "1" + "0" * 4000
        again = await agent.client.add("app", "app.n", "-2", "once")
        assert (again.value, again.duplicate) == ("-2", False)
        assert (await agent.client.add("app", "app.n", "-2", "once")).duplicate
        found = (await agent.client.counters("app", "app.*")).counters
        assert [one.subject for one in found] == ["app.big", "app.n"]
        assert (await agent.client.counters("app", limit=1)).more
        assert (await agent.client.audit("app", "app.n")).holds
        assert (await agent.client.reset("app", "app.n")).value == "0"
        assert len((await agent.client.counter_history("app", "app.n")).counters) >= 1
        assert [s.name for s in (await agent.client.streams()).streams] == ["app"]
        for call in (agent.client.counters("none"), agent.client.audit("app", "app.none")):
            with pytest.raises(ApiError) as refused:
                await call
            assert refused.value.status == 404


async def test_count_once(tmp_path: Path) -> None:
    async with FaultyRelay(events=[follow(1)]) as relay, an_agent(tmp_path) as agent:
        body = schema.CountBody(query="followers", target=TARGET, relays=(relay.url,))
        found = await agent.client.count(body)
        assert found.figure is not None
        assert found.figure.value == 1
        with pytest.raises(ApiError, match="no relay"):
            await agent.client.count(schema.CountBody(query="followers", target=TARGET))


# What it refuses.


@pytest.mark.parametrize("path", ["/v1/status", "/v1/watches", "/metrics", "/v1/events", "/nope"])
@pytest.mark.parametrize("token", [None, "Bearer wrong", "Basic eA==", "Bearer \xe9"])
async def test_without_the_token_nothing_is_told(
    tmp_path: Path, path: str, token: str | None
) -> None:
    async with an_agent(tmp_path) as agent:
        status, told = await raw(agent.service, "GET", path, headers={"Authorization": token})
        assert status == 401
        assert told["code"] in ("no_token", "wrong_token")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[", "10.0.0.1"])
async def test_a_foreign_host_is_refused_even_with_the_token(tmp_path: Path, host: str) -> None:
    async with an_agent(tmp_path) as agent:
        for path in ("/healthz", "/v1/status"):
            status, told = await raw(agent.service, "GET", path, headers={"Host": host})
            assert (status, told["code"]) == (403, "foreign_host")


async def test_pages_of_other_origins_are_refused_unless_configured(tmp_path: Path) -> None:
    page = {"Origin": "https://page.example"}
    async with an_agent(tmp_path) as agent:
        assert (await raw(agent.service, "GET", "/v1/status", headers=page))[0] == 403
        assert (await raw(agent.service, "OPTIONS", "/v1/status", headers=page))[0] == 403
    more = '[[watches]]\nname="x"\nfilters=[{}]'
    allowed = {"api": 'cors_origins = ["https://page.example"]'}
    async with an_agent(tmp_path, (), more, sections=allowed) as agent:
        assert (await raw(agent.service, "GET", "/v1/status", headers=page))[0] == 200
        assert (await raw(agent.service, "OPTIONS", "/v1/status", headers=page))[0] == 204


async def test_health_needs_no_token_and_readiness_has_reasons(tmp_path: Path) -> None:
    async with an_agent(tmp_path, ["ws://127.0.0.1:1"], FOLLOWERS) as agent:
        for path in ("/healthz", "/readyz"):
            status, _told = await raw(agent.service, "GET", path, headers={"Authorization": None})
            assert status in (200, 503)

        async def not_ready() -> bool:
            return (await agent.client.ready()).reasons == ("no relay can be reached",)

        await eventually(not_ready)


async def test_bodies_over_the_limit_are_refused(tmp_path: Path) -> None:
    async with an_agent(tmp_path, (), "") as agent:
        big = io.BytesIO(b"x" * (1024 * 1024 + 1))
        status, told = await raw(agent.service, "POST", "/v1/watches", data=big)
        assert (status, told["code"]) == (413, "too_large")

        async def dripping() -> Any:
            for _ in range(40):
                yield b"y" * 65_536

        status, told = await raw(agent.service, "POST", "/v1/watches", data=dripping())
        assert (status, told["code"]) == (413, "too_large")


async def test_packed_bodies_are_not_unpacked(tmp_path: Path) -> None:
    async with an_agent(tmp_path, (), "") as agent:
        headers = {"Content-Encoding": "gzip"}
        bomb = gzip.compress(b" " * 50_000_000)
        status, told = await raw(agent.service, "POST", "/v1/watches", data=bomb, headers=headers)
        assert (status, told["code"]) == (400, "invalid")


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/v1/nothing", None, 404),
        ("PATCH", "/v1/watches", None, 405),
        ("POST", "/healthz", None, 405),
        ("POST", "/v1/watches", b"", 400),
        ("POST", "/v1/watches", b"[" * 100_000, 400),
        ("POST", "/v1/watches", b'{"name":"a","extra":1}', 400),
        ("POST", "/v1/watches", b'{"name":"a\\n","filters":[{}]}', 400),
        ("GET", "/v1/watches/%2Fetc/history", None, 400),
        ("GET", "/v1/watches/a/history?limit=0", None, 400),
        ("GET", "/v1/watches/a/history?limit=5&limit=6", None, 400),
        ("GET", "/v1/watches/a/history?what=6", None, 400),
        ("GET", "/v1/events?last=nonsense", None, 400),
        ("GET", "/v1/streams/app/counters?pattern=.bad.", None, 400),
    ],
)
async def test_requests_that_mean_nothing_are_refused(
    tmp_path: Path, method: str, path: str, body: bytes | None, expected: int
) -> None:
    async with an_agent(tmp_path) as agent:
        status, told = await raw(agent.service, method, path, data=body)
        assert status == expected, told
        assert told["message"]


async def test_connections_over_the_limit_are_turned_away(tmp_path: Path) -> None:
    more = ""
    async with an_agent(tmp_path, (), more) as agent:
        host, port = "127.0.0.1", agent.service.api.port
        opened = []
        for _ in range(300):
            try:
                opened.append(await asyncio.open_connection(host, port))
            except OSError:
                continue
        with pytest.raises(NetworkError):
            await agent.client.status()
        for _, writer in opened:
            writer.close()

        async def answers() -> bool:
            try:
                return (await agent.client.status()).pid > 0
            except NetworkError:
                return False

        await eventually(answers)


async def test_the_token_is_for_its_owner_alone(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        path = tmp_path / "token"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text().strip() == agent.service.token


# The stream.


async def test_a_stream_is_taken_up_where_it_was_left(tmp_path: Path) -> None:
    async with FaultyRelay(events=[follow(1)]) as relay, an_agent(tmp_path, [relay.url]) as agent:
        last, message = await anext(agent.client.events())
        assert isinstance(message, schema.StateSnapshot)
        seen = int(last.partition(":")[2])
        for n in range(5):
            spec = Watch(name=f"w{n}", query="followers", target=TARGET)
            await agent.client.add_watch(spec)
        numbers: list[int] = []
        async for _, message in agent.client.events(last):
            assert isinstance(message, schema.Delta)
            numbers.append(message.n)
            if message.watch is not None and message.watch.spec.name == "w4":
                break
        assert numbers == list(range(seen + 1, seen + 1 + len(numbers)))
        for stale in ("other:3", f"{last.partition(':')[0]}:999999"):
            _, message = await anext(agent.client.events(stale))
            assert isinstance(message, schema.StateSnapshot)


async def test_a_slow_client_is_cut_with_a_reason_and_comes_back(tmp_path: Path) -> None:
    more = ""
    async with an_agent(tmp_path, (), more) as agent:
        feed = agent.service.agent.feed
        stream = feed.open(None, agent.service.backend.snapshot)
        first = await stream.next(1)
        assert first is not None
        for _ in range(1500):
            feed.publish(removed_watch="x" * 50)
        cut = await stream.next(1)
        assert cut is not None
        assert b"too slow" in cut[1]
        with pytest.raises(EOFError):
            await stream.next(1)
        assert feed.cut == 1
        again = feed.open((feed.run, feed.n - 10), agent.service.backend.snapshot)
        assert [(await again.next(1) or (0, b""))[0] for _ in range(10)] == list(
            range(feed.n - 9, feed.n + 1)
        )
        again.close()


async def test_the_end_of_the_agent_ends_its_streams(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        client = AgentClient(agent.service.api.url, agent.service.token)
        events = client.events()
        await anext(events)
        service = agent.service
    async with client:
        _, message = await anext(events)
        while not isinstance(message, schema.StreamEnd):
            _, message = await anext(events)
        assert message.reason == "the agent stops"
    assert service.agent.feed.streams == 0


async def test_where_no_agent_is_nothing_is_said_of_tls() -> None:
    async with AgentClient("http://127.0.0.1:1", "token") as client:
        for ask in (client.status, lambda: anext(client.events())):
            with pytest.raises(NetworkError, match=r"127\.0\.0\.1:1 \[") as told:
                await ask()
            assert "ssl:" not in str(told.value)


async def test_a_client_that_was_closed_asks_nothing_more(tmp_path: Path) -> None:
    """Nobody would close what it opened then."""
    async with an_agent(tmp_path) as agent:
        client = AgentClient(agent.service.api.url, agent.service.token)
        assert (await client.status()).ready
        await client.close()
        with pytest.raises(NetworkError, match="was closed"):
            await client.status()
        with pytest.raises(NetworkError, match="was closed"):
            await anext(client.events())


# The document.


def test_the_document_names_every_route_once() -> None:
    paths = document()["paths"]
    operations = [
        op["operationId"] for p in paths.values() for op in p.values() if "operationId" in op
    ]
    assert len(operations) == len(set(operations)) >= 25
    assert {"/v1/events", "/healthz", "/metrics"} <= paths.keys()
