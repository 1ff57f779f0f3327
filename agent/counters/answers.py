"""From what another agent answers to what the counters take. Pure; nothing of it is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.counters import lineage
from nostr_client.counters.engine.take import Batch, check_batch
from nostr_client.counters.lineage import KEPT_RUNS, Head
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.api.schema import Messages

LONGEST_ID: Final = 64
"""Characters of the id of a store, an epoch or a run."""

MOST_SEQ: Final = 2**53


def batch_of(found: Messages, stream: str, after: int, *, whole: bool) -> Batch:
    """One answer as a batch. Raises InvalidInput for one that cannot be."""
    if found.stream != stream:
        raise InvalidInput("it answered for another stream")
    ways = lineage.checked(found.lineage, lineage.node(stream, found.store))
    arrivals = found.messages
    if found.more and not arrivals:
        raise InvalidInput("it has more, and shows nothing")
    upto = arrivals[-1].seq if found.more else max(found.last_seq, 0)
    batch = Batch(_head(found), arrivals, upto, whole, ways, after)
    check_batch(batch)
    return batch


def _head(found: Messages) -> Head:
    ids = [found.store, found.epoch, *(run for run, _ in found.runs)]
    numbers = [found.first_seq, found.last_seq, *(seq for _, seq in found.runs)]
    if not all(0 < len(id) <= LONGEST_ID and id.isprintable() for id in ids):
        raise InvalidInput("it says no ids")
    if not all(0 <= n <= MOST_SEQ for n in numbers) or len(found.runs) > KEPT_RUNS:
        raise InvalidInput("its numbers cannot be")
    return Head(found.store, found.epoch, found.first_seq, found.last_seq, found.runs)


def joined(batches: Sequence[Batch]) -> Batch:
    """Pages of the newest of every subject as one: of a subject that came twice the later one.

    Raises InvalidInput where the stream was put back or made anew in between.
    """
    first, last = batches[0], batches[-1]
    if any(batch.head.key != first.head.key for batch in batches):
        raise InvalidInput("it changed while it was read")
    newest = {one.subject: one for batch in batches for one in batch.arrivals}
    return last._replace(arrivals=tuple(newest.values()), after=0)
