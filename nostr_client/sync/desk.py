"""Who downloads what: ids that relays named, each asked of one relay at a time, and until it came.

Every relay that named an id has it in its queue; whoever has room first asks for it. What a relay
does not send passes to the others that named it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from nostr_client.gate import Gate
from nostr_client.sync.memory import ANY_RELAY, Side

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nostr_client.store.base import EventStore
    from nostr_client.sync.memory import SyncMemory

_CHUNK = 2_000
"""Ids looked up in the store at once."""


class _Want:
    """One id that is not here yet."""

    __slots__ = ("asked", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.asked: str | None = None


class Desk:
    """See the module. `store` None: nothing is held. `ttl`: seconds that an id stays settled.

    `fetch`: whether ids are to be downloaded; without, they are only counted. `every`: count what
    is settled or deleted here too.
    """

    def __init__(
        self,
        store: EventStore | None,
        memory: SyncMemory,
        *,
        room: int,
        ttl: float,
        fetch: bool = True,
        every: bool = False,
    ) -> None:
        self._store = store
        self._memory = memory
        self._room = room
        self._ttl = ttl
        self._fetch = fetch
        self._every = every
        self._wants: dict[bytes, _Want] = {}
        self._queues: dict[str, deque[bytes]] = {}
        self._named: dict[str, set[bytes]] = {}
        self._open: dict[str, int] = {}
        self._needed: set[bytes] = set()
        self._had: set[bytes] = set()
        self._gate = Gate()

    @property
    def distinct(self) -> int:
        """How many ids any relay named and the store lacked."""
        return len(self._needed)

    def enter(self, relay: str) -> None:
        """A relay takes part."""
        self._queues[relay] = deque()
        self._named[relay] = set()
        self._open[relay] = 0

    async def need(self, relay: str, ids: Sequence[bytes]) -> list[bytes]:
        """A relay named ids that we lack; gives those that are new from it. Waits for room."""
        fresh: list[bytes] = []
        for start in range(0, len(ids), _CHUNK):
            await self._gate.wait(lambda: len(self._queues[relay]) < self._room)
            fresh += self._name(relay, await self._lacking(relay, ids[start : start + _CHUNK]))
        return fresh

    async def met(self, relay: str, ids: Sequence[bytes]) -> list[bytes]:
        """As `need`, for events that came already: nothing is queued."""
        lacking = await self._lacking(relay, ids)
        self._named[relay].update(lacking)
        self._needed.update(lacking)
        return lacking

    async def _lacking(self, relay: str, ids: Sequence[bytes]) -> list[bytes]:
        named = self._named[relay]
        new = list(dict.fromkeys(key for key in ids if key not in named))
        if self._every:
            return new
        settled = await self._memory.settled(relay, Side.DOWN, new)
        unknown = [key for key in new if key not in self._had]
        known = await self._known(unknown)
        return [key for key in new if key not in settled and key not in known]

    async def _known(self, ids: Sequence[bytes]) -> set[bytes]:
        if self._store is None:
            return set()
        known = await self._store.known([key.hex() for key in ids])
        return {bytes.fromhex(key) for key in known}

    def _name(self, relay: str, ids: Sequence[bytes]) -> list[bytes]:
        fresh = [key for key in ids if key not in self._named[relay]]
        self._named[relay].update(fresh)
        self._needed.update(fresh)
        if self._fetch:
            for key in fresh:
                if key not in self._had:
                    self._queue(relay, key)
            self._gate.wake()
        return fresh

    def _queue(self, relay: str, key: bytes) -> None:
        want = self._wants.setdefault(key, _Want())
        want.names.append(relay)
        self._open[relay] += 1
        if want.asked is None:
            self._queues[relay].append(key)

    async def take(self, relay: str, most: int) -> list[bytes]:
        """Ids to ask this relay for now; waits while there are none. Safe to cancel."""
        while True:
            await self._gate.wait(lambda: self._queues[relay])
            taken = self._pull(relay, most)
            if taken:
                return taken

    def _pull(self, relay: str, most: int) -> list[bytes]:
        taken: list[bytes] = []
        queue = self._queues[relay]
        while queue and len(taken) < most:
            key = queue.popleft()
            want = self._wants.get(key)
            if want is not None and want.asked is None and relay in want.names:
                want.asked = relay
                taken.append(key)
        self._gate.wake()
        return taken

    def came(self, ids: Collection[bytes]) -> None:
        """These are stored, or were declined for good: nobody need ask again."""
        for key in ids:
            self._had.add(key)
            want = self._wants.pop(key, None)
            for relay in want.names if want is not None else ():
                self._open[relay] -= 1
        self._gate.wake()

    async def declined(self, ids: Sequence[bytes]) -> None:
        """Our store does not keep these, whoever sends them."""
        if ids:
            await self._memory.settle(ANY_RELAY, Side.DOWN, ids, self._ttl)
        self.came(ids)

    async def hidden(self, relay: str, ids: Sequence[bytes]) -> None:
        """The relay named these and does not send them: not asked of it again."""
        await self._memory.settle(relay, Side.DOWN, ids, self._ttl)
        self.drop(relay, ids)

    def drop(self, relay: str, ids: Collection[bytes]) -> None:
        """This relay cannot give these now: they pass to the others that named them."""
        for key in ids:
            want = self._wants.get(key)
            if want is None or relay not in want.names:
                continue
            want.names.remove(relay)
            self._open[relay] -= 1
            if want.asked in (relay, None):
                want.asked = None
                self._pass_on(key, want)
        self._gate.wake()

    def give_back(self, relay: str, ids: Collection[bytes]) -> None:
        """The request failed; whoever comes first may ask again."""
        for key in ids:
            want = self._wants.get(key)
            if want is not None and want.asked == relay:
                want.asked = None
                self._pass_on(key, want)
        self._gate.wake()

    def _pass_on(self, key: bytes, want: _Want) -> None:
        if not want.names:
            del self._wants[key]
        for relay in want.names:
            self._queues[relay].append(key)

    def leave(self, relay: str) -> int:
        """The relay is out: its ids pass to the others; how many it still owed."""
        owed = [key for key, want in self._wants.items() if relay in want.names]
        self.drop(relay, owed)
        self._queues[relay].clear()
        return len(owed)

    async def served(self, relay: str) -> None:
        """Wait until nothing that this relay named is open. Safe to cancel."""
        await self._gate.wait(lambda: self._open[relay] == 0)
