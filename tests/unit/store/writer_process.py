"""A process that saves events from a file in batches and tells each one that is acknowledged.

Run as `python -m tests.unit.store.writer_process STORE EVENTS START SEED [HARM]`. Prints the
index after each batch that `save` returned for, and the error that ended it. HARM: `limit=BYTES`
caps the size of files from now on; `swap=SUFFIX` lets writes to the store's file with that suffix
fail from the sixth batch on, until one save has failed.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import sys
from pathlib import Path

from nostr_client.codecs.event import parse_event
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.errors import StoreError
from nostr_client.store.options import StoreOptions
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW


class Swap:
    """A file that can be read and not written, behind the descriptors that SQLite has of it."""

    def __init__(self, path: Path) -> None:
        self._saved = [(fd, os.dup(fd)) for fd in _descriptors(path)]
        assert self._saved, f"{path} is not open"
        other = os.open(path, os.O_RDONLY)
        for fd, _ in self._saved:
            os.dup2(other, fd)

    def undo(self) -> None:
        for fd, kept in self._saved:
            os.dup2(kept, fd)


def _descriptors(path: Path) -> list[int]:
    folder = Path("/proc/self/fd")
    return [int(n) for n in os.listdir(folder) if os.path.realpath(folder / n) == str(path)]


def swap(store: Path, harm: str) -> Swap:
    return Swap(store.with_name(store.name + harm.split("=")[1]))


def tell(line: str) -> None:
    sys.stdout.write(line.replace("\n", " ") + "\n")
    sys.stdout.flush()


async def main(path: Path, events: list[VerifiedEvent], start: int, seed: int, harm: str) -> None:
    rng = random.Random(seed)
    options = StoreOptions(wal_autocheckpoint=100, readers=1)
    swapped: Swap | None = None
    async with await SqliteStore.open(path, clock=lambda: NOW, options=options) as store:
        tell("open")
        if harm.startswith("limit"):
            size = int(harm.split("=")[1])
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        batches = 0
        while start < len(events):
            end = start + rng.randint(1, 8)
            if harm.startswith("swap") and batches == 5 and swapped is None:
                swapped = swap(path, harm)
            try:
                await store.save(events[start:end])
            except StoreError as error:
                tell(f"{type(error).__name__} {error}")
                if swapped is None:
                    return
                swapped.undo()
                continue
            batches += 1
            start = min(end, len(events))
            tell(str(start))


if __name__ == "__main__":
    store_path, events_path, first, number, *rest = sys.argv[1:]
    lines = Path(events_path).read_bytes().splitlines()
    loaded = [VerifiedEvent(parse_event(line)) for line in lines]
    asyncio.run(main(Path(store_path), loaded, int(first), int(number), "".join(rest)))
