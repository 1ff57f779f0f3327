"""What a relay holds for a filter, found by negentropy from what it held when it was last read.

Only what came since is downloaded, and what is gone shows, without reading everything again. The
relay's answer may come from a capped or an old snapshot, so nothing is believed that it leaves
out: an id is gone when a REQ by ids does not bring it, and a REQ at each end shows whether the
snapshot reaches as far as the relay's events do. Below the floor of a capped one the next session
begins.
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
from nostr_client.sync.initiator import Kind, Refusal
from nostr_client.sync.items import LocalItems
from nostr_client.sync.options import SyncOptions
from nostr_client.sync.session import Bargain
from nostr_client.sync.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.network.paging.snapshot import Proof
    from nostr_client.network.relay import Relay
    from nostr_client.sync.initiator import Learned

MOST_SESSIONS: Final = 64
"""Sessions of one comparison: a snapshot of 500 still reaches through 32,000 events."""

_PATIENCE: Final = 2.0
"""Seconds for the first answer: a relay that does not know NIP-77 is read by pages instead."""

_NO_NIP77: Final = (Kind.UNSUPPORTED, Kind.BROKEN)


class Differences:
    """What the relay named beyond what is held (`need`), and what it did not name (`gone`).

    `refusal`: why the session did not come to its end; None where it did. `full`: because the relay
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
    """One NIP-77 session, which ends early where the relay names more than `most` new ids.

    `held`: times by id. `silence`: seconds between its messages. What it showed is learnt. Safe to
    cancel.
    """
    found = Differences()
    if relay.capabilities.negentropy is False:
        found.refusal = Refusal(Kind.UNSUPPORTED, "no NIP-77")
        return found

    async def learn(heard: Learned) -> int:
        before = len(found.need) + len(found.gone)
        found.need.update(dict.fromkeys(heard.need))
        found.gone.update(heard.have)
        if len(found.need) > most:
            found.full = True
            raise ProtocolError(f"more than {plural(most, 'id')}", relay=relay.url)
        return len(found.need) + len(found.gone) - before

    options = SyncOptions(answer=_PATIENCE, progress=silence)
    bargain = Bargain(
        relay,
        Window(filter.replace(limit=None), _items(held)),
        options,
        frame_bytes=options.frame_bytes,
        learn=learn,
        begun=lambda: relay.learn(negentropy=True),
    )
    try:
        found.refusal = await bargain.run()
    except DeadlineExceeded as error:
        unasked = relay.held_back() is not None  # our own budget held it back: it was not asked
        kind = Kind.FAULT if bargain.rounds or unasked else Kind.UNSUPPORTED
        found.refusal = Refusal(kind, str(error))
    except Unsupported as error:
        found.refusal = Refusal(Kind.UNSUPPORTED, str(error))
    except (NetworkError, ProtocolError, RelayRefused) as error:
        found.refusal = Refusal(Kind.FAULT, str(error))
    if found.refusal is not None and found.refusal.kind in _NO_NIP77:
        relay.learn(negentropy=False)
    return found


class Source(Protocol):
    """What a comparison needs of its reader: events by id, and the room for what comes."""

    async def fetch(self, ids: Sequence[bytes]) -> dict[bytes, int] | None:
        """Download events by id; their times by id. None where the budget or the relay ends it."""
        ...

    async def take(self, proof: Proof) -> None:
        """Take in the events that a proof brought, and what it cost."""
        ...


class Comparison:
    """The comparison of what is held of a filter with a relay that speaks NIP-77.

    `held`: times by id. `most`: new ids that one session may name. `silence`: seconds between
    messages. `largest`: the largest page that the relay is known to have sent. After `run` gave
    True, `gone` are the held ids that the relay has no more. Everything else that is held it still
    has, and what it has beyond that went through `source`.
    """

    def __init__(
        self,
        relay: Relay,
        filter: Filter,
        held: Mapping[bytes, int],
        source: Source,
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
        """Compare from the newest event down; True where it is proven what the relay holds.

        Raises RelayError. Safe to cancel: what came is with `source`.
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
            # The snapshot is capped: what lies below its floor is compared by the next session.
            until = floor.second
            if not await self._look_for(key for key in lacking if self._known[key] > until):
                return False
        return False

    async def _session(
        self, window: Filter, inside: Mapping[bytes, int]
    ) -> dict[bytes, int] | None:
        """What the relay named for a window, times by id; None where that is not known."""
        found = await compare(self._relay, window, inside, most=self._most, silence=self._silence)
        came = None if found.refusal else await self._source.fetch(list(found.need))
        if came is None:
            return None
        self._known |= came
        if found.need.keys() - came.keys():
            return None  # it names what it does not send
        return {key: at for key, at in inside.items() if key not in found.gone} | came

    async def _top(self, window: Filter, named: dict[bytes, int]) -> bool:
        """Take in what is newer than the snapshot; whether all of it came."""
        ceiling = Edge.highest((at, key) for key, at in named.items())
        if ceiling is None:
            return True  # the question for the floor is the same
        proof = await prove_ceiling(self._relay, window, ceiling, largest=self._largest)
        named |= await self._take(proof)
        return proof.whole

    async def _take(self, proof: Proof) -> dict[bytes, int]:
        await self._source.take(proof)
        beyond = {bytes.fromhex(one.event.id): one.event.created_at for one in proof.beyond}
        self._known |= beyond
        return beyond

    async def _look_for(self, lacking: Iterable[bytes]) -> bool:
        """Ask by id for what the relay did not name: what does not come is gone."""
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
