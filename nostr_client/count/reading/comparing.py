"""Find what a relay has for a filter, by negentropy from its known events.

Only new events are downloaded, and removals show, without reading everything again. The relay's
answer may come from a capped or an old snapshot, so an omission alone proves nothing: an id is gone
if a REQ by ids does not return it, and a REQ at each end shows whether the snapshot covers the
relay's events. The next session begins below the floor of a capped snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from nostr_client.codecs.display import plural
from nostr_client.errors import (
    DeadlineExceeded,
    NetworkError,
    ProtocolError,
    RelayRefused,
    Unsupported,
)
from nostr_client.network.paging.snapshot import Edge, prove_ceiling, prove_floor
from nostr_client.sync.compare.initiator import Refusal, RefusalKind
from nostr_client.sync.compare.items import LocalItems
from nostr_client.sync.compare.session import WindowSession
from nostr_client.sync.compare.windows import SyncWindow
from nostr_client.sync.options import SyncOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.network.paging.snapshot import Proof
    from nostr_client.network.relay import Relay
    from nostr_client.sync.compare.initiator import LearnedIds

MOST_SESSIONS: Final = 64
"""Sessions of one comparison: with a snapshot of 500 they cover 32,000 events."""

_PATIENCE: Final = 2.0
"""Seconds for the first answer: a relay that does not know NIP-77 is read by pages instead."""

_NO_NIP77: Final = (RefusalKind.UNSUPPORTED, RefusalKind.BROKEN)


class Differences:
    """Ids that the relay named beyond the known ones (`need`), and known ids that it did not name
    (`gone`).

    `refusal`: why the session did not come to its end; None if it did. `full`: because the relay
    names more than is wanted.
    """

    def __init__(self) -> None:
        self.need: dict[bytes, None] = {}
        self.gone: set[bytes] = set()
        self.refusal: Refusal | None = None
        self.full = False


async def compare(
    relay: Relay, filter: Filter, held: Mapping[bytes, int], *, most: int, silence: float
) -> Differences:
    """Run one NIP-77 session; it ends early if the relay names more than `most` new ids.

    `held`: times by id. `silence`: seconds between its messages. What the relay shows is recorded.
    Safe to cancel.
    """
    found = Differences()
    if relay.capabilities.negentropy is False:
        found.refusal = Refusal(RefusalKind.UNSUPPORTED, "no NIP-77")
        return found

    async def learn(learned: LearnedIds) -> int:
        before = len(found.need) + len(found.gone)
        found.need.update(dict.fromkeys(learned.need))
        found.gone.update(learned.have)
        if len(found.need) > most:
            found.full = True
            raise ProtocolError(f"more than {plural(most, 'id')}", relay=relay.url)
        return len(found.need) + len(found.gone) - before

    options = SyncOptions(answer=_PATIENCE, progress=silence)
    bargain = WindowSession(
        relay,
        SyncWindow(filter.replace(limit=None), _items(held)),
        options,
        frame_bytes=options.frame_bytes,
        learn=learn,
        begun=lambda: relay.learn(negentropy=True),
    )
    try:
        found.refusal = await bargain.run()
    except DeadlineExceeded as error:
        unasked = relay.held_back() is not None  # our own budget held it back: it was not asked
        kind = RefusalKind.FAULT if bargain.rounds or unasked else RefusalKind.UNSUPPORTED
        found.refusal = Refusal(kind, str(error))
    except Unsupported as error:
        found.refusal = Refusal(RefusalKind.UNSUPPORTED, str(error))
    except (NetworkError, ProtocolError, RelayRefused) as error:
        found.refusal = Refusal(RefusalKind.FAULT, str(error))
    if found.refusal is not None and found.refusal.kind in _NO_NIP77:
        relay.learn(negentropy=False)
    return found


class ComparedEvents(Protocol):
    """The reader's part in a comparison: events by id, and storage for them."""

    async def fetch(self, ids: Sequence[bytes]) -> dict[bytes, int] | None:
        """Download events by id; return times by id. None if the budget or the relay ends it."""
        ...

    async def take(self, proof: Proof) -> None:
        """Store the events that a proof returned, and its cost."""
        ...


class Comparison:
    """Compares the known events of a filter with a relay that supports NIP-77.

    `held`: times by id. `most`: new ids that one session may name. `silence`: seconds between
    messages. `largest`: the largest page that the relay is known to have sent. After `run` returned
    True, `gone` are the known ids that the relay no longer has. It still has all other known ones,
    and any further events went through `source`.
    """

    def __init__(
        self,
        relay: Relay,
        filter: Filter,
        held: Mapping[bytes, int],
        source: ComparedEvents,
        *,
        most: int,
        silence: float,
        largest: int = 0,
    ) -> None:
        self.gone: set[bytes] = set()
        self._relay = relay
        self._filter = filter
        self._known = dict(held)
        self._source = source
        self._most = most
        self._silence = silence
        self._largest = largest

    async def run(self) -> bool:
        """Compare from the newest event down; return True if it is proven what the relay has.

        Raises RelayError. Safe to cancel: `source` has what arrived.
        """
        until = self._filter.until
        for number in range(MOST_SESSIONS):
            window = self._filter.replace(until=until)
            inside = {k: at for k, at in self._known.items() if until is None or at <= until}
            named = await self._session(window, inside)
            if named is None or not (number or await self._top(window, named)):
                return False
            floor = Edge.lowest((at, key) for key, at in named.items())
            proof = await prove_floor(self._relay, window, floor, largest=self._largest)
            below = await self._take(proof)
            lacking = inside.keys() - named.keys() - below.keys()
            if proof.whole:
                return await self._look_for(lacking)
            if not below or floor is None or floor.second == until:
                return False
            # The snapshot is capped: the next session compares what lies below its floor.
            until = floor.second
            if not await self._look_for(key for key in lacking if self._known[key] > until):
                return False
        return False

    async def _session(
        self, window: Filter, inside: Mapping[bytes, int]
    ) -> dict[bytes, int] | None:
        """Return what the relay named for a window, times by id; None if unknown."""
        found = await compare(self._relay, window, inside, most=self._most, silence=self._silence)
        came = None if found.refusal else await self._source.fetch(list(found.need))
        if came is None:
            return None
        self._known |= came
        if found.need.keys() - came.keys():
            return None  # it names what it does not send
        return {key: at for key, at in inside.items() if key not in found.gone} | came

    async def _top(self, window: Filter, named: dict[bytes, int]) -> bool:
        """Read events newer than the snapshot; return whether all arrived."""
        ceiling = Edge.highest((at, key) for key, at in named.items())
        if ceiling is None:
            return True  # the request for the floor is the same
        proof = await prove_ceiling(self._relay, window, ceiling, largest=self._largest)
        named |= await self._take(proof)
        return proof.whole

    async def _take(self, proof: Proof) -> dict[bytes, int]:
        await self._source.take(proof)
        beyond = {bytes.fromhex(one.event.id): one.event.created_at for one in proof.beyond}
        self._known |= beyond
        return beyond

    async def _look_for(self, lacking: Iterable[bytes]) -> bool:
        """Ask by id for what the relay did not name: what does not arrive is gone."""
        asked = list(lacking)
        came = await self._source.fetch(asked)
        if came is None:
            return False
        self.gone.update(key for key in asked if key not in came)
        return True


def _items(held: Mapping[bytes, int]) -> LocalItems:
    rows = sorted((at, key) for key, at in held.items())
    stamps = np.fromiter((stamp for stamp, _ in rows), np.uint64, len(rows))
    ids = np.frombuffer(b"".join(key for _, key in rows), np.uint8)
    return LocalItems(stamps, ids.reshape(len(rows), 32))
