"""Holds what the API shows of each watch: newest number, changes, failing relays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from agent.api import schema
from nostr_client.assertions.report import AssertedStatus
from nostr_client.codecs import nip19
from nostr_client.codecs.profiles import names_of
from nostr_client.count import queries
from nostr_client.store.rows import EVENT_TABLES
from nostr_client.watch import people_rows
from nostr_client.watch.definition import shown
from nostr_client.watch.moved import Moved, moved
from nostr_client.watch.points import point_of
from nostr_client.watch.state import warnings_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence

    from nostr_client.assertions.report import Asserted
    from nostr_client.count.queries import Query
    from nostr_client.store.file.database import Database
    from nostr_client.watch.definition import Watch
    from nostr_client.watch.state import Merge, Watched

    Watches = Callable[[], Mapping[str, Watched]]
    Specs = Callable[[], Mapping[str, tuple[Watch, str]]]


class WatchStates:
    """The states of all watches by name; `watches` and `specs` give the current ones."""

    def __init__(self, database: Database, watches: Watches, specs: Specs) -> None:
        self.all: dict[str, schema.WatchState] = {}
        self._warnings: dict[str, tuple[str, ...]] = {}
        self._database = database
        self._watches = watches
        self._specs = specs

    def refresh(self, others: list[str]) -> None:
        """Take the current watches; those in `others` ask a new question and have no number yet."""
        for name in (*others, *(self.all.keys() - self._watches().keys())):
            self.all.pop(name, None)
            self._warnings.pop(name, None)
        specs = self._specs()
        for name, one in self._watches().items():
            origin: schema.Origin = "file" if specs[name][1] == "file" else "api"
            spec = shown(one.watch)
            before = self.all.get(name) or schema.WatchState(spec=spec, origin=origin)
            self.all[name] = msgspec.structs.replace(
                before,
                spec=spec,
                origin=origin,
                asked=one.named,
                warnings=self._all_warnings(one),
                asserted=_of_providers(before.asserted, one.watch),
            )

    def show_asserted(self, name: str, found: Sequence[Asserted]) -> schema.WatchState | None:
        """Take what providers assert; one that cannot be reached keeps what it last asserted."""
        state = self.all.get(name)
        if state is None:
            return None
        before = {one.provider: one for one in state.asserted}
        lost = AssertedStatus.UNREACHABLE
        asserted = tuple(
            before.get(one.provider, one) if one.status is lost else one for one in found
        )
        self.all[name] = msgspec.structs.replace(state, asserted=asserted)
        return self.all[name]

    def _all_warnings(self, one: Watched) -> tuple[str, ...]:
        lacks = [text for text in (one.lack, one.no_web) if text]
        known = self._warnings.get(one.watch.name, ())
        return tuple(dict.fromkeys((*lacks, *one.denials, *known)))

    async def take(self, merge: Merge) -> schema.WatchState | None:
        """The state of a watch after a merge; None if it was removed, or its question changed."""
        name, result, now = merge.watched.watch.name, merge.result, merge.at
        merged, query = result.merged.figure, merge.watched.query
        figure = None if merged is None else merged.storable
        point = point_of(int(now), result)

        def read(conn: sqlite3.Connection) -> tuple[Moved, schema.WatchPerson | None]:
            person = person_of(conn, query)
            if point is None:
                return Moved({}, ()), person
            return moved(conn, name, query, point, relays=merge.believed), person

        how_far, person = await self._database.read(read)
        one = self._watches().get(name)
        if one is None or one.question != merge.watched.question:
            return None
        self._warnings[name] = warnings_of(result)
        self.all[name] = msgspec.structs.replace(
            self.all[name],
            unit=str(result.unit),
            figure=figure,
            updated_at=now,
            answered_at=one.answered_at,
            answered=result.answered,
            warnings=self._all_warnings(one),
            changes=how_far.changes,
            spark=how_far.spark,
            since=how_far.since,
            failing=tuple(sorted({*one.failing, *one.launders})),
            within=result.within,
            person=person,
        )
        return self.all[name]


def person_of(conn: sqlite3.Connection, query: Query) -> schema.WatchPerson | None:
    """Return whom a question is about, with the name in the store; None if nobody is known.

    The author of an event is known by the stored event, or as a link in the target says.
    """
    pubkey, target, is_claimed = queries.person_of(query), queries.target_of(query), False
    if pubkey is None and target.event_id is not None:
        sql = f"SELECT u.pubkey FROM {EVENT_TABLES} WHERE e.id = ?"
        row = conn.execute(sql, (bytes.fromhex(target.event_id),)).fetchone()
        pubkey, is_claimed = (target.author, True) if row is None else (row[0].hex(), False)
    if pubkey is None:
        return None
    names = names_of(people_rows.profiles(conn, [bytes.fromhex(pubkey)]))
    return schema.WatchPerson(pubkey=pubkey, name=names.get(pubkey), claimed=is_claimed)


def _of_providers(asserted: Sequence[Asserted], watch: Watch) -> tuple[Asserted, ...]:
    """Those of the providers that the watch still names."""
    named = set(map(nip19.decode_pubkey, watch.providers)) if asserted else set()
    return tuple(one for one in asserted if one.provider in named)
