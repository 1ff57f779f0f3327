"""Syncs of 20,000 events with rust-nostr's LocalRelay against nostr-sdk's own sync, in one run.

Three syncs on two sets of events: both ways with 5 % differing, down into an empty store, and once
more while both sides are equal. One set has short notes, the other heavy tags, long notes, many
kinds and the real events of the shared data. Both clients keep their events in a file (SQLite,
LMDB). Runs alternate, and the best run of each side counts. After every run both sides are
compared, event by event.

Then the program `nostr-client sync run` into an empty store and once more, each a fresh process,
beside a process that only imports the same modules. If STRFRY_PROGRAM names a strfry, its relay
has the events, and its own client does the same.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.fresh import CLIENT, Program, Spent, importing, modules_of
from bench.report import Report, arguments
from bench.strfry import STRFRY, held, strfry_relay, syncing, version
from bench.sync_sides import (
    SHARE,
    Sides,
    check,
    notes,
    on_relay,
    our_client,
    sdk_client,
    timed,
    varied,
)
from nostr_client.sync.direction import Direction
from tests.peers.servers import load, local_relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from bench.sync_sides import Opened
    from nostr_client.codecs.keys import VerifiedEvent

EVENTS, QUICK = 20_000, 200
ROUNDS = 3
DOWN_ROUNDS = 1
"""Syncs into an empty store by each client: nostr-sdk's is slow."""

PEER = f"nostr-sdk {importlib.metadata.version('nostr-sdk')}"
FETCH_CPU_S = 4.0
"""CPU seconds that 20,000 events into an empty store may take, for a target of the program."""

AGAIN_S = 0.15
"""Seconds that a sync of 20,000 equal events may take beyond the start of its process."""


async def both_ways(opened: Opened, sides: Sides) -> Spent:
    """Sync two sides that differ, over a fresh relay."""
    with tempfile.TemporaryDirectory() as folder:
        async with local_relay() as url:
            await load(url, sides.theirs)
            async with opened(url, Path(folder)) as client:
                await client.save(sides.ours)
                spent = await timed(lambda: client.sync(sides.question, Direction.BOTH))
                check(await client.ids(sides.question) == sides.ids, client.name)
            check(await on_relay(url, sides.question) == len(sides.events), "the relay")
            return spent


class Twice(NamedTuple):
    """A sync into an empty store, one of equal sides, and how many events the first got."""

    first: Spent
    again: Spent
    came: int


async def down_twice(opened: Opened, url: str, sides: Sides) -> Twice:
    """Sync an empty store with a relay, and once more with all its events."""
    with tempfile.TemporaryDirectory() as folder:
        async with opened(url, Path(folder)) as client:
            first = await timed(lambda: client.sync(sides.question, Direction.DOWN))
            came = len(await client.ids(sides.question))
            check(came == len(sides.ids) or opened is sdk_client, client.name)
            await client.save(sides.events)
            again = await timed(lambda: client.sync(sides.question, Direction.DOWN))
            return Twice(first, again, came)


async def measure(report: Report, name: str, sides: Sides, rounds: int) -> None:
    """Three syncs of one set of events, ours and the peer's in turn."""
    ways: list[list[Spent]] = [[], []]
    twice: list[list[Twice]] = [[], []]
    for _ in range(rounds):
        for n, opened in enumerate((sdk_client, our_client)):
            ways[n].append(await both_ways(opened, sides))
    async with local_relay() as url:
        await load(url, sides.events)
        for _ in range(min(rounds, DOWN_ROUNDS)):
            for n, opened in enumerate((sdk_client, our_client)):
                twice[n].append(await down_twice(opened, url, sides))
    what = f"{len(sides.events):,} {name}"
    rows(report, f"{what}, {SHARE:.0%} differing, both ways", *ways)
    rows(report, f"{what} into an empty store", *([one.first for one in runs] for runs in twice))
    rows(report, f"{what} once more", *([one.again for one in runs] for runs in twice))
    least = min(one.came for one in twice[0])
    if least < len(sides.events):
        report.note(f"Of {what}, {PEER} got {least:,} at least in one sync into an empty database.")


def rows(report: Report, what: str, theirs: Sequence[Spent], ours: Sequence[Spent]) -> None:
    peer, mine = Spent.least(theirs), Spent.least(ours)
    report.time(f"{what}: wall", mine.wall, peer=PEER, theirs=peer.wall, at_least=1.0)
    report.time(f"{what}: CPU of the client", mine.cpu, peer=PEER, theirs=peer.cpu)


class ProgramTimes(NamedTuple):
    """The best of each program, ours first: into an empty store, and once more.

    `imports`: a process that only imports the modules of ours. `came`: the fewest events that
    strfry's client got in its first run; None without it.
    """

    first: list[Spent]
    again: list[Spent]
    imports: Spent
    came: int | None


async def by_program(report: Report, name: str, sides: Sides, rounds: int) -> None:
    """The program into an empty store and once more; also strfry's, where there is one."""
    async with _relay_of(sides.events) as url:
        times = await asyncio.to_thread(run_programs, sides, url, rounds)
    relay = "strfry" if STRFRY else "LocalRelay"
    what = f"`nostr-client sync run`, {len(sides.events):,} {name} of {relay}"
    program_rows(report, what, times, len(sides.events))


@asynccontextmanager
async def _relay_of(events: Sequence[VerifiedEvent]) -> AsyncIterator[str]:
    """strfry's relay, where there is one, as its client does not get all of LocalRelay's events."""
    if STRFRY:
        async with strfry_relay(events) as url:
            yield url
        return
    async with local_relay() as url:
        await load(url, events)
        yield url


def run_programs(sides: Sides, url: str, rounds: int) -> ProgramTimes:
    """Run each program twice for each of some empty stores."""
    first: list[list[Spent]] = []
    again: list[list[Spent]] = []
    imports: list[list[Spent]] = []
    came: list[int] = []
    for folder in _folders(rounds):
        program = ours(url, folder, sides)
        programs = [program, *([syncing(url, folder)] if STRFRY else ())]
        first.append([one.run() for one in programs])
        came += [held(folder)] if STRFRY else []
        again.append([one.run() for one in programs])
        modules = modules_of(program.command[len(CLIENT) :], folder)
        imports.append([importing(modules, folder).run()])
    return ProgramTimes(_best(first), _best(again), _best(imports)[0], min(came, default=None))


def _best(runs: Sequence[Sequence[Spent]]) -> list[Spent]:
    return [Spent.least(of_one) for of_one in zip(*runs, strict=True)]


def program_rows(report: Report, what: str, times: ProgramTimes, count: int) -> None:
    first, again = times.first[0], times.again[0]
    report.figure(f"{what} into an empty store: CPU", first.cpu, "s", at_most=FETCH_CPU_S)
    for kind in Spent._fields:
        beyond = max(getattr(again, kind) - getattr(times.imports, kind), 0.0)
        text = f"{what} once more, beyond its imports: {kind}"
        report.figure(text, beyond, "s", at_most=AGAIN_S)
    if times.came is None:
        report.figure(f"{what} into an empty store: wall", first.wall, "s")
        return
    if times.came < count:
        report.note(f"Of {count:,} events, strfry's client got {times.came:,} in its first run.")
    report.time(
        f"{what} into an empty store: wall", first.wall, peer="strfry sync",
        theirs=times.first[1].wall, at_least=1.0,
    )  # fmt: skip
    report.time(
        f"{what} once more: wall", again.wall, peer="strfry sync", theirs=times.again[1].wall
    )


def _folders(count: int) -> Iterator[Path]:
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)


def ours(url: str, folder: Path, sides: Sides) -> Program:
    """`nostr-client sync run` of the events' kinds."""
    words = ["sync", "run", "-r", url, "--store", str(folder / "store.db"), "--json"]
    for kind in sides.question.kinds or ():
        words += ["--kind", str(kind)]
    return Program((*CLIENT, *words), folder)


async def compare(report: Report, count: int, rounds: int) -> None:
    """Both sets of events."""
    for name, sides in (("notes", notes(count)), ("varied events", await varied(count))):
        await measure(report, name, sides, rounds)
        await by_program(report, name, sides, rounds)
    report.note("After every run of ours, both sides had the same events.")
    if STRFRY:
        report.note(f"strfry's own client and relay are those of {version()}.")
    else:
        report.note("STRFRY_PROGRAM is not set, so strfry's own client is not measured.")


def main() -> None:
    options = arguments(__doc__)
    report = Report("sync", options)
    size = (QUICK, 1) if options.quick else (EVENTS, ROUNDS)
    asyncio.run(compare(report, *size))
    report.finish()


if __name__ == "__main__":
    main()
