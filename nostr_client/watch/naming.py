"""Find the profiles (kind 0) of the people whom watches show, so that these have names.

A watch's relays are asked anyway. Each of them is asked only about people whose events it sent, and
about the person whom the watch's question names, so no relay learns of people that it does not
know. The profiles go into the store, where all watches
find them. Whom no relay has a profile of is asked about again a day later.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.count.claims.changes import DAY
from nostr_client.count.queries import person_of
from nostr_client.errors import StoreFull
from nostr_client.network.profiles import PROFILES_S, find_profiles
from nostr_client.watch import people_rows
from nostr_client.watch.engine import NAMES
from nostr_client.watch.scheduler import Task

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from nostr_client.count.queries import Query
    from nostr_client.count.reading.events import Keep
    from nostr_client.network.relay import Relay
    from nostr_client.store.file.database import Database
    from nostr_client.watch.engine import Engine
    from nostr_client.watch.scheduler import Moment
    from nostr_client.watch.state import Watched

LANE: Final = "naming"

SHOWN_S: Final = 30 * DAY
"""Seconds of the past whose people are named: the terminal application shows no older ones."""

MOST_SHOWN: Final = 1_000
"""People of one watch who are named, the newest: no list shows more."""

MOST_ASKED: Final = 100
"""People of one watch whose profiles are asked for in one turn."""

ALERT_S: Final = PROFILES_S
"""Seconds that a text waits for names."""

AGAIN_S: Final = float(DAY)
"""Seconds until a person is asked about again."""

RETRY_S: Final = 600.0
"""The same, where a relay did not answer, or none that can be asked sent an event of theirs."""

MORE_S: Final = 60.0
"""Seconds until the next turn of a watch with more people to ask about."""

REST: Final = 20
"""Pause after reading a watch's people, as a multiple of its duration: 10,000 take a second."""

RENEW_DAYS: Final = 7
"""People seldom change their names. A stored profile is asked for on one day of so many, which its
key decides, so nobody has to store when it was read."""

MOST_HELD: Final = 10_000
"""People who are not asked about again too soon; of more, the first may be."""


class _Lacking(NamedTuple):
    """A person (hex) whose profile may be asked for, and the relays that know the key: they sent
    events of theirs, or are asked a question that names it."""

    pubkey: str
    is_stored: bool
    sources: AbstractSet[str]


class NameFinder:
    """One task for each watch of an engine: it asks for the profiles of people without names.

    `database` has the claims and the events. `keep` stores profiles, with the URL of their relay.
    """

    def __init__(self, engine: Engine, database: Database, keep: Keep) -> None:
        self._engine = engine
        self._worker = engine.worker
        self._database = database
        self._keep = keep
        self._held: dict[str, float] = {}
        """Until when each person is not asked about; seconds of the monotonic clock."""
        self._rests: dict[str, float] = {}
        """Until when the people of each watch are not read; seconds of the monotonic clock."""
        self._worker.runners[NAMES] = self.run
        self._worker.not_awaited.add(NAMES)
        self._worker.sources.append(self)

    def tasks(self) -> list[Task]:
        """Return one task for each watch; its merges bring most of the turns."""
        self._rests = {k: at for k, at in self._rests.items() if k in self._engine.watches}
        return [
            Task(f"{NAMES} {name}", LANE, AGAIN_S, backs_off=False) for name in self._engine.watches
        ]

    async def last(self) -> dict[str, float]:
        """Return the time: nobody is asked about before the watch has asked its relays."""
        now = self._worker.clock.wall()
        return {f"{NAMES} {name}": now for name in self._engine.watches}

    async def find_now(self, name: str) -> None:
        """Find the names of a watch's people now, and wait a few seconds at most."""
        key = f"{NAMES} {name}"
        if self._worker.is_stopping or not self._engine.options.read:
            return
        self._worker.nudge(key)
        with suppress(TimeoutError):
            async with asyncio.timeout(ALERT_S):
                await self._worker.settled({key})

    async def run(self, name: str) -> bool:
        """Ask for the profiles that a watch lacks, the newest people first. Raises StoreError."""
        one = self._engine.watches.get(name)
        if one is None or not self._engine.options.read:
            return True
        key, now = f"{NAMES} {name}", self._worker.clock.moment()
        if now.mono < self._rests.get(name, now.mono):
            self._worker.nudge(key, self._rests[name] - now.mono)
            return True
        lacking = await self._lacking(one, now)
        read = self._worker.clock.moment().mono
        self._rests[name] = read + REST * (read - now.mono)
        due = self._due(lacking, now)
        urls = one.answered.keys() - one.failing.keys()
        due = [p for p in due if not urls.isdisjoint(p.sources)]
        await self._ask(due[:MOST_ASKED], urls, now.mono)
        if len(due) > MOST_ASKED:
            self._worker.nudge(key, MORE_S)
        return True

    async def _lacking(self, one: Watched, now: Moment) -> list[_Lacking]:
        until, held = int(now.wall), self._held.copy()
        free = partial(_is_free, held, now.mono)
        found = await self._database.read(
            lambda conn: _lacking(conn, one.query, until - SHOWN_S, until, one.counted, free)
        )
        return [p for p in found if _is_free(self._held, now.mono, p.pubkey)]

    def _due(self, lacking: Sequence[_Lacking], now: Moment) -> list[_Lacking]:
        """Return whose profile is asked for now, first those who have none; hold the others."""
        day = int(now.wall) // DAY
        due = [p for p in lacking if not p.is_stored or _is_day_of(p.pubkey, day)]
        fine = {p.pubkey for p in lacking} - {p.pubkey for p in due}
        self._hold(fine, now.mono, AGAIN_S)
        self._hold([p.pubkey for p in due if not p.sources], now.mono, RETRY_S)
        return sorted((p for p in due if p.sources), key=lambda p: p.is_stored)

    async def _ask(self, people: Sequence[_Lacking], urls: AbstractSet[str], mono: float) -> None:
        """Ask these relays, each about those of the people whose events it sent."""
        asked: dict[Relay, list[str]] = {}
        for p in people:
            for url in p.sources & urls:
                asked.setdefault(self._engine.relay(url), []).append(p.pubkey)
        keys = [p.pubkey for p in people]
        self._hold(keys, mono, RETRY_S)
        found = await find_profiles(asked, PROFILES_S)
        with suppress(StoreFull):  # names are only a help
            for url, profiles in found.by_relay.items():
                if profiles:
                    await self._keep(url, profiles)
        known = found.newest
        self._hold([k for k in keys if k in known or k not in found.unsure], mono, AGAIN_S)

    def _hold(self, people: Iterable[str], mono: float, seconds: float) -> None:
        """Do not ask about people again for so long; of many people, the last stay."""
        for pubkey in people:
            self._held.pop(pubkey, None)
            self._held[pubkey] = mono + seconds
        for pubkey in list(self._held)[:-MOST_HELD]:
            del self._held[pubkey]


def _is_free(held: Mapping[str, float], mono: float, pubkey: str) -> bool:
    return held.get(pubkey, mono) <= mono


def _is_day_of(pubkey: str, day: int) -> bool:
    """Whether a stored profile is asked for on this day."""
    return (int(pubkey[:8], 16) + day) % RENEW_DAYS == 0


def _lacking(
    conn: sqlite3.Connection,
    query: Query,
    since: int,
    now: int,
    urls: Collection[str],
    is_free: Callable[[str], bool],
) -> list[_Lacking]:
    """Return the people whom a watch shows and who may be asked about, newest first."""
    log = people_rows.log_of(conn, query, urls)
    if log is None:
        return []
    about = person_of(query)
    seen = (one.pubkey for one in people_rows.seen(conn, query, log, since, now))
    shown = dict.fromkeys([*([about] if about else []), *seen])
    free = [bytes.fromhex(one) for one in list(shown)[:MOST_SHOWN] if is_free(one)]
    if not free:
        return []
    stored = {one.pubkey for one in people_rows.profiles(conn, free)}
    sources = log.sources(frozenset(free))
    if about:
        sources[bytes.fromhex(about)] = set(log.urls)
    nowhere: AbstractSet[str] = frozenset()
    return [_Lacking(one.hex(), one.hex() in stored, sources.get(one, nowhere)) for one in free]
