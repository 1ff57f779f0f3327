"""A thousand watches over a hundred relays: what one round costs beside the network.

Relays answer at once and in memory, so that what is left is our own work: choosing what is due,
sharing relays, asking, making claims, merging, and keeping it all in a store on the disk. There is
no peer: no other client keeps counts.

    python -m bench.watches [--quick]
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from bench.report import Report, arguments, peak_rss_mib
from nostr_client import count, hll
from nostr_client.count.procedure import Counter
from nostr_client.event import Event
from nostr_client.keys import VerifiedEvent
from nostr_client.messages import CountAnswer
from nostr_client.outbox import RelayChoice, choose_many
from nostr_client.relay_stats import Capabilities
from nostr_client.watch import Runner, Watch, WatchBook, due

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nostr_client.filters import Filter
    from nostr_client.relay import Relay

WATCHES, RELAYS, EACH = 1000, 100, 4
PEOPLE = 200
START = 1_700_000_000.0
SEED = 5


class Page:
    """A stored query that is there at once."""

    error = None

    def __init__(self, events: list[VerifiedEvent]) -> None:
        self._left = list(events)
        self._frames = len(events)

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def batch(self) -> list[VerifiedEvent]:
        taken, self._left = self._left, []
        return taken

    def statistics(self) -> SimpleNamespace:
        return SimpleNamespace(frames=self._frames, bytes=400 * self._frames, invalid=0, queued=0)


class StandIn:
    """A relay without a network: registers for most, plain counts and events on every fifth."""

    notices = ()
    max_message_bytes = 120_000

    def __init__(self, number: int) -> None:
        self.url = f"wss://relay{number}.example.com"
        self.sketches = number % 5 != 0
        self.capabilities = Capabilities(count=True, negentropy=False)
        self.asked = 0

    def _held(self, asked: Filter) -> list[VerifiedEvent]:
        """Half of the target's people, drawn by relay and target."""
        target = asked.tags[0][1][0]
        key = (self.url, target)
        held = _pages.get(key)
        if held is None:
            rng = random.Random(f"{self.url}{target}")
            held = [_event(target, i) for i in range(PEOPLE) if rng.random() < 0.5]
        if not self.sketches:
            _pages[key] = held
        since, until = asked.since or 0, asked.until or 2**62
        fit = [e for e in held if since <= e.event.created_at <= until]
        return fit[: asked.limit]

    async def count(self, filters: Sequence[Filter], timeout: float | None = None) -> CountAnswer:
        self.asked += 1
        (asked,) = filters
        key = (self.url, asked.tags[0][1][0], asked.since, asked.until)
        if key not in _answers:
            held = self._held(asked.replace(limit=None))
            registers = None
            if self.sketches:
                offset = hll.offset(asked.to_dict()) or 8
                registers = hll.from_pubkeys([e.event.pubkey for e in held], offset)
            _answers[key] = CountAnswer("q", len(held), hll=registers)
        return _answers[key]

    def subscribe(self, filters: Sequence[Filter], *, live: bool) -> Page:
        (asked,) = filters
        return Page(self._held(asked))


_answers: dict[tuple[object, ...], CountAnswer] = {}
_pages: dict[tuple[str, str], list[VerifiedEvent]] = {}


def _event(target: str, person: int) -> VerifiedEvent:
    key = sha256(b"%d" % person).hexdigest()
    id = sha256(f"{target}{person}".encode()).hexdigest()
    made = Event(id, key, int(START) - 3600 * person, 7, (("e", target),), "+", "0" * 128)
    return VerifiedEvent(made)


def watches(n: int) -> list[Watch]:
    """Watches of reactions, each on the relays that the cover gives it."""
    rng = random.Random(SEED)
    urls = [f"wss://relay{i}.example.com" for i in range(RELAYS)]
    weights = [1 / (1 + i / 10) for i in range(RELAYS)]
    named = {f"w{i}": list(dict.fromkeys(rng.choices(urls, weights, k=6))) for i in range(n)}
    chosen = choose_many(named, RelayChoice(most=EACH))
    return [
        Watch(
            name=name,
            query=count.reactions(sha256(name.encode()).hexdigest()),
            relays=chosen[name].relays,
            interval=600.0,
        )
        for name in named
    ]


async def rounds(report: Report, made: list[Watch], folder: Path) -> None:
    pool = {f"wss://relay{i}.example.com": StandIn(i) for i in range(RELAYS)}
    clock = [START]

    async def choose(wanted: Sequence[Watch]) -> Mapping[str, Sequence[tuple[str, Relay]]]:
        return {w.name: [(url, cast("Relay", pool[url])) for url in w.relays] for w in wanted}

    async with await WatchBook.open(folder / "store.db") as book:
        for watch in made:
            await book.add(watch)
        counter = Counter(book=book.claims, now=lambda: clock[0])
        runner = Runner(book, counter, choose, now=lambda: clock[0])
        await _round(report, runner, "first round, everything read", None)
        clock[0] += 700
        await _round(report, runner, "answers of the relays made", None, silent=True)
        clock[0] += 700
        results = await _round(report, runner, "a later round, all due", 1.0)
        figures = [result.value for result in results.values()]
        assert len(figures) == len(made)
        assert all(value and 100 < value < 260 for value in figures)
        asked = await book.all()
        start = time.process_time()
        due(asked, clock[0] + 1e6)
        report.figure("choosing what is due, of all", time.process_time() - start, "s")


async def _round(
    report: Report, runner: Runner, what: str, at_most: float | None, *, silent: bool = False
) -> dict[str, Any]:
    start = time.process_time()
    results = await runner.round()
    spent = time.process_time() - start
    if not silent:
        report.figure(f"{what}: CPU", spent, "s", at_most=at_most)
        report.figure(f"{what}: CPU a watch", spent / max(len(results), 1), "s")
    return results


def main() -> None:
    options = arguments(__doc__)
    report = Report("watches", options)
    n = 100 if options.quick else WATCHES
    start = time.process_time()
    made = watches(n)
    report.figure(f"relays of {n} watches by greedy cover: CPU", time.process_time() - start, "s")
    used = {url for watch in made for url in watch.relays}
    report.figure("relays in use", len(used), "", at_most=RELAYS)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(rounds(report, made, Path(folder)))
    report.figure(
        "memory at its peak, stand-in relays included", peak_rss_mib(), "MiB", at_most=200
    )
    report.note(f"{n} watches, {EACH} of {RELAYS} relays each; every fifth relay is read by events")
    report.finish()


if __name__ == "__main__":
    main()
