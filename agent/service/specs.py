"""Which watches and syncs there are: the file's, and those that the API added to the store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from agent import stored
from agent.api.backend import Refusal, not_found, read_only
from agent.specs import SyncSpec, WatchSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agent.clock import Clock
    from agent.journal import Journal
    from nostr_client.store.database import Database

S = TypeVar("S", WatchSpec, SyncSpec)

MOST = 5000
"""Watches, or syncs, that the API may add."""


class Specs(Generic[S]):
    """One kind of specs by name; the file's win over stored ones of the same name."""

    def __init__(self, kind: str, type_: type[S], database: Database, clock: Clock) -> None:
        self._kind = kind
        self._type: type[S] = type_
        self._database = database
        self._clock = clock
        self._file: dict[str, S] = {}
        self._stored: dict[str, S] = {}
        self._changing = asyncio.Lock()

    async def load(self, file: Iterable[S], journal: Journal) -> None:
        """Take the file's, and read the stored ones; those that cannot be read are told."""
        self._file = {one.name: one for one in file}
        self._stored = {}
        at = self._clock.wall()
        await self._database.write(lambda c: stored.take_file(c, self._file.values(), at))
        for text in await self._database.read(lambda c: stored.specs(c, self._kind)):
            try:
                one = msgspec.json.decode(text, type=self._type)
            except msgspec.MsgspecError as error:
                journal.error("stored_spec", kind=self._kind, why=str(error))
                continue
            if one.name in self._file:
                journal.warning("shadowed", kind=self._kind, name=one.name)
                continue
            self._stored[one.name] = one

    def all(self) -> Mapping[str, tuple[S, str]]:
        """Every spec with its origin, by name."""
        file = {name: (one, "file") for name, one in self._file.items()}
        return {**{name: (one, "api") for name, one in self._stored.items()}, **file}

    async def add(self, spec: S) -> None:
        """Keep a new one. Raises Refusal for a name that is taken, and when there are too many."""
        async with self._changing:
            if spec.name in self._file or spec.name in self._stored:
                raise Refusal(409, "duplicate", f"there is a {self._kind} called {spec.name}")
            if len(self._stored) >= MOST:
                raise Refusal(409, "too_many", f"there are {MOST} already")
            await self._put(spec)

    async def change(self, spec: S) -> None:
        """Replace a stored one. Raises Refusal."""
        async with self._changing:
            self._check_stored(spec.name)
            await self._put(spec)

    async def remove(self, name: str) -> None:
        """Remove a stored one, with its history. Raises Refusal."""
        async with self._changing:
            self._check_stored(name)
            await self._database.write(lambda c: stored.remove_spec(c, self._kind, name))
            self._stored.pop(name, None)

    def _check_stored(self, name: str) -> None:
        """Raise Refusal unless the API may change what is called so."""
        if name in self._file:
            raise read_only(f"{self._kind} {name}")
        if name not in self._stored:
            raise not_found(f"{self._kind} {name}")

    async def _put(self, spec: S) -> None:
        at = self._clock.wall()
        await self._database.write(lambda c: stored.put_spec(c, self._kind, spec, at))
        self._stored[spec.name] = spec
