"""Two agents that see different relays: what they found, merged, is the truth."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from agent.relay.options import RelayOptions
from agent.relay.server import serve
from nostr_client import count
from nostr_client.codecs.keys import verify
from nostr_client.count.claims import CLAIMS, ClaimBook
from nostr_client.count.procedure import CountEngine
from nostr_client.store.sqlite import SqliteStore
from tests.agent.service.kit import an_agent
from tests.worlds import NOTE, TARGET, follow, reaction, samples, union

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.count.merge import Claim
    from nostr_client.count.queries import Query
    from nostr_client.count.result import CountResult

PEOPLE = 300
WATCHES = f"""
[[watches]]
name = "followers"
query = "followers"
target = "{TARGET}"
[[watches]]
name = "likes"
query = "reactions"
target = "{NOTE}"
"""


async def relay(stack: AsyncExitStack, people: list[int], *, hll: bool) -> str:
    store = await stack.enter_async_context(await SqliteStore.open(":memory:"))
    events = [event for i in people for event in (follow(i), reaction(i))]
    await store.save([verify(event) for event in events])
    server = await stack.enter_async_context(serve(store, port=0, options=RelayOptions(hll=hll)))
    return server.url


async def merged(folders: list[Path], query: Query) -> CountResult:
    """The claims of several stores as one result; each store was written by its own agent."""
    claims: dict[str, Claim] = {}
    counter = CountEngine()
    for folder in folders:
        path = folder / "store.db"
        async with await SqliteStore.open(path, migrations=[CLAIMS]) as store:
            counter.book = ClaimBook(store.database)
            found = await counter.explain(query)
            claims |= {claim.relay: claim for claim in found.relays}
    return counter.result(query, list(claims.values()))


async def test_two_agents_together_know_the_truth(tmp_path: Path) -> None:
    parts = samples(PEOPLE, 4, 0.5, seed=5)
    folders = [tmp_path / "one", tmp_path / "two"]
    async with AsyncExitStack() as stack:
        urls = [await relay(stack, part, hll=n != 1) for n, part in enumerate(parts)]
        for folder, mine in zip(folders, (urls[:2], urls[2:]), strict=True):
            folder.mkdir()
            async with an_agent(folder, mine, WATCHES) as agent:
                for name in ("followers", "likes"):
                    watch = await agent.until(lambda w: w.answered == 2, name)
                    assert watch.figure is not None
                    here = union([parts[urls.index(url)] for url in mine])
                    assert watch.figure.low <= here <= (watch.figure.high or here)
    truth = union(parts)
    for query in (count.followers(TARGET), count.reactions(NOTE)):
        result = await merged(folders, query)
        assert result.answered == 4
        assert result.low is not None
        assert result.low <= truth <= (result.high or truth)
        assert abs((result.value or 0) - truth) < 0.2 * truth
