"""Relays that nothing asks any more."""

from __future__ import annotations

from agent.service.relay_state import RelayEviction
from nostr_client.codecs.filters import Filter
from nostr_client.network.pool import RelayPool
from nostr_client.network.relay_state import Capabilities
from tests.faulty_relay import FaultyRelay


async def test_what_is_idle_twice_is_let_go_and_its_numbers_stay() -> None:
    async with FaultyRelay() as kept, FaultyRelay() as once, RelayPool() as pool:
        eviction = RelayEviction(pool)
        for relay in (kept, once):
            await pool.relay(relay.url).count(Filter(kinds=[1]))
        sent = pool.relay(once.url).stats.bytes_sent
        assert await eviction.round([kept.url]) == []
        assert await eviction.round([kept.url, once.url]) == []
        assert await eviction.round([kept.url]) == []
        await pool.relay(once.url).count(Filter(kinds=[1]))
        assert await eviction.round([kept.url]) == []
        assert await eviction.round([kept.url]) == [once.url]
        assert set(pool.relays) == {kept.url}
        assert eviction.gone.bytes_sent >= sent > 0
        assert await eviction.round([kept.url]) == []
        answer = await pool.relay(once.url).count(Filter(kinds=[1]))
        assert answer.count == 0


async def test_what_it_could_do_is_known_when_it_comes_back() -> None:
    known = {"ws://relay.example": Capabilities(count=True)}
    async with RelayPool(known=known) as pool:
        eviction = RelayEviction(pool)
        pool.relay("ws://relay.example")
        await eviction.round([])
        assert await eviction.round([]) == ["ws://relay.example"]
        assert pool.relay("ws://relay.example").capabilities.count is True
