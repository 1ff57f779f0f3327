"""The relay's second path, which counts for all relays: COUNT is answered with merged numbers.

It takes and serves no events: `/` does. Numbers come from a `MergedNumbers`, and a question that it
does not know is refused, so that the store's own number never stands in for a merged one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from agent.relay.outputs import MergedJob
from agent.relay.session import ServerSession
from agent.relay.visibility import QUERY_S
from nostr_client.codecs.messages import (
    Auth,
    Close,
    Closed,
    Count,
    NegClose,
    NegErr,
    NegMsg,
    NegOpen,
    Ok,
    Publish,
    Req,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.relay.outputs import Output
    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.messages import ClientMessage, CountAnswer

PATH: Final = "/merged"
"""Where the merged numbers are, below the relay's own URL."""

ONLY_COUNTS: Final = f"this relay only counts; events are at the same address without {PATH}"
PRIVATE: Final = "restricted: private messages are not counted here"


class MergedNumbers(Protocol):
    """What knows the merged numbers."""

    @property
    def is_on(self) -> bool:
        """Whether there is anything to count."""
        ...

    async def answer(self, filters: Sequence[Filter]) -> CountAnswer:
        """Return the merged number of the union of `filters`, with an empty query id.

        Raises Refused for what has no merged number, and StoreError.
        """
        ...


class MergedSession(ServerSession):
    """One client's connection to the path: it counts, and refuses everything else."""

    def _dispatch(self, message: ClientMessage) -> list[Output]:
        match message:
            case Count():
                return self._count_merged(message)
            case Close() | NegClose():
                return []
            case Publish():
                reason = f"blocked: {ONLY_COUNTS}"
                return [Ok(message.event.id, accepted=False, message=reason).to_json()]
            case Auth():
                reason = f"restricted: {ONLY_COUNTS}"
                return [Ok(message.event.id, accepted=False, message=reason).to_json()]
            case Req():
                return [Closed(message.sub_id, f"unsupported: {ONLY_COUNTS}").to_json()]
            case NegOpen() | NegMsg():
                return [NegErr(message.sub_id, f"unsupported: {ONLY_COUNTS}").to_json()]

    def _count_merged(self, message: Count) -> list[Output]:
        refusal = self._filters_refusal(message.filters)
        if self.viewer.refusal(message.filters):  # nobody proves a key here
            refusal = PRIVATE
        if refusal:
            return [Closed(message.query_id, refusal).to_json()]
        return [MergedJob(message.query_id, message.filters)]


async def answered(job: MergedJob, numbers: MergedNumbers) -> list[Output]:
    """Return the frame that answers a COUNT. Raises Refused, StoreError, TimeoutError."""
    async with asyncio.timeout(QUERY_S):
        found = await numbers.answer(job.filters)
    return [msgspec.structs.replace(found, query_id=job.query_id).to_json()]
