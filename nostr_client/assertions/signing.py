"""Sign many events with one key: in threads with a key in memory, else a few requests at a time."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from nostr_client.codecs.keys import KeySigner
from nostr_client.network.waiting import task_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nostr_client.codecs.event import EventTemplate
    from nostr_client.codecs.keys import Signer, VerifiedEvent

T = TypeVar("T")

BATCH: Final = 512
"""Events that are signed and recorded at once: about half a megabyte."""

REMOTE: Final = 8
"""Requests to a remote signer at once. A run that fails loses only the signatures of these."""

_CHUNK: Final = 128
"""Events of one call of a thread: libsecp256k1 runs without the GIL, so the loop stays free."""


def batches(values: Iterable[T], signer: Signer) -> Iterator[tuple[T, ...]]:
    """Split values into tuples that `sign_all` signs at once with this signer."""
    most = BATCH if isinstance(signer, KeySigner) else REMOTE
    left = iter(values)
    while some := tuple(islice(left, most)):
        yield some


async def sign_all(signer: Signer, templates: Sequence[EventTemplate]) -> list[VerifiedEvent]:
    """Return the signed events in the order of their templates.

    Raises InvalidEvent, and what a remote signer raises. Safe to cancel: a chunk in a thread ends
    and is dropped.
    """
    async with task_group() as group:
        if isinstance(signer, KeySigner):
            starts = range(0, len(templates), _CHUNK)
            chunks = [
                group.create_task(asyncio.to_thread(signer.sign_many, templates[n : n + _CHUNK]))
                for n in starts
            ]
        else:
            chunks = [group.create_task(_alone(signer, one)) for one in templates]
    return [event for chunk in chunks for event in chunk.result()]


async def _alone(signer: Signer, template: EventTemplate) -> list[VerifiedEvent]:
    return [await signer.sign(template)]
