"""Holds the current watches and syncs: the file's, and those that the API added to the store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from agent import state
from agent.api.schema import ApiRefusal, not_found, read_only
from agent.config.load import taken
from agent.specs import SyncSpec, in_words
from nostr_client.codecs.display import seconds
from nostr_client.errors import clip
from nostr_client.watch.definition import LEAST, Watch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from agent.log import Log
    from nostr_client.store.file.database import Database
    from nostr_client.watch.clock import Clock

S = TypeVar("S", Watch, SyncSpec)

MOST = 5000
"""Watches, or syncs, that the API may add."""


class Specs(Generic[S]):
    """One kind of specs by name: the file's, and stored ones, which keep their names."""

    def __init__(self, kind: str, type_: type[S], database: Database, clock: Clock) -> None:
        self._kind = kind
        self._type: type[S] = type_
        self._database = database
        self._clock = clock
        self._file: dict[str, S] = {}
        self._stored: dict[str, S] = {}
        self._left_out: dict[str, S] = {}
        self._changing = asyncio.Lock()

    async def load(self, file: Collection[S], log: Log) -> None:
        """Take the specs of the file, and read the stored ones; log those that cannot be read.

        A spec of the file with the name of a stored one is left out, and logged.
        """
        async with self._changing:
            await self._take(file)
            await self._read(log)
        for name in self._left_out:
            log.error("name_taken", kind=self._kind, name=name, why=taken(self._kind, name))

    async def _take(self, file: Collection[S]) -> None:
        names = await self._database.write(lambda c: state.take_file(c, self._kind, file))
        self._file = {one.name: one for one in file if one.name not in names}
        self._left_out = {one.name: one for one in file if one.name in names}

    async def _read(self, log: Log) -> None:
        self._stored = {}
        for text in await self._database.read(lambda c: state.specs(c, self._kind)):
            try:
                one = msgspec.json.decode(text, type=self._type)
            except msgspec.MsgspecError as error:
                name, why = _unreadable(text, error)
                log.error("stored_spec", kind=self._kind, name=name, why=why)
                continue
            if seconds(one.interval) < seconds(LEAST):  # a version that took any added it
                log.warning("interval", kind=self._kind, name=one.name, least=LEAST)
                one = msgspec.structs.replace(one, interval=LEAST)
            self._stored[one.name] = self._without_commands(one, log)

    def _without_commands(self, one: S, log: Log) -> S:
        """A stored spec without alert commands, which only the configuration file may name.

        An earlier version took them from the API. An alert that has no webhook either is left out.
        """
        if not isinstance(one, Watch) or not any(alert.command for alert in one.alerts):
            return one
        why = "alert commands come from the configuration file alone: this one is left out"
        log.warning("alert_command", name=one.name, why=why)
        kept = [msgspec.structs.replace(a, command=()) for a in one.alerts if a.webhook]
        return msgspec.structs.replace(one, alerts=tuple(kept))

    def reasons(self) -> list[str]:
        """What of the file is left out, and why."""
        return [
            f"the {self._kind} {name} of the configuration is left out: {taken(self._kind, name)}"
            for name in self._left_out
        ]

    def all(self) -> Mapping[str, tuple[S, str]]:
        """Every spec with its origin, by name."""
        file = {name: (one, "file") for name, one in self._file.items()}
        return {**{name: (one, "api") for name, one in self._stored.items()}, **file}

    async def add(self, spec: S) -> None:
        """Store a new one. Raises ApiRefusal for a taken name, and when there are too many."""
        async with self._changing:
            if spec.name in self._file or spec.name in self._stored:
                raise ApiRefusal(409, "duplicate", f"there is a {self._kind} called {spec.name}")
            if len(self._stored) >= MOST:
                raise ApiRefusal(409, "too_many", f"there are {MOST} already")
            await self._put(spec)

    async def change(self, spec: S) -> None:
        """Replace a stored one. Raises ApiRefusal."""
        async with self._changing:
            self._check_stored(spec.name)
            await self._put(spec)

    async def remove(self, name: str) -> None:
        """Remove a stored one, with its history. Raises ApiRefusal.

        One of the file that was left out for its name comes in.
        """
        async with self._changing:
            self._check_stored(name)
            await self._database.write(lambda c: state.remove_spec(c, self._kind, name))
            self._stored.pop(name, None)
            await self._take({**self._file, **self._left_out}.values())

    def _check_stored(self, name: str) -> None:
        """Raise ApiRefusal unless the API may change what is called so."""
        if name in self._file:
            raise read_only(f"{self._kind} {name}")
        if name not in self._stored:
            raise not_found(f"{self._kind} {name}")

    async def _put(self, spec: S) -> None:
        at = self._clock.wall()
        await self._database.write(lambda c: state.put_spec(c, self._kind, spec, at))
        self._stored[spec.name] = spec


def _unreadable(text: str, error: msgspec.MsgspecError) -> tuple[str, str]:
    """The name of a stored spec that is left out, and why in words."""
    fields = msgspec.json.decode(text, type=dict[str, Any])
    name, why = clip(str(fields.get("name", ""))), fields.get("unreadable") or in_words(str(error))
    remedy = "another name will do: nostr-client watch remove, then add, while no agent runs"
    return name, f"{why}; {remedy}" if "$.name" in str(error) else str(why)
