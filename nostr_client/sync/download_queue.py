"""Assign each missing event id to one relay at a time, and retry on other relays.

Every relay that named an id has the id in its queue. The first relay with room asks for it. If a
relay does not send an event, the id passes to the other relays that named it.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple

from nostr_client.network.waiting import Gate
from nostr_client.store.base import SaveStatus
from nostr_client.sync.memory import ANYWHERE, CUT, SETTLED, RefusalNote, RelayAndKey, Side, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from nostr_client.store.base import EventStore, SaveOutcome
    from nostr_client.sync.memory import SyncMemory
    from nostr_client.sync.options import SyncOptions

_FORGOTTEN = (SaveStatus.EPHEMERAL, SaveStatus.INVALID)
"""Outcomes of events of which the store keeps no note."""

_CHUNK = 2_000
"""Ids to look up in the store at once."""


class _Want:
    """An id whose event is not in the store yet: the relays that named it, and the relay that is
    asked.
    """

    __slots__ = ("asked", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.asked: str | None = None


class Missing(NamedTuple):
    """Events that one relay named and the store still lacks, as numbers."""

    withheld: dict[str, int]
    """By reason. Includes events that this run did not ask for."""
    skipped: int
    """Events of `withheld` that this run did not ask for."""
    owed: int
    """Events that this run did not ask for because it broke off."""


class DownloadQueue:
    """Queue of missing ids, as the module describes. `store` is None if nothing is stored.

    `fetch`: whether to download events. Otherwise the queue only counts ids. `every`: also count
    ids that are settled or deleted here.
    """

    def __init__(
        self,
        store: EventStore | None,
        memory: SyncMemory,
        options: SyncOptions,
        *,
        fetch: bool = True,
        every: bool = False,
    ) -> None:
        self._store = store
        self._memory = memory
        self._options = options
        self._fetch = fetch
        self._every = every
        self._wants: dict[bytes, _Want] = {}
        self._queues: dict[str, deque[bytes]] = {}
        self._named: dict[str, set[bytes]] = {}
        self._open: dict[str, int] = {}
        self._needed: set[bytes] = set()
        self._had: set[bytes] = set()
        self._places: dict[str, RelayAndKey] = {}
        self._withheld: dict[str, dict[bytes, str]] = {}
        self._skipped: dict[str, dict[bytes, str]] = {}
        self._due: dict[str, set[bytes]] = {}
        self._owed: dict[str, set[bytes]] = {}
        self._cut: dict[str, set[bytes]] = {}
        """Ids of a REQ that did not reach its end."""
        self._bringing: set[str] = set()
        self._gate = Gate()

    @property
    def distinct(self) -> int:
        """The number of ids that any relay named and the store lacked."""
        return len(self._needed)

    def enter(self, place: RelayAndKey) -> None:
        """Add a relay."""
        relay = place.relay
        self._places[relay] = place
        self._queues[relay] = deque()
        self._named[relay] = set()
        self._open[relay] = 0
        for notes in (self._withheld, self._skipped):
            notes[relay] = {}
        for ids in (self._due, self._owed, self._cut):
            ids[relay] = set()
        self._bringing.add(relay)

    def names(self, relay: str, key: bytes) -> bool:
        """Return True if the relay named this id in this run and the store lacked its event."""
        return key in self._named[relay]

    async def need(self, relay: str, ids: Sequence[bytes]) -> list[bytes]:
        """Note ids that a relay named and the store lacks. Return the new ones. Waits for room."""
        fresh: list[bytes] = []
        for start in range(0, len(ids), _CHUNK):
            await self._gate.wait(lambda: len(self._queues[relay]) < self._options.pending_ids)
            lacking = await self._lacking(relay, ids[start : start + _CHUNK], came=False)
            self._want(relay, lacking)
            fresh += lacking
        return fresh

    async def met(self, relay: str, ids: Sequence[bytes]) -> list[bytes]:
        """Note ids as `need` does, for events that came already. Queues nothing."""
        lacking = await self._lacking(relay, ids, came=True)
        self._needed.update(lacking)
        return lacking

    async def _lacking(self, relay: str, ids: Sequence[bytes], *, came: bool) -> list[bytes]:
        named = self._named[relay]
        new = list(dict.fromkeys(key for key in ids if key not in named))
        named.update(new)
        if self._every:
            return new
        known = await self._known([key for key in new if key not in self._had])
        new = [key for key in new if key not in known]
        recalled = await self._memory.recall(self._places[relay], Side.DOWN, new)
        self._due[relay] |= recalled.due
        waiting = {k: v for k, v in recalled.waiting.items() if v.verdict in SETTLED or not came}
        for key, note in waiting.items():
            if note.verdict not in SETTLED:
                self._skipped[relay][key] = note.reason
        return [key for key in new if key not in waiting]

    async def _known(self, ids: Sequence[bytes]) -> set[bytes]:
        if self._store is None:
            return set()
        known = await self._store.known([key.hex() for key in ids])
        return {bytes.fromhex(key) for key in known}

    def _want(self, relay: str, ids: Sequence[bytes]) -> None:
        self._needed.update(ids)
        if self._fetch:
            for key in ids:
                if key not in self._had:
                    self._queue(relay, key)
            self._gate.wake()

    def _queue(self, relay: str, key: bytes) -> None:
        want = self._wants.setdefault(key, _Want())
        want.names.append(relay)
        self._open[relay] += 1
        if want.asked is None:
            self._queues[relay].append(key)

    async def take(self, relay: str, most: int) -> list[bytes]:
        """Return ids to ask this relay for now. Waits while there are none. Safe to cancel."""
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
        """Note ids whose events are stored, or declined for good.

        No relay is asked for them again.
        """
        for key in ids:
            self._had.add(key)
            want = self._wants.pop(key, None)
            for relay in want.names if want is not None else ():
                self._open[relay] -= 1
        self._gate.wake()

    def saved(self, outcomes: Sequence[SaveOutcome]) -> list[bytes]:
        """Close the ids that the store knows from now on. Return the other ids, for `declined`."""
        self.came([bytes.fromhex(one.id) for one in outcomes if one.status not in _FORGOTTEN])
        return [bytes.fromhex(one.id) for one in outcomes if one.status in _FORGOTTEN]

    async def declined(self, ids: Sequence[bytes]) -> None:
        """Remember events that the store does not keep, for every relay."""
        notes = dict.fromkeys(ids, RefusalNote(Verdict.UNFIT, "no event that a store keeps"))
        if ids:
            await self._memory.note(ANYWHERE, Side.DOWN, notes, self._options)
        self.came(ids)

    async def withheld(self, relay: str, notes: Mapping[bytes, RefusalNote]) -> None:
        """Note ids that the relay named and does not send.

        This run does not ask this relay again.
        """
        if not notes:
            return
        await self._memory.note(self._places[relay], Side.DOWN, notes, self._options)
        self._withheld[relay].update((key, note.reason) for key, note in notes.items())
        self.drop(relay, notes)

    def was_cut(self, relay: str, ids: Collection[bytes]) -> None:
        """Note ids of a REQ that was sent, and that ended before all events came."""
        self._cut[relay].update(ids)

    async def note_cut(self, relay: str) -> None:
        """Remember the ids that the relay was asked for and did not send by the end of this run.

        Without this note, every run would ask a relay that always breaks the connection for the
        same ids.
        """
        ids = self._cut[relay] - self._had - self._withheld[relay].keys()
        if ids:
            place = self._places[relay]
            await self._memory.note(place, Side.DOWN, dict.fromkeys(ids, CUT), self._options)

    def drop(self, relay: str, ids: Collection[bytes]) -> None:
        """Pass ids that this relay cannot give now to the other relays that named them."""
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
        """Return ids of a failed request. The next free relay may ask for them again."""
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

    def leave(self, relay: str) -> None:
        """Remove a relay from the run. Its ids pass to the other relays."""
        owed = [key for key, want in self._wants.items() if relay in want.names]
        self._owed[relay].update(owed)
        self.drop(relay, owed)
        self._queues[relay].clear()
        self.brought(relay)

    async def served(self, relay: str) -> None:
        """Wait until no id that this relay named is open. Safe to cancel."""
        await self._gate.wait(lambda: self._open[relay] == 0)

    def brought(self, relay: str) -> None:
        """Note that the relay brings nothing more in this run."""
        self._bringing.discard(relay)
        self._gate.wake()

    async def all_brought(self) -> None:
        """Wait until no relay brings anything more. Safe to cancel."""
        await self._gate.wait(lambda: not self._bringing)

    def missing(self, relay: str) -> Missing:
        """Return what the relay named and the store still lacks, whichever relay was asked."""
        skipped = self._still(self._skipped.get(relay, {}))
        lacking = skipped | self._still(self._withheld.get(relay, {}))
        owed = self._owed.get(relay, set()) - self._had - lacking.keys()
        return Missing(dict(Counter(lacking.values())), len(skipped), len(owed))

    def _still(self, ids: Mapping[bytes, str]) -> dict[bytes, str]:
        return {key: why for key, why in ids.items() if key not in self._had}

    async def forget_moved(self) -> None:
        """Let the memory forget ids that earlier runs did not get and this run got."""
        for relay, due in self._due.items():
            if moved := due & self._had:
                await self._memory.forget(self._places[relay], Side.DOWN, moved)
