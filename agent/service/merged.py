"""Answers COUNT with the merged numbers of the watches that say so, for `/merged`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from agent.relay.visibility import QueryRefused
from nostr_client.count.answering import answer_of
from nostr_client.count.queries import query
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.messages import CountAnswer
    from nostr_client.count.queries import Query
    from nostr_client.watch.engine import Engine
    from nostr_client.watch.state import Merge, Watched

NOT_WATCHED: Final = "unsupported: not watched: no watch with merged = true asks this"
NOT_YET: Final = "error: not every relay of this watch has been asked yet, ask again later"
NO_NUMBER: Final = "error: no relay has given this number"


class MergedWatches:
    """The merged numbers of an engine's watches; `take` gets each merge as it is made."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._answers: dict[str, tuple[Watched, CountAnswer | None]] = {}
        self._explaining = asyncio.Lock()
        """Held while claims are read: a crowd that asks at once costs one merge."""
        self._watches: object = None
        self._names: dict[tuple[str, ...], str] = {}

    @property
    def is_on(self) -> bool:
        """Whether any watch gives its number."""
        return bool(self._by_question())

    def take(self, merge: Merge) -> None:
        """Take the number of a watch whose relays were all asked."""
        watched = merge.watched
        if watched.watch.merged and merge.is_whole:
            self._answers[watched.watch.name] = watched, answer_of(merge.result)

    async def answer(self, filters: Sequence[Filter]) -> CountAnswer:
        """Return the merged number of what `filters` ask. Raises QueryRefused, StoreError."""
        try:
            asked = query(filters)
        except InvalidInput as error:
            raise QueryRefused(NOT_WATCHED) from error
        name = self._by_question().get(_key(asked))
        if name is None:
            raise QueryRefused(NOT_WATCHED)
        watched, found = await self._of_watch(name)
        if found is None:
            raise QueryRefused(NO_NUMBER)
        if asked.offset == watched.query.offset:
            return found
        return msgspec.structs.replace(found, hll=None)

    def _by_question(self) -> dict[tuple[str, ...], str]:
        """Return the watches by what they ask; of two that ask the same, the first by name."""
        watches = self._engine.watches
        if watches is not self._watches:
            asked = [(_key(one.query), name) for name, one in watches.items() if one.watch.merged]
            self._watches, self._names = watches, dict(sorted(asked, reverse=True))
            self._answers = {name: self._answers[name] for name in self._answers if name in watches}
        return self._names

    async def _of_watch(self, name: str) -> tuple[Watched, CountAnswer | None]:
        """Return the answer of the newest merge; the claims are merged here if there was none."""
        async with self._explaining:
            watched = self._engine.watches.get(name)
            if watched is None:  # removed while this waited
                raise QueryRefused(NOT_WATCHED)
            known = self._answers.get(name)
            if known is not None and known[0] is watched:
                return known
            if not watched.is_whole:
                raise QueryRefused(NOT_YET)
            made = watched, answer_of(await self._engine.explain(name))
            known = self._answers.get(name)
            if known is not None and known[0] is watched:  # merged meanwhile
                return known
            self._answers[name] = made
            return made


def _key(asked: Query) -> tuple[str, ...]:
    return tuple(sorted(one.cache_key() for one in asked.filters))
