"""Share code of `Counters` between backends: check input, and build calls from other calls.

Subjects, sequences and numbers are checked here before a backend gets them. Every backend therefore
raises the same InvalidInput for the same mistake, and nothing is sent first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from nostr_client.counters import rules
from nostr_client.counters.config import check_name, check_seq
from nostr_client.counters.rules import parse_integer
from nostr_client.counters.subjects import check_patterns, check_subject
from nostr_client.errors import CounterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from nostr_client.counters.audit import Recount
    from nostr_client.counters.base import Ack, Entry


class BaseCounters(ABC):
    """Counters of one stream. `base.Counters` describes each call."""

    def __init__(self, name: str) -> None:
        self._name = check_name(name)

    @property
    def name(self) -> str:
        return self._name

    async def publish(
        self,
        subject: str,
        n: int,
        *,
        headers: Mapping[str, str] | None = None,
        msg_id: str | None = None,
    ) -> Ack:
        lines = rules.increment_headers(n, headers, msg_id)
        try:
            return await self._publish(check_subject(subject), lines)
        except CounterError as error:
            raise error.named(subject) from error.__cause__

    async def add(self, subject: str, n: int, *, msg_id: str | None = None) -> int:
        return (await self.publish(subject, n, msg_id=msg_id)).value()

    async def add_many(self, items: Sequence[tuple[str, int]]) -> list[Ack | CounterError]:
        lines = [(check_subject(subject), ((rules.INCR, rules.signed(n)),)) for subject, n in items]
        return await self._publish_many(lines)

    async def load(self, subject: str) -> int:
        return parse_integer(await self._value(check_subject(subject)))

    async def get(self, subject: str, *, at_seq: int | None = None) -> Entry:
        if at_seq is not None:
            check_seq(at_seq)
        return await self._entry(check_subject(subject), at_seq)

    async def history(self, subject: str, *, after_seq: int = 0) -> AsyncIterator[Entry]:
        page = await self._history_page(check_subject(subject), check_seq(after_seq))
        if not page:
            await self._value(subject)  # raises if there is no such counter
        while page:
            for entry in page:
                yield entry
            page = await self._history_page(subject, page[-1].seq)

    async def recount(self, subject: str) -> Recount:
        found = await self._recount(check_subject(subject))
        if not found.messages:
            raise rules.no_message(subject)
        return found

    async def reset(self, subject: str) -> int:
        try:
            return (await self._reset(check_subject(subject))).value()
        except CounterError as error:
            raise error.named(subject) from error.__cause__

    async def delete(self, subject: str) -> int:
        return await self._purge(*check_patterns([subject]))

    @abstractmethod
    async def _publish(self, subject: str, headers: rules.Headers) -> Ack: ...

    @abstractmethod
    async def _publish_many(
        self, items: Sequence[tuple[str, rules.Headers]]
    ) -> list[Ack | CounterError]: ...

    @abstractmethod
    async def _value(self, subject: str) -> str:
        """Return the value in digits. Raises CounterError 10037."""

    @abstractmethod
    async def _entry(self, subject: str, at_seq: int | None) -> Entry: ...

    @abstractmethod
    async def _history_page(self, subject: str, after: int) -> list[Entry]: ...

    @abstractmethod
    async def _recount(self, subject: str) -> Recount: ...

    @abstractmethod
    async def _reset(self, subject: str) -> Ack: ...

    @abstractmethod
    async def _purge(self, pattern: str) -> int: ...


def check_purge(pattern: str, seq: int, keep: int) -> None:
    """Check the arguments of a purge. An empty pattern means all. Raises InvalidInput."""
    if pattern:
        check_patterns([pattern])
    check_seq(seq)
    check_seq(keep, "a number of messages")
