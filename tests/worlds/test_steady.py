"""Rounds of a watch over relays that hold the same all the time: the number stays, on every page.

One relay is late in every other round: what comes of it then is a part of what it gave before, or
nothing. In such a round a number may be no longer exact. Its lower end stays.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

import pytest

from nostr_client.cli.watch.file import FileWatches
from nostr_client.cli.watch.run import _once
from nostr_client.client import NostrClient
from nostr_client.count.claims import CLAIMS
from nostr_client.network.pool import RelayPool
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch import WATCHES, Watch, WatchRepository
from tests.worlds import clock
from tests.worlds.behaviours import Behaviour, Cap, Counts, Late, LiesCount, Negentropy, Sketches
from tests.worlds.items import Item
from tests.worlds.model import RelaySpec, Step, World
from tests.worlds.relays import SimRelay
from tests.worlds.running import BEGINNING, OPTIONS
from tests.worlds.wire import MemoryTransport

if TYPE_CHECKING:
    from nostr_client.count.figures import Figure
    from nostr_client.watch.state import Merge

ROUNDS = 4
GAP = 1_800.0
SORTS = {"followers": "follow", "reactions": "reaction", "notes": "note", "zaps": "zap"}
TIMES = {
    "nobody": None,
    "no answer": Late(),
    "no page": Late(("REQ",)),
    "a part of a page": Late(("REQ",), sends=3),
    "no newest lists": Late(("REQ",), by_author=True),
    "no count": Late(("COUNT",)),
    "no list of ids": Late(("NEG-OPEN",)),
}
GROUPS = {
    "all": (0, 1, 2, 3, 4),
    "read": (0, 4),
    "read and listed": (0, 2),
    "registers and a liar": (1, 3, 5),
}


class Round(NamedTuple):
    """What a round gave: each new number, and the number on each page afterwards."""

    merged: list[Figure]
    pages: dict[str, Figure | None]


def relays_of(question: str, which: tuple[int, ...], late: Late | None) -> tuple[RelaySpec, ...]:
    """The relays: read, of registers only, listed, a liar, one of few events, and registers again.

    The first of them, which has the most, is late.
    """
    sort = SORTS[question]

    def spec(people: range, *behaviours: Behaviour) -> RelaySpec:
        return RelaySpec(behaviours, tuple(Item(sort, n, -60 * n) for n in people))

    specs = (
        spec(range(32), Cap(20)),
        spec(range(25), Sketches()),
        spec(range(6, 30), Negentropy(), Counts()),
        spec(range(10), Sketches(), LiesCount(plus=50)),
        spec(range(6)),
        spec(range(30), Sketches()),
    )
    found = [specs[n] for n in which]
    if late is not None:
        slowest = 1 if late.by_author else 0  # who lacks authors is asked about their lists
        found[slowest] = RelaySpec((late, *found[slowest].behaviours), found[slowest].items)
    return tuple(found)


async def run(world: World, folder: Path) -> list[Round]:
    """Ask all relays in each round, with a new client each time, as `watch run --once` does."""
    now = clock.Clock(BEGINNING)
    relays = [
        SimRelay(f"ws://r{i}.test", spec.behaviours, spec.items, 0.01 * (i + 1), now.now)
        for i, spec in enumerate(world.relays)
    ]
    hosts = {relay.url: relay for relay in relays}
    is_canonical = world.question != "notes"
    watch = Watch(
        name="w",
        query=world.question if is_canonical else None,
        target=world.query.target or "" if is_canonical else "",
        filters=() if is_canonical else (world.wire,),
        relays=tuple(hosts),
        live=False,
    )
    found: list[Round] = []
    for number in range(ROUNDS):
        for relay in relays:
            relay.step = number
        async with await SqliteStore.open(folder / "s.db", migrations=[CLAIMS, WATCHES]) as store:
            book = WatchRepository(store.database)
            await book.set(watch)
            client = NostrClient(list(hosts), options=OPTIONS, store=store, now=now.now)
            transport = MemoryTransport(hosts, OPTIONS)
            client.pool = RelayPool(options=OPTIONS, transport=transport, now=now.now)
            async with client:
                found.append(await once(client, book, watch, now))
        now.skip(GAP)
        await asyncio.sleep(1)
    return found


async def once(client: NostrClient, book: WatchRepository, watch: Watch, now: clock.Clock) -> Round:
    merged: list[Figure] = []

    async def take(merge: Merge) -> None:
        if merge.is_whole and merge.is_news and merge.result.merged.figure is not None:
            merged.append(merge.result.merged.figure)

    async with client.engine(take, client.wanted([watch]), book=book) as engine:
        await _once(engine)
        now.skip(GAP / 2)
        explained = (await engine.explain("w")).merged.figure
    with mock.patch.object(time, "time", now.now):
        file = FileWatches(book)
        shown = (await file.explain("w")).figure
        (digest,) = (await file.digest(0)).watches
    (newest,) = (await book.history("w"))[-1:]
    pages = {"relays": explained, "show": shown, "history": newest.figure}
    return Round(merged, pages | {"digest": None if digest.now is None else digest.now.figure})


def rounds_of(question: str, which: tuple[int, ...], late: Late | None) -> list[Round]:
    world = World(0, question, relays_of(question, which, late), (Step("watch"),))
    with tempfile.TemporaryDirectory(prefix="steady") as folder:
        return clock.run(lambda: run(world, Path(folder)))


@pytest.mark.parametrize("question", SORTS)
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("times", TIMES)
def test_a_number_stays_while_nothing_changes(question: str, group: str, times: str) -> None:
    found = rounds_of(question, GROUPS[group], TIMES[times])
    for one in found:
        assert set(one.pages.values()) == {one.merged[-1]}
    ends = [{(figure.value, figure.low) for figure in one.merged} for one in found]
    if times == "no count":  # a relay of registers is read instead, which proves more
        assert (ends[0], ends[1]) == (ends[2], ends[3])
    else:
        assert len(set().union(*ends)) == 1
    if times == "nobody":
        assert len({figure for one in found[1:] for figure in one.merged}) == 1
