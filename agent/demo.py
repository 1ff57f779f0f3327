"""`make demo`: local relays of four kinds, counts over them, a sync, and the truth beside each.

People, follows and reactions are made up from a seed and signed, so the true numbers are known.
Exit code 0 when every truth lies where the count says it does, and the sync brought all.
"""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import AsyncExitStack
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from agent.relay.options import RelayOptions
from agent.relay.server import serve
from nostr_client import count, kinds
from nostr_client.cli.count_table import merged_line, second_lines, size, table
from nostr_client.cli.entry import run_program
from nostr_client.cli.output import console
from nostr_client.cli.runner import run_async_until_sigterm
from nostr_client.cli.sync import table as sync_table
from nostr_client.client import NostrClient
from nostr_client.event import EventTemplate
from nostr_client.filters import Filter
from nostr_client.keys import KeySigner, VerifiedEvent
from nostr_client.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.count import CountResult
    from nostr_client.merge import Figure

SEED = 2
PEOPLE = 2400
START = 1_700_000_000
SECONDS_LATE = 1.0
SECONDS_FOR_ALL = 10.0


class Kind(NamedTuple):
    """One relay of the demonstration: what it is called, does, and how many people it knows."""

    name: str
    options: RelayOptions
    share: float
    late: float = 0.0


KINDS = (
    Kind("has registers", RelayOptions(), 0.6),
    Kind("has no registers", RelayOptions(hll=False), 0.5),
    Kind("is slow", RelayOptions(), 0.4, late=SECONDS_LATE),
    Kind("refuses", RelayOptions(private_kinds=frozenset({3, 7})), 0.3),
)


class LateStore(SqliteStore):
    """A store that takes its time to count."""

    late: float = SECONDS_LATE

    async def count(self, filters: Sequence[Filter]) -> int:
        await asyncio.sleep(self.late)
        return await super().count(filters)


class Person(NamedTuple):
    """Somebody who follows the author, and perhaps reacts to the note, once or twice."""

    follow: VerifiedEvent
    reactions: tuple[VerifiedEvent, ...]


AUTHOR = KeySigner(sha256(b"author %d" % SEED).digest(), rand=bytes)
NOTE = AUTHOR.sign_now(EventTemplate(kind=kinds.TEXT_NOTE, content="Hello", created_at=START))


def make_person(i: int, rng: random.Random) -> Person:
    """Person `i` with signed events: the same for the same seed."""
    signer = KeySigner(sha256(b"person %d %d" % (SEED, i)).digest(), rand=bytes)
    others = tuple(("p", rng.randbytes(32).hex()) for _ in range(rng.randrange(5, 30)))
    follows = EventTemplate(
        kind=kinds.CONTACTS, tags=(("p", AUTHOR.pubkey), *others), created_at=START + i
    )
    times = rng.choice((0, 1, 1, 1, 2))
    return Person(
        signer.sign_now(follows),
        tuple(signer.sign_now(reaction(START + i, n)) for n in range(times)),
    )


def reaction(at: int, n: int) -> EventTemplate:
    """The `n`-th reaction of somebody to the note."""
    tags = (("e", NOTE.event.id), ("p", AUTHOR.pubkey))
    return EventTemplate(kind=kinds.REACTION, content="+-"[n], tags=tags, created_at=at + n)


def spread(people: Sequence[Person], rng: random.Random) -> list[list[Person]]:
    """Who is on which relay; those of the one that refuses are on another one too."""
    parts = [[p for p in people if rng.random() < kind.share] for kind in KINDS]
    seen = {id(p) for part in parts[:-1] for p in part}
    return [*parts[:-1], [p for p in parts[-1] if id(p) in seen]]


async def open_store(kind: Kind, people: Iterable[Person], stack: AsyncExitStack) -> SqliteStore:
    """A store in memory with the events of these people."""
    maker = LateStore if kind.late else SqliteStore
    store = await stack.enter_async_context(await maker.open(":memory:"))
    await store.save([NOTE, *(e for p in people for e in (p.follow, *p.reactions))])
    return store


def holds(figure: Figure | None, truth: int) -> bool:
    """Whether a figure tells the truth: it lies from low to high, and is equal where exact."""
    if figure is None or (figure.exact and figure.value != truth):
        return False
    return figure.low <= truth and (figure.high is None or truth <= figure.high)


def show(result: CountResult, names: dict[str, str], people: int, events: int) -> bool:
    """Print one count with the truth beside it; whether it holds."""
    out = console()
    out.print(table(result, names))
    good = [holds(result.authors, people), holds(result.events, events)]
    out.print(merged_line(result), style="bold", soft_wrap=True)
    for line in second_lines(result):
        out.print(line, soft_wrap=True)
    truth = f"truth: {people:,} distinct authors, {events:,} events"
    verdict = "inside what the count says" if all(good) else "NOT what the count says"
    out.print(f"{truth}: {verdict}\n", style="green" if all(good) else "red", soft_wrap=True)
    return all(good)


async def bring_home(relays: dict[str, str], truth: int) -> bool:
    """Sync the reactions into a store, then once more, and print; whether all of them came."""
    reactions = Filter(kinds=[kinds.REACTION], tags={"#e": [NOTE.event.id]})
    async with await SqliteStore.open(":memory:") as store:
        client = NostrClient(relays, store=store, timeout=SECONDS_FOR_ALL)
        async with client:
            first = await client.sync(reactions, direction="down")
            again = await client.sync(reactions, direction="down")
        held = await store.count([reactions])
    out = console()
    out.print(sync_table(first, relays))
    kept = f"synced: {held:,} reactions in the store, each verified, {size(first.bytes_received)}"
    more = f"once more: {again.downloaded} new, {size(again.bytes_received)}"
    out.print(f"{kept}; {more}", soft_wrap=True)
    good = held == truth and not again.downloaded
    verdict = "all are here" if good else "NOT what is here"
    out.print(f"truth: {truth:,} events: {verdict}", style="green" if good else "red")
    return good


async def run() -> bool:
    """Start the relays, count, sync, print; whether every truth was inside."""
    rng = random.Random(SEED)
    everybody = [make_person(i, rng) for i in range(PEOPLE)]
    parts = spread(everybody, rng)
    known = {id(p): p for part in parts for p in part}.values()
    reacting = [p for p in known if p.reactions]
    async with AsyncExitStack() as stack:
        names: dict[str, str] = {}
        for kind, people in zip(KINDS, parts, strict=True):
            store = await open_store(kind, people, stack)
            server = await stack.enter_async_context(serve(store, port=0, options=kind.options))
            names[server.url] = kind.name
        client = await stack.enter_async_context(NostrClient(names, timeout=SECONDS_FOR_ALL))
        followers = await client.count(count.followers(AUTHOR.pubkey))
        good = show(followers, names, len(known), len(known))
        reactions = await client.count(count.reactions(NOTE.event.id))
        number = sum(len(p.reactions) for p in reacting)
        good = show(reactions, names, len(reacting), number) and good
        return await bring_home(names, number) and good


def main() -> None:
    """Run the demonstration and leave with its exit code."""
    sys.exit(run_program("demo", lambda: 0 if run_async_until_sigterm(run()) else 1))


if __name__ == "__main__":
    main()
