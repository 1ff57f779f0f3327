"""Judge how a relay treated the events that a check wrote. All functions are pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.network.check.answers import ExchangeEnd
from nostr_client.network.check.findings import Finding, noted, right, untested, wrong

if TYPE_CHECKING:
    from nostr_client.network.check.answers import CountExchange, Exchange, ReqExchange


def stored(answer: Exchange, served: ReqExchange, event_id: str) -> Finding | None:
    """Require that an accepted event comes back."""
    if answer.end is ExchangeEnd.CLOSED:
        return noted("write.stored", f"It refuses our event: {answer.reason!r}.")
    if answer.end is not ExchangeEnd.ANSWERED:
        return wrong("write.stored", f"An EVENT gets no OK: {answer.in_words}.")
    if event_id in served.ids:
        return right("write.stored")
    return wrong("write.stored", "It says OK to an event and does not serve it.")


def forged(answer: Exchange, served: ReqExchange) -> Finding | None:
    """Require that an event with an invalid signature is refused."""
    if served.events:
        return wrong("write.forged", "It accepts an event whose signature is invalid.")
    if answer.end is ExchangeEnd.ANSWERED:
        return wrong("write.forged", "It says OK to an event whose signature is invalid.")
    if answer.end is not ExchangeEnd.CLOSED:
        return wrong("write.forged", f"A forged event gets no OK: {answer.in_words}.")
    return right("write.forged")


def repeated(answer: Exchange) -> Finding | None:
    """Require OK true for an event that the relay already has (NIP-01)."""
    if answer.end is ExchangeEnd.ANSWERED:
        return right("write.repeated")
    return wrong("write.repeated", f"An event that it has already: {answer.in_words}.")


def older(served: ReqExchange, newer: str) -> Finding | None:
    """Require that only the newer version of an addressable event stays."""
    if served.ids == {newer}:
        return right("write.versions")
    if not served.ids:
        return untested("write.versions", "it does not serve the newer version")
    return wrong("write.versions", "It serves the older version of an addressable event.")


def expired(served: ReqExchange) -> Finding | None:
    """Require that an event which expired before it was sent does not come (NIP-40)."""
    if not served.events:
        return right("write.expired") if served.end is ExchangeEnd.ANSWERED else None
    return wrong("write.expired", "It stores and serves an event that had expired (NIP-40).")


def ephemeral(served: ReqExchange) -> Finding | None:
    """Require that an ephemeral event is not stored (NIP-01)."""
    if not served.events:
        return right("write.ephemeral") if served.end is ExchangeEnd.ANSWERED else None
    return wrong("write.ephemeral", "It stores an event of an ephemeral kind.")


def foreign(served: ReqExchange, event_id: str) -> Finding | None:
    """Require that a deletion by another key has no effect (NIP-09)."""
    if event_id in served.ids:
        return right("write.foreign")
    if served.end is not ExchangeEnd.ANSWERED:
        return None
    return wrong("write.foreign", "A deletion by another key deleted our event.")


def deleted(
    served: ReqExchange, again: ReqExchange, counted: CountExchange | None
) -> Finding | None:
    """Require that a deleted event is gone.

    `again`: the answer after the event was sent again. `counted`: the answer to a COUNT.
    """
    if served.events:
        return wrong("write.deletion", "It serves an event that its author deleted (NIP-09).")
    if again.events:
        return wrong("write.deletion", "It accepts an event again that its author deleted.")
    if counted is not None and counted.count:
        return wrong("write.deletion", "It counts an event that its author deleted.")
    ended = served.end is again.end is ExchangeEnd.ANSWERED
    return right("write.deletion") if ended else None
