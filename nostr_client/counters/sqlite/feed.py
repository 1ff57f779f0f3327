"""Notify the watches and subscribers of this process about changes in a store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nostr_client.counters.subjects import matches

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from nostr_client.counters.base import Message

BACKLOG = 10_000
"""Most republished messages that wait for a slow subscriber. Later ones are dropped and counted."""


class CounterFeed:
    """Wakes watches after a commit, and distributes republished messages."""

    def __init__(self) -> None:
        self.dropped = 0
        self._waiting: set[asyncio.Event] = set()
        self._subscribers: dict[asyncio.Queue[Message], str] = {}

    def send(self, messages: Iterable[Message]) -> None:
        """Notify about a commit that changed a stream."""
        for event in self._waiting:
            event.set()
        for message in messages:
            self._hand_out(message)

    def _hand_out(self, message: Message) -> None:
        for queue, pattern in self._subscribers.items():
            if not matches(pattern, message.subject):
                continue
            try:
                queue.put_nowait(message)
            except asyncio.QueueFull:
                self.dropped += 1

    def enroll(self) -> asyncio.Event:
        """Return an event that is set after every change. Pass it to `leave` at the end."""
        event = asyncio.Event()
        self._waiting.add(event)
        return event

    def leave(self, event: asyncio.Event) -> None:
        self._waiting.discard(event)

    def subscribe(self, pattern: str) -> AsyncIterator[Message]:
        """Yield the messages that are republished from this call on, without end."""
        queue: asyncio.Queue[Message] = asyncio.Queue(BACKLOG)
        self._subscribers[queue] = pattern
        return self._drain(queue)

    async def _drain(self, queue: asyncio.Queue[Message]) -> AsyncIterator[Message]:
        try:
            while True:
                yield await queue.get()
        finally:
            self._subscribers.pop(queue, None)
