"""Remember verdicts on events, and filters that a relay refuses by NIP-77, between syncs.

Entries are for a relay and a key with which the sync can sign AUTH, because a relay may answer
another key differently. Only a verdict about the event itself (`UNFIT`) is valid for every relay.
The store itself knows which events its rules refused.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from nostr_client.codecs.reasons import Reason, classify, means_superseded
from nostr_client.store.sqlite import SqliteStore
from nostr_client.store.sync_memory import TriedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import EventStore
    from nostr_client.sync.options import SyncOptions


class Verdict(StrEnum):
    """Why an event that differs is not moved now."""

    REFUSED = "refused"  # `invalid:`, `pow:`: the event itself is refused
    BLOCKED = "blocked"  # `blocked:`: a rule of the relay refused it, and the rule may change
    FAILED = "failed"  # every other refusal of an upload
    # sent, but no OK came, because the connection ended or the relay is silent
    UNANSWERED = "unanswered"
    WITHHELD = "withheld"  # the relay named the id and did not send a matching event
    PRESENT = "present"  # `duplicate:`: the relay has the event and does not list it
    SUPERSEDED = "superseded"  # the relay has a newer version
    UNFIT = "unfit"  # the store cannot keep the event, whichever relay sends it


SETTLED: Final = frozenset({Verdict.PRESENT, Verdict.SUPERSEDED, Verdict.UNFIT})
"""Verdicts that leave no work: the two sides are equal by the store's rules."""


class Wait(NamedTuple):
    """Seconds until the next try. `first` is doubled after each further try, up to `longest`."""

    first: float
    longest: float

    def after(self, tries: int) -> float:
        """Return the seconds to wait after `tries` tries."""
        return min(self.longest, self.first * 2.0 ** min(tries - 1, 64))


class RefusalNote(NamedTuple):
    """One verdict, with the relay's reason as text for people."""

    verdict: Verdict
    reason: str = ""


NOT_SENT: Final = RefusalNote(Verdict.WITHHELD, "named and not sent")
UNASKED: Final = RefusalNote(Verdict.WITHHELD, "sent, but no filter matches them")
UNSOUND: Final = RefusalNote(Verdict.WITHHELD, "sent, but their events do not hold")
BROKE: Final = RefusalNote(
    Verdict.WITHHELD, "asked for when a frame of the relay ended the connection"
)
CUT: Final = RefusalNote(
    Verdict.WITHHELD, "asked for when the connection ended, or not answered in time"
)


class RememberedTries(NamedTuple):
    """Entries for some ids: those that must wait, and those that are due for another try."""

    waiting: dict[bytes, RefusalNote]
    due: set[bytes]


def upload_verdict(reason: str) -> Verdict:
    """Return the verdict for the reason of an `OK … false` (NIP-01)."""
    if means_superseded(reason):
        return Verdict.SUPERSEDED
    return _UPLOADS.get(classify(reason), Verdict.FAILED)


_UPLOADS: Final = {
    Reason.INVALID: Verdict.REFUSED,
    Reason.POW: Verdict.REFUSED,
    Reason.BLOCKED: Verdict.BLOCKED,
    Reason.DUPLICATE: Verdict.PRESENT,
}


def wait_of(verdict: Verdict, options: SyncOptions) -> Wait:
    """Return how long a verdict is valid."""
    if verdict in (Verdict.REFUSED, Verdict.UNFIT):
        return Wait(options.settled_ttl, options.settled_ttl)
    if verdict in (Verdict.BLOCKED, Verdict.PRESENT, Verdict.SUPERSEDED):
        return Wait(options.recheck_ttl, options.recheck_ttl)
    return retry_wait(options)


def retry_wait(options: SyncOptions) -> Wait:
    """Return the wait before a later try that may well succeed."""
    return Wait(options.retry_first, options.retry_longest)


_MOST: Final = 200_000
"""Most events in a memory without a store, about 40 MB. The memory is cleared beyond that."""

_SCOPE_SHOWN: Final = 200
"""Most characters of a filter in the table. A longer filter is stored as a hash."""

NIP77: Final = ""
"""Scope of a refusal of NIP-77 itself. Any other scope names a filter."""


class Side(IntEnum):
    """Direction of an event: to the store (DOWN) or to the relay (UP)."""

    DOWN = 0
    UP = 1


class RelayAndKey(NamedTuple):
    """A relay (normalised URL), and the key (hex, "" for none) for which it answers."""

    relay: str
    key: str = ""


ANYWHERE: Final = RelayAndKey("")


def place_of(relay: Relay) -> RelayAndKey:
    """Return the relay with the sync's own key."""
    return RelayAndKey(relay.url, relay.pubkey or "")


def scope_of(filter: Filter) -> str:
    """Return the scope of a refusal of one filter: JSON without times, or a hash of a long one."""
    text = filter.replace(since=None, until=None).to_json()
    return text if len(text) <= _SCOPE_SHOWN else f"sha256:{sha256(text.encode()).hexdigest()}"


class SyncMemory(Protocol):
    """Memory of a sync, as the module describes. Reasons are text for people."""

    async def refusal(self, place: RelayAndKey, scope: str) -> str | None:
        """Return why not to ask NIP-77 for this scope or at all now, or None to ask."""
        ...

    async def refuse(self, place: RelayAndKey, scope: str, reason: str, wait: Wait) -> None:
        """Note that the relay does not compare this scope by NIP-77."""
        ...

    async def compares(self, place: RelayAndKey, scope: str) -> None:
        """Note that the relay compared this scope. Earlier refusals of the scope end."""
        ...

    async def recall(self, place: RelayAndKey, side: Side, ids: Sequence[bytes]) -> RememberedTries:
        """Return the entries for these ids on this relay, or anywhere."""
        ...

    async def note(
        self,
        place: RelayAndKey,
        side: Side,
        notes: Mapping[bytes, RefusalNote],
        options: SyncOptions,
    ) -> None:
        """Store verdicts.

        Each further verdict on the same id doubles its wait, up to the longest.
        """
        ...

    async def forget(self, place: RelayAndKey, side: Side, ids: Collection[bytes]) -> None:
        """Forget ids whose events have moved."""
        ...


class _Row(NamedTuple):
    note: RefusalNote
    tries: int
    until: float


class LocalMemory:
    """Remembers until the process ends. `now` gives Unix seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._refusals: dict[tuple[RelayAndKey, str], tuple[str, int, float]] = {}
        self._events: dict[tuple[RelayAndKey, Side, bytes], _Row] = {}

    async def refusal(self, place: RelayAndKey, scope: str) -> str | None:
        for one in (NIP77, scope):
            reason, _, until = self._refusals.get((place, one), (None, 0, 0.0))
            if reason is not None and self._now() < until:
                return reason
        return None

    async def refuse(self, place: RelayAndKey, scope: str, reason: str, wait: Wait) -> None:
        _, tries, _ = self._refusals.get((place, scope), ("", 0, 0.0))
        until = self._now() + wait.after(tries + 1)
        self._refusals[place, scope] = (reason, tries + 1, until)

    async def compares(self, place: RelayAndKey, scope: str) -> None:
        for one in (NIP77, scope):
            self._refusals.pop((place, one), None)

    async def recall(self, place: RelayAndKey, side: Side, ids: Sequence[bytes]) -> RememberedTries:
        found = RememberedTries({}, set())
        now = self._now()
        for key in ids:
            for one in (place, ANYWHERE):
                if row := self._events.get((one, side, key)):
                    _sort(found, key, row.note, row.until > now)
        return found

    async def note(
        self,
        place: RelayAndKey,
        side: Side,
        notes: Mapping[bytes, RefusalNote],
        options: SyncOptions,
    ) -> None:
        if len(self._events) + len(notes) > _MOST:
            self._events.clear()
        now = self._now()
        for key, one in notes.items():
            before = self._events.get((place, side, key))
            tries = (before.tries if before else 0) + 1
            until = now + wait_of(one.verdict, options).after(tries)
            self._events[place, side, key] = _Row(one, tries, until)

    async def forget(self, place: RelayAndKey, side: Side, ids: Collection[bytes]) -> None:
        for key in ids:
            self._events.pop((place, side, key), None)


class StoredMemory:
    """Remembers in the store's own file. `now` gives Unix seconds."""

    def __init__(self, table: TriedTable, now: Callable[[], float]) -> None:
        self._table = table
        self._now = now

    async def refusal(self, place: RelayAndKey, scope: str) -> str | None:
        return await self._table.refusal(*place, scope, int(self._now()))

    async def refuse(self, place: RelayAndKey, scope: str, reason: str, wait: Wait) -> None:
        await self._table.refuse(*place, scope, reason, int(self._now()), _seconds(wait))

    async def compares(self, place: RelayAndKey, scope: str) -> None:
        await self._table.compares(*place, scope)

    async def recall(self, place: RelayAndKey, side: Side, ids: Sequence[bytes]) -> RememberedTries:
        found = RememberedTries({}, set())
        now = int(self._now())
        for key, row in (await self._table.tried((place, ANYWHERE), side, ids)).items():
            _sort(found, key, RefusalNote(Verdict(row.verdict), row.reason), row.until > now)
        return found

    async def note(
        self,
        place: RelayAndKey,
        side: Side,
        notes: Mapping[bytes, RefusalNote],
        options: SyncOptions,
    ) -> None:
        rows = {
            key: (str(one.verdict), one.reason, _seconds(wait_of(one.verdict, options)))
            for key, one in notes.items()
        }
        await self._table.note(place, side, rows, int(self._now()))

    async def forget(self, place: RelayAndKey, side: Side, ids: Collection[bytes]) -> None:
        await self._table.forget(place, side, ids)


def _sort(found: RememberedTries, key: bytes, note: RefusalNote, waits: bool) -> None:
    if waits:
        found.waiting[key] = note
    else:
        found.due.add(key)


def _seconds(wait: Wait) -> tuple[int, int]:
    return max(1, int(wait.first)), max(1, int(wait.longest))


def memory_of(store: EventStore | None, now: Callable[[], float]) -> SyncMemory:
    """Return a memory in the store's file if the store is a writable SQLite store, else a local
    one.
    """
    if isinstance(store, SqliteStore) and not store.database.read_only:
        return StoredMemory(TriedTable(store.database), now)
    return LocalMemory(now)
