"""Judge NIP-77 sessions by the events that the relay serves. All functions are pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.codecs.display import plural
from nostr_client.codecs.reasons import Reason, is_overflow, max_records, means_neg_unsupported
from nostr_client.network.check.answers import ExchangeEnd
from nostr_client.network.check.findings import Finding, noted, right, wrong

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from nostr_client.codecs.event import Event
    from nostr_client.network.check.answers import Exchange, NegExchange, ReqExchange

VERSION: Final = b"\x61"
"""The answer to an unknown version: the relay's own version."""


def refused(compared: NegExchange, *, listed: bool = True) -> Finding | None:
    """Judge how a NEG-OPEN was answered or refused.

    `listed`: the relay's document lists NIP-77. A relay that does not list NIP-77 may answer in any
    way or not at all.
    """
    if compared.end is ExchangeEnd.ANSWERED and not compared.malformed:
        return right("neg.answer") if compared.first else None
    if compared.malformed:
        return wrong(
            "neg.answer", f"Its answer is not a message of NIP-77: {compared.malformed[0]}."
        )
    if compared.first:
        return wrong("neg.answer", f"A session breaks off: {compared.in_words}.")
    return _refusal(compared, listed)


def _refusal(compared: NegExchange, listed: bool) -> Finding:
    reason = compared.reason
    if compared.label == "NEG-ERROR":
        return wrong("neg.refusal", f"It says NEG-ERROR for NEG-ERR: {reason!r}.")
    if is_overflow(reason):
        most = max_records(reason)
        text = f"It compares {most} records at most." if most else "It compares no large set."
        return noted("neg.answer", f"{text} It says {reason!r}.")
    if compared.about is Reason.UNSUPPORTED or means_neg_unsupported(reason):
        return noted("neg.answer", f"It has no NIP-77: {compared.in_words}.")
    if compared.end is ExchangeEnd.CLOSED:
        return noted("neg.answer", f"It refuses NIP-77: {reason!r}.")
    if not listed:
        text = f"It does not speak NIP-77, and does not list it: {compared.in_words}."
        return noted("neg.answer", text)
    return wrong("neg.answer", f"A NEG-OPEN is not refused by NEG-ERR: {compared.in_words}.")


def names(compared: NegExchange, events: Sequence[Event]) -> Finding | None:
    """Require a session without local events to name all `events`, which the relay serves.

    `withheld` judges any further ids.
    """
    if compared.end is not ExchangeEnd.ANSWERED:
        return None
    lacking = {one.id for one in events} - compared.need
    if not lacking:
        return right("neg.names") if events else None
    left_out = plural(len(lacking), "event")
    text = f"A session names {plural(len(compared.need), 'id')} and leaves out {left_out}"
    return wrong("neg.names", f"{text} that it serves for {compared.filter.to_json()}.")


def withheld(named: AbstractSet[str], served: ReqExchange) -> Finding | None:
    """Require that a REQ by ids returns every event that a session names."""
    lacking = named - served.ids
    if not lacking or served.end is not ExchangeEnd.ANSWERED:
        return None
    return wrong("neg.names", f"It names {plural(len(lacking), 'id')} that it does not serve.")


def snapshot(compared: NegExchange, events: Sequence[Event]) -> Finding | None:
    """Require that a session compares all of `events`, which both sides have."""
    if compared.end is not ExchangeEnd.ANSWERED or not events:
        return None
    lacking = [one for one in events if one.id in compared.have]
    if not lacking:
        return noted("neg.snapshot", f"It compares {plural(len(events), 'event')} at once or more.")
    rest = [one.created_at for one in events if one.id not in compared.have]
    if rest and max(one.created_at for one in lacking) <= min(rest):
        text = f"Of its events it compares only the newest {len(rest)}, and does not say so."
        return wrong("neg.snapshot", text)
    text = f"A session leaves out {len(lacking)} of {plural(len(events), 'event')} that it serves."
    return wrong("neg.snapshot", text)


def version(compared: NegExchange) -> Finding | None:
    """Require the relay's own version as the answer to an unknown version."""
    if compared.end is ExchangeEnd.ANSWERED and compared.first == VERSION:
        return right("neg.version")
    if compared.end is ExchangeEnd.ANSWERED:
        return wrong("neg.version", f"It answers version 2 by {compared.first[:4].hex()}, not 61.")
    if compared.end is ExchangeEnd.CLOSED:
        return wrong("neg.version", f"It refuses version 2 and names none: {compared.reason!r}.")
    return wrong("neg.version", f"It does not answer version 2 by 61: {compared.in_words}.")


def refusal(given: Exchange) -> Finding | None:
    """Require NEG-ERR for an invalid message."""
    if given.label == "NEG-ERR":
        return right("neg.refusal")
    if given.label == "NEG-ERROR":
        return wrong("neg.refusal", f"It says NEG-ERROR for NEG-ERR: {given.reason!r}.")
    if given.end is ExchangeEnd.ANSWERED:
        return wrong("neg.refusal", "It answers an invalid negentropy message.")
    return wrong("neg.refusal", f"An invalid message: {given.in_words}, and no NEG-ERR.")


def frame(given: NegExchange, size: int) -> Finding | None:
    """Require that a message of `size` characters is accepted, or refused with a reason."""
    if given.end is ExchangeEnd.ANSWERED:
        return noted("neg.frame", f"It takes messages of {size} characters.")
    if given.end in (ExchangeEnd.CLOSED, ExchangeEnd.NOTICE):
        text = f"It refuses a message of {size} characters: {given.reason!r}."
        return noted("neg.frame", text)
    return wrong("neg.frame", f"At a message of {size} characters {given.in_words}.")
