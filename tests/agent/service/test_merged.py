"""`/merged`: any client reads the number of a watch, and no merge takes it for a relay's own."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
import pytest

from agent.service.merged import NO_NUMBER, NOT_WATCHED, NOT_YET
from nostr_client import hll
from nostr_client.client import NostrClient
from nostr_client.codecs.nip11 import parse_relay_info
from nostr_client.count.claiming import MERGED_ELSEWHERE
from nostr_client.count.merge import ClaimStatus
from nostr_client.count.queries import followers
from nostr_client.watch import Watch
from tests.agent.relay.client import Client, connect
from tests.agent.relay.kit import auth_event, signed
from tests.agent.service.kit import Running, an_agent, eventually
from tests.faulty_relay import FaultyRelay
from tests.nats_cluster import free_ports
from tests.worlds import TARGET, Sketches, follow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from nostr_client.count.result import CountResult

ASKED = {"kinds": [3], "#p": [TARGET]}


def watch(relays: Sequence[str], *, merged: bool = True, **fields: Any) -> Watch:
    asked = {"query": "followers", "target": TARGET} if "filters" not in fields else {}
    given = {"name": "me", "live": False, "merged": merged, "relays": relays}
    return msgspec.convert(asked | given | fields, Watch)


@asynccontextmanager
async def three_relays() -> AsyncIterator[list[str]]:
    parts = (range(300), range(200, 500), range(450, 700))
    relays = [FaultyRelay(Sketches(), events=[follow(n) for n in part]) for part in parts]
    async with relays[0], relays[1], relays[2]:
        yield [relay.url for relay in relays]


async def counted(agent: Running, watched: Watch) -> Any:
    """The state of a new watch once all its relays were asked."""
    await agent.client.add_watch(watched)
    total = len(watched.relays)
    return await agent.until(
        lambda one: one.updated_at is not None and one.answered == total, watched.name
    )


def merged_url(agent: Running) -> str:
    return f"{agent.service.backend.relay_url}/merged"


async def count(client: Client, asked: Any) -> Any:
    return await client.ask("COUNT", "c", asked)


async def test_a_client_reads_the_merged_number_and_its_registers(tmp_path: Path) -> None:
    async with three_relays() as urls, an_agent(tmp_path) as agent:
        state = await counted(agent, watch(urls))
        async with connect(merged_url(agent)) as client:
            label, query_id, body = await count(client, ASKED | {"limit": 1})
        registers = bytes.fromhex(body.pop("hll"))
    assert (label, query_id) == ("COUNT", "c")
    assert body == {
        "count": state.figure.value,
        "approximate": not state.figure.exact,
        "merged": True,
        **({"limited": True} if state.figure.lower_bound else {}),
    }
    everyone = [bytes.fromhex(follow(n).pubkey) for n in range(700)]
    offset = hll.offset(ASKED)
    assert offset is not None
    assert registers == hll.from_pubkeys(everyone, offset)


async def test_a_restarted_agent_answers_from_the_stored_claims(tmp_path: Path) -> None:
    async with three_relays() as urls:
        async with an_agent(tmp_path) as agent:
            state = await counted(agent, watch(urls, interval="1d"))
        async with an_agent(tmp_path) as agent, connect(merged_url(agent)) as client:
            _, _, body = await count(client, ASKED)
    assert (body["count"], body["merged"]) == (state.figure.value, True)


async def test_what_no_watch_gives_is_refused_and_never_the_stores_number(tmp_path: Path) -> None:
    async with three_relays() as urls, an_agent(tmp_path) as agent:
        await counted(agent, watch(urls))
        await counted(agent, watch(urls, name="mine", merged=False, filters=[{"kinds": [7]}]))
        async with connect(agent.service.backend.relay_url) as plain:
            assert (await plain.publish(signed(kind=7)))[2] is True
            assert await count(plain, {"kinds": [7]}) == [
                "COUNT", "c", {"count": 1, "approximate": False},
            ]  # fmt: skip
        async with connect(merged_url(agent)) as client:
            for other in ({"kinds": [7]}, ASKED | {"since": 1}, {"kinds": [3], "#p": ["00" * 32]}):
                assert await count(client, other) == ["CLOSED", "c", NOT_WATCHED]
            assert (await count(client, {"kinds": [4]}))[2].startswith("restricted: ")
            assert await count(client, {"kinds": []}) == ["CLOSED", "c", NOT_WATCHED]
            assert (await client.ask("REQ", "r", ASKED))[2].startswith("unsupported: ")
            assert (await client.publish(signed(kind=1)))[2] is False
            assert (await client.ask("AUTH", auth_event()))[2] is False
            refused = await client.ask("NEG-OPEN", "n", ASKED, "61")
            assert refused[:2] == ["NEG-ERR", "n"]


async def test_no_number_yet_is_no_zero(tmp_path: Path) -> None:
    """While a relay was not asked, and where none gave a number."""
    dead = f"ws://127.0.0.1:{free_ports(1)[0]}"
    async with an_agent(tmp_path) as agent:
        await agent.client.add_watch(watch([dead]))
        async with connect(merged_url(agent)) as client:

            async def refused() -> bool:
                label, _, why = await count(client, ASKED)
                assert label == "CLOSED"
                assert why in (NOT_YET, NO_NUMBER)
                return bool(why == NO_NUMBER)

            await eventually(refused)


async def test_the_path_is_there_only_while_a_watch_says_so(tmp_path: Path) -> None:
    async with three_relays() as urls, an_agent(tmp_path) as agent, aiohttp.ClientSession() as http:
        url = merged_url(agent).replace("ws://", "http://")
        accept = {"Accept": "application/nostr+json"}

        async def status() -> int:
            async with http.get(url, headers=accept) as answer:
                return answer.status

        assert await status() == 404
        await counted(agent, watch(urls, merged=False))
        assert await status() == 404
        await agent.client.change_watch("me", watch(urls))
        async with http.get(url, headers=accept) as answer:
            info = parse_relay_info(await answer.read())
        async with http.get(url.removesuffix("/merged"), headers=accept) as answer:
            own = parse_relay_info(await answer.read())
        assert (info.merged, own.merged) == (True, False)
        assert info.supported_nips == (1, 11, 45)
        await agent.client.change_watch("me", watch(urls, merged=False))
        assert await status() == 404


async def test_a_foreign_page_reads_no_merged_number(tmp_path: Path) -> None:
    async with three_relays() as urls, an_agent(tmp_path) as agent:
        await counted(agent, watch(urls))
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            async with connect(merged_url(agent), headers={"Origin": "https://evil.example"}):
                pass


class Launders(Sketches):
    """A relay that hands out a number made from other relays' answers, as `/merged` does."""

    def __init__(self) -> None:
        super().__init__(count=5000, merged=True)


async def test_a_merge_over_relays_never_counts_a_merged_answer(tmp_path: Path) -> None:
    """One liar among three: counted again through `/merged`, it would be two relays' word."""
    liar = FaultyRelay(Sketches(), events=[follow(n) for n in range(1000, 1900)])
    async with three_relays() as honest, liar, an_agent(tmp_path) as agent:
        urls = [*honest, liar.url]
        await counted(agent, watch(urls))
        async with NostrClient(timeout=10) as client:
            plain = await client.count(followers(TARGET), relays=urls)
            with_merged = await client.count(followers(TARGET), relays=[*urls, merged_url(agent)])
    _same(plain, with_merged)


async def test_nor_the_events_of_a_relay_that_says_merged(tmp_path: Path) -> None:
    launders = FaultyRelay(Launders(), events=[follow(n) for n in range(900)])
    async with three_relays() as urls, launders, NostrClient(timeout=10) as client:
        plain = await client.count(followers(TARGET), relays=urls)
        both = await client.count(followers(TARGET), relays=[*urls, launders.url])
    _same(plain, both)


async def test_a_relay_whose_document_says_merged_is_not_even_asked(tmp_path: Path) -> None:
    async with three_relays() as urls, an_agent(tmp_path) as agent:
        await counted(agent, watch(urls))
        async with NostrClient(timeout=10) as client:
            assert (await client.relay_info(merged_url(agent))).merged
            result = await client.count(followers(TARGET), relays=[merged_url(agent)])
    assert result.value is None
    assert [claim.warnings for claim in result.relays] == [(MERGED_ELSEWHERE,)]


def _same(plain: CountResult, with_merged: CountResult) -> None:
    assert with_merged.merged.figure == plain.merged.figure
    assert with_merged.merged.corroborated == plain.merged.corroborated
    last = with_merged.relays[-1]
    assert (last.status, last.warnings) == (ClaimStatus.INVALID, (MERGED_ELSEWHERE,))
    assert (last.count, last.registers, last.reading) == (None, None, None)


async def test_an_agent_does_not_ask_itself_and_says_why(tmp_path: Path) -> None:
    """By its own address, whatever a proxy in between makes of the answer."""
    port = free_ports(1)[0]
    own = f"ws://localhost:{port}/merged"
    text = json.dumps(f"127.0.0.1:{port}")
    async with three_relays() as urls, an_agent(tmp_path, text=_config(tmp_path, text)) as agent:
        state = await counted(agent, watch(urls))
        await agent.client.change_watch("me", watch([*urls, own], live=True))
        kept = await agent.until(lambda one: bool(one.failing), "me")
        claims = await agent.client.explain("me")
    assert (kept.asked, kept.answered, kept.figure) == (4, 3, state.figure)
    assert kept.failing == (own,)
    assert f"{own}: {MERGED_ELSEWHERE}" in kept.warnings
    (last,) = [one for one in claims.relays if one.relay == own]
    assert (last.status, last.warnings, last.count) == ("invalid", (MERGED_ELSEWHERE,), None)


def _config(folder: Path, listen: str) -> str:
    return f"""
[store]
path = "{folder / "store.db"}"
[relay]
listen = {listen}
[api]
listen = "127.0.0.1:0"
token_file = "{folder / "token"}"
[relays]
default = []
indexers = []
"""
