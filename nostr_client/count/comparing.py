"""What a relay holds for a filter, found by negentropy from what it held when it was last read.

Only what came since is downloaded, and what is gone shows, without reading everything again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nostr_client.errors import (
    DeadlineExceeded,
    NetworkError,
    ProtocolError,
    RelayRefused,
    Unsupported,
)
from nostr_client.sync.items import LocalItems
from nostr_client.sync.options import SyncOptions
from nostr_client.sync.talk import Kind, Refusal
from nostr_client.sync.windowrun import Bargain
from nostr_client.sync.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nostr_client.claims import Held
    from nostr_client.filters import Filter
    from nostr_client.relay import Relay
    from nostr_client.sync.talk import Learned

_PATIENCE: Final = 2.0
"""Seconds for the first answer: a relay that does not know NIP-77 is read by pages instead."""

_NO_NIP77: Final = (Kind.UNSUPPORTED, Kind.BROKEN)


class Differences:
    """What the relay has beyond what is held (`need`), and what it has no more (`gone`)."""

    def __init__(self) -> None:
        self.need: dict[bytes, None] = {}
        self.gone: set[bytes] = set()


async def compare(
    relay: Relay, filter: Filter, held: Iterable[Held], *, most: int, silence: float
) -> Differences | None:
    """One NIP-77 session; None where the relay cannot, or names more than `most` new ids.

    `silence`: seconds between its messages. What it showed is learnt. Safe to cancel.
    """
    if relay.capabilities.negentropy is False:
        return None
    found = Differences()

    async def learn(heard: Learned) -> int:
        before = len(found.need) + len(found.gone)
        found.need.update(dict.fromkeys(heard.need))
        found.gone.update(heard.have)
        if len(found.need) > most:
            raise ProtocolError(f"more than {most} ids", relay=relay.url)
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
        refusal = await bargain.run()
    except DeadlineExceeded as error:
        refusal = Refusal(Kind.FAULT if bargain.rounds else Kind.UNSUPPORTED, str(error))
    except Unsupported as error:
        refusal = Refusal(Kind.UNSUPPORTED, str(error))
    except (NetworkError, ProtocolError, RelayRefused) as error:
        refusal = Refusal(Kind.FAULT, str(error))
    if refusal is not None and refusal.kind in _NO_NIP77:
        relay.learn(negentropy=False)
    return None if refusal is not None else found


def _items(held: Iterable[Held]) -> LocalItems:
    rows = sorted((one.created_at, one.id) for one in held)
    stamps = np.fromiter((stamp for stamp, _ in rows), np.uint64, len(rows))
    ids = np.frombuffer(b"".join(key for _, key in rows), np.uint8)
    return LocalItems(stamps, ids.reshape(len(rows), 32))
