"""Implements the API's methods about counters of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api import schema, views
from agent.api.server import Backend
from nostr_client.counters import shown
from nostr_client.counters.rules import format_integer, parse_integer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agent.api.feed import ApiFeed
    from nostr_client.counters.base import Entry
    from nostr_client.counters.sqlite.store import SqliteCounterStore

_ENOUGH_BYTES = 4 * 1024 * 1024
"""Digits in one answer: counters may be as long as they like, answers may not."""


class CounterBackend(Backend):
    """The part of the backend that is about counters."""

    def __init__(self, counters: SqliteCounterStore, feed: ApiFeed) -> None:
        self._counters = counters
        self._feed = feed

    @property
    def feed(self) -> ApiFeed:
        return self._feed

    async def streams(self) -> schema.StreamList:
        infos = await self._counters.streams()
        return schema.StreamList(streams=tuple(map(views.stream, infos)))

    async def counters(
        self, stream: str, pattern: str = ">", limit: int = 1000, at: int = 0
    ) -> schema.CounterList:
        bound = await self._counters.counters(stream)
        return await _taken(stream, bound.get_many(pattern, at_seq=at or None), limit)

    async def remove_counters(self, stream: str, pattern: str) -> schema.Removed:
        bound = await self._counters.counters(stream)
        return schema.Removed(messages=await bound.delete(pattern))

    async def counter_history(
        self, stream: str, subject: str, after: int = 0, limit: int = 1000
    ) -> schema.CounterList:
        bound = await self._counters.counters(stream)
        return await _taken(stream, bound.history(subject, after_seq=after), limit)

    async def messages(
        self, stream: str, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> schema.Messages:
        page = await self._counters.remotes.page(stream, after, limit, newest=newest)
        return views.messages(stream, page)

    async def add(self, stream: str, subject: str, add: str, id: str = "") -> schema.CounterAdded:
        bound = await self._counters.counters(stream)
        ack = await bound.publish(subject, parse_integer(add), msg_id=id or None)
        await self._announce(stream, subject)
        value = None if ack.val is None else format_integer(ack.val)
        return schema.CounterAdded(seq=ack.seq, value=value, duplicate=ack.duplicate)

    async def audit(self, stream: str, subject: str) -> schema.Audit:
        bound = await self._counters.counters(stream)
        found = await bound.recount(subject)
        return shown.audit(subject, found)

    async def reset(self, stream: str, subject: str) -> schema.CounterAdded:
        bound = await self._counters.counters(stream)
        value = await bound.reset(subject)
        entry = await bound.get(subject)
        await self._announce(stream, subject)
        return schema.CounterAdded(seq=entry.seq, value=format_integer(value))

    async def _announce(self, stream: str, subject: str) -> None:
        """Send the new value of a counter to listeners."""
        if self._feed.streams:
            bound = await self._counters.counters(stream)
            self._feed.publish(counter=shown.counter(await bound.get(subject)))


async def _taken(stream: str, entries: AsyncIterator[Entry], limit: int) -> schema.CounterList:
    """At most `limit` entries, and not more digits than an answer should have."""
    found: list[schema.Counter] = []
    size = 0
    async for entry in entries:
        if len(found) >= limit or size > _ENOUGH_BYTES:
            return schema.CounterList(stream=stream, counters=tuple(found), more=True)
        one = shown.counter(entry)
        size += len(one.value) + sum(len(v) for s in one.sources.values() for v in s.values())
        found.append(one)
    return schema.CounterList(stream=stream, counters=tuple(found))
