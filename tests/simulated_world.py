"""Twelve made-up relays over thirty days: what a watch would see, and what is true.

Everything is drawn from one seed. Rounds are four hours apart; between two of them people come and
go, relays get what others got before, prune, go away, come back, lie and refuse.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from nostr_client import count, hll
from nostr_client.codecs.messages import CountAnswer
from nostr_client.count.claiming import EventsOutcome, RelayOutcome, claim_of
from nostr_client.count.claims import HeldEvent, ListMemory, is_answer, reading_of
from nostr_client.count.claims.coverage import DAY, HOUR
from nostr_client.count.merge import Claim, Method
from nostr_client.count.procedure import CountEngine
from nostr_client.count.reading.rounds import ReadRound
from nostr_client.errors import NetworkError, RelayRefused
from tests.simulation import SimRelay, drive, event

if TYPE_CHECKING:
    from nostr_client.count.result import CountResult

START = 1_700_000_000
DAYS = 30
STEP = 4 * HOUR
TARGET = sha256(b"the target").hexdigest()
LIES = ("one register at 57", "64 registers four higher", "all registers one higher", "count")


@dataclass
class SimPeer:
    """One relay of the world and what the watch knows of it."""

    name: str
    kind: str  # plain, counting, hll, refusing
    coverage: float
    late: float = 0.0
    away: tuple[int, int] = (0, 0)
    prunes: bool = False
    lie: str = ""
    relay: SimRelay = field(default_factory=SimRelay)
    deleted: set[bytes] = field(default_factory=set)
    memory: ListMemory = field(default_factory=ListMemory)
    answer: Claim | None = None
    newest: Claim | None = None

    @property
    def by_events(self) -> bool:
        return self.kind in ("plain", "counting")


class World:
    """See the module. Call `round()` for each step of the clock, `result()` for the number."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        followers = seed % 2 == 0
        self.query = count.followers(TARGET) if followers else count.reactions(TARGET)
        self.now = START
        self.rounds = 0
        self.read_first = 0
        self.read_most = 0
        self.changing = True
        self.ahead = DAY if seed % 5 == 0 else 0
        self.peers = self._relays(rng, LIES[seed % len(LIES)])
        for peer in self.peers:
            peer.memory = ListMemory(replaces=self.query.one_per_author)
        self._people: dict[int, list[HeldEvent]] = {}
        self._next = 0
        self._arrivals: list[tuple[int, int, int, bytes, HeldEvent | None]] = []
        self._order = 0
        self._initial = rng.randrange(700, 1800)
        self._rates = {
            "new": rng.uniform(0.002, 0.012),
            "gone": rng.uniform(0.0005, 0.005),
            "again": rng.uniform(0.0, 0.005),
        }
        for _ in range(self._initial):
            self._appear(START - rng.randrange(1, 400 * DAY), settled=True)
        self._deliver(START)
        self._counter = CountEngine(now=lambda: float(self.now))

    @staticmethod
    def _relays(rng: random.Random, lie: str) -> list[SimPeer]:
        def cover() -> float:
            return rng.uniform(0.4, 0.95)

        odd = rng.choice(("plain", "counting"))
        return [
            SimPeer("plain1", "plain", cover()),
            SimPeer("plain2", "plain", cover(), relay=SimRelay(cap=100)),
            SimPeer("counting1", "counting", cover()),
            SimPeer("counting2", "counting", cover(), relay=SimRelay(cap=250)),
            SimPeer("hll1", "hll", cover()),
            SimPeer("hll2", "hll", cover()),
            SimPeer("hll3", "hll", cover()),
            SimPeer("late", odd, cover(), late=0.3),
            SimPeer("pruning", rng.choice(("plain", "counting")), cover(), prunes=True),
            SimPeer("away", rng.choice(("plain", "counting", "hll")), cover(), away=(8, 15)),
            SimPeer("lying", "hll", cover(), lie=lie),
            SimPeer("refusing", "refusing", cover()),
        ]

    # What happens in the world.

    def _appear(self, at: int, *, settled: bool = False) -> None:
        """Somebody new writes one matching event, in reactions sometimes two."""
        person, self._next = self._next, self._next + 1
        again = 1 + (not self.query.one_per_author and self.rng.random() < 0.2)
        written = [event(at, person, n) for n in range(again)]
        if not settled and self.rng.random() < 0.005:
            written = [event(at + self.rng.randrange(HOUR, 3 * DAY), person)]
        self._people[person] = written
        for one in written:
            self._publish(one, at, settled=settled)

    def _publish(self, one: HeldEvent, at: int, *, settled: bool) -> None:
        for i, peer in enumerate(self.peers):
            if self.rng.random() < peer.coverage:
                self._schedule(i, self._when(peer, at, settled), one.id, one)

    def _when(self, peer: SimPeer, at: int, settled: bool) -> int:
        """When a relay gets something: soon, late on some, after its return if it is away."""
        if settled:
            return START
        delay = self.rng.randrange(5)
        if self.rng.random() < peer.late:
            delay = int(min(self.rng.expovariate(1 / (3 * HOUR)), 30 * HOUR))
        back = START + peer.away[1] * DAY
        if START + peer.away[0] * DAY <= at + delay < back:
            return back + self.rng.randrange(6 * HOUR)
        return at + delay

    def _vanish(self, person: int, at: int) -> None:
        """Somebody takes it all back; a relay that never had the event drops nothing."""
        for one in self._people.pop(person):
            for i, peer in enumerate(self.peers):
                self._schedule(i, self._when(peer, at, False), one.id, None)

    def _schedule(self, i: int, when: int, id: bytes, one: HeldEvent | None) -> None:
        self._order += 1
        heapq.heappush(self._arrivals, (when, self._order, i, id, one))

    def _deliver(self, until: int) -> None:
        while self._arrivals and self._arrivals[0][0] <= until:
            _, _, i, id, one = heapq.heappop(self._arrivals)
            peer = self.peers[i]
            if one is None:
                peer.deleted.add(id)
                peer.relay.remove(id)
            elif id not in peer.deleted:
                peer.relay.add(one)

    def _live(self, seconds: int) -> None:
        """Let the world go on, and everything that is under way arrive in its order."""
        times = {
            what: self._times(rate * len(self._people) * seconds / DAY, seconds)
            for what, rate in self._rates.items()
        }
        for at in times["new"]:
            self._appear(at)
        for at in times["gone"]:
            self._vanish(self.rng.choice(list(self._people)), at)
        if self.query.one_per_author:
            for at in times["again"]:
                person = self.rng.choice(list(self._people))
                self._vanish(person, at)
                self._people[person] = [event(at, person)]
                self._publish(self._people[person][0], at, settled=False)
        for peer in self.peers:
            if peer.prunes and self.now > START + 12 * DAY:
                self._prune(peer)

    def _times(self, mean: float, seconds: int) -> list[int]:
        n = int(mean) + (self.rng.random() < mean % 1)
        return sorted(self.now + self.rng.randrange(seconds) for _ in range(n))

    def _prune(self, peer: SimPeer) -> None:
        oldest = self.now - 300 * DAY
        for id in [id for id, one in peer.relay.events.items() if one.created_at < oldest]:
            peer.relay.remove(id)

    # What the watch does.

    def round(self, *, claims: bool = False) -> None:
        """Let one step pass and ask every relay; the first round asks at the start.

        `claims`: make claims of the answers, for `result`; it costs more than all the rest.
        """
        if self.rounds:
            if self.changing:
                self._live(STEP)
            self.now += STEP
            self._deliver(self.now)
        read = 0
        for peer in self.peers:
            before = peer.relay.read
            reading = self._read(peer) if peer.by_events and not self._is_away(peer) else None
            read += peer.relay.read - before
            if claims:
                self._claim(peer, reading)
        if self.rounds:
            self.read_most = max(self.read_most, read)
        else:
            self.read_first = read
        self.rounds += 1

    def _clock(self) -> int:
        """Our clock, which runs ahead from the third to the fifth day in some worlds."""
        wrong = START + 3 * DAY <= self.now < START + 5 * DAY
        return self.now + self.ahead * wrong

    def _is_away(self, peer: SimPeer) -> bool:
        return START + peer.away[0] * DAY <= self.now < START + peer.away[1] * DAY

    def _claim(self, peer: SimPeer, reading: ReadRound | None) -> None:
        outcome = RelayOutcome(asked_at=float(self._clock()), count_elapsed=0.1)
        if self._is_away(peer):
            outcome.count_error = NetworkError("away", relay=peer.name)
        elif peer.kind == "hll":
            outcome.answers = [self._sketch(peer)]
        elif peer.kind == "refusing":
            outcome.answers = [CountAnswer("q", 0)]
            outcome.found = self._refused(peer)
        elif reading is not None:
            if peer.kind == "counting":
                outcome.answers = [CountAnswer("q", peer.relay.count(self.query.filters[0]))]
            outcome.found = self._found(peer, reading)
        peer.newest = claim_of(peer.name, self.query, outcome)
        if is_answer(peer.newest):
            peer.answer = peer.newest

    def _sketch(self, peer: SimPeer) -> CountAnswer:
        events = peer.relay.events.values()
        offset = self.query.offset
        assert offset is not None
        registers = hll.from_pubkeys({one.author for one in events}, offset)
        told = len(events)
        match peer.lie:
            case "one register at 57":
                registers = bytes([57]) + registers[1:]
            case "64 registers four higher":
                registers = bytes(r + 4 if i < 64 else r for i, r in enumerate(registers))
            case "all registers one higher":
                registers = bytes(r + 1 for r in registers)
            case "count":
                told *= 10
        return CountAnswer("q", told, hll=registers)

    def _refused(self, peer: SimPeer) -> EventsOutcome:
        empty = reading_of(ListMemory(), self.now)
        error = RelayRefused("restricted: no", prefix="restricted", relay=peer.name)
        return EventsOutcome(reading=empty, elapsed=0.1, error=error)

    def _read(self, peer: SimPeer) -> ReadRound:
        counting = peer.kind == "counting"
        told = peer.relay.count(self.query.filters[0]) if counting else None
        reading = ReadRound(self.query.filters, clock=self._clock(), reported=told)
        drive(reading, peer.memory, peer.relay, countable=counting)
        return reading

    def _found(self, peer: SimPeer, reading: ReadRound) -> EventsOutcome:
        return EventsOutcome(
            reading=reading_of(peer.memory, self._clock()),
            elapsed=0.1,
            last_read=peer.memory.mark.last_read,
            confirmed=reading.confirmed,
        )

    def result(self, peers: list[SimPeer] | None = None) -> CountResult:
        """The number as it stands now, from the newest answers."""
        asked = self.peers if peers is None else peers
        shown = [peer.newest for peer in asked if peer.newest is not None]
        used = [peer.answer or claim for peer, claim in zip(asked, shown, strict=True)]
        assert all(c.method is not Method.EVENTS or c.reading for c in used)
        return self._counter.result(self.query, shown, used)

    def skipped(self) -> dict[str, int]:
        """For each relay that is read, how many of its events are not held."""
        return {
            peer.name: len(peer.relay.events.keys() - {e.id for e in peer.memory.events()})
            for peer in self.peers
            if peer.by_events
        }

    def left(self) -> dict[str, int]:
        """For each relay that is read, how many events are held that it has no more."""
        return {
            peer.name: len({e.id for e in peer.memory.events()} - peer.relay.events.keys())
            for peer in self.peers
            if peer.by_events
        }

    def truth(self, result: CountResult, peers: list[SimPeer] | None = None) -> int:
        """Distinct authors on the relays that the number is about."""
        named = {part.relay for part in result.merged.parts if part.used}
        asked = self.peers if peers is None else peers
        return len({e.author for p in asked if p.name in named for e in p.relay.events.values()})
