"""Write policies decide which events this relay takes. A policy is a callable."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter


@dataclass(frozen=True, slots=True)
class WriteContext:
    """Who wants an event written: the peer's address and the keys it has proved by AUTH."""

    address: str
    keys: frozenset[str]


class WritePolicy(Protocol):
    """Decide on one event before its signature is checked; it must be quick and do no I/O.

    Returns "" to take it, else the reason for OK with a NIP-01 prefix (`blocked: …`); one that
    raises refuses. A reason that begins with `auth-required:` makes the relay send its challenge.
    """

    def __call__(self, event: Event, context: WriteContext, /) -> str: ...


def everything(event: Event, context: WriteContext, /) -> str:
    """Take what is valid."""
    return ""


def only_keys(keys: Iterable[str]) -> WritePolicy:
    """Take events by `keys` (hex), what they send, and gift wraps and zap receipts for them.

    Others are asked for AUTH: without the challenge none of `keys` could prove itself.
    """
    mine = frozenset(keys)

    def policy(event: Event, context: WriteContext, /) -> str:
        if event.pubkey in mine or not mine.isdisjoint(context.keys):
            return ""
        if event.kind in _FROM_STRANGERS and any(p in mine for p in event.tag_values("p")):
            return ""
        prefix = "restricted" if context.keys else "auth-required"
        return f"{prefix}: this relay takes events of its owner's keys only"

    return policy


def only_wanted(filters: Callable[[], Sequence[Filter]]) -> WritePolicy:
    """Take what one of `filters()` matches now: the filters of the owner's watches and syncs."""

    def policy(event: Event, context: WriteContext, /) -> str:
        if any(f.matches(event) for f in filters()):
            return ""
        return "blocked: nothing here watches for this event"

    return policy


def all_of(*policies: WritePolicy) -> WritePolicy:
    """Take what every one of `policies` takes; the first reason stands."""

    def policy(event: Event, context: WriteContext, /) -> str:
        return next((r for r in (p(event, context) for p in policies) if r), "")

    return policy


class _Judging:
    """Ends the block at the first error of somebody's policy, and keeps what it was."""

    broke: str = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.broke = type(error).__name__
        return True


_log = logging.getLogger(__name__)


def judged(policy: WritePolicy, event: Event, context: WriteContext, counted: Counter[str]) -> str:
    """The answer of `policy`; one that raises refuses the event, and the connection stays.

    Only the type of the error is logged, as its text may have content of the event: at the first,
    the tenth, the hundredth time.
    """
    reason = "error: the write policy broke"
    with _Judging() as judging:
        reason = policy(event, context)
    if judging.broke:
        counted["policy_errors"] += 1
        if str(counted["policy_errors"]).rstrip("0") == "1":
            _log.error("the write policy raised %s for event %s", judging.broke, event.id)
    return reason


_FROM_STRANGERS = frozenset({1059, 21059, 9735})
"""Kinds whose author is by design not the one who is meant: gift wraps and zap receipts."""
