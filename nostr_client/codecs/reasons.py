"""What a relay means by the words in OK, CLOSED, NEG-ERR and NOTICE. Pure functions.

Source: NIP-01 (prefixes), NIP-42, NIP-77 in its two texts, and what relays in use say.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Reason(StrEnum):
    """What a reason is about, and so what the caller can do."""

    AUTH_REQUIRED = "auth-required"  # AUTH, then ask once more
    RESTRICTED = "restricted"  # the relay knows who you are and still says no
    RATE_LIMITED = "rate-limited"  # slow down; never split a query for this
    TOO_MANY = "too-many"  # too many open requests: close some, then ask again
    BLOCKED = "blocked"  # in NEG-ERR: more records than it will work through
    UNSUPPORTED = "unsupported"  # never ask this relay again
    CLOSED = "closed"  # it forgot the session: start again
    FILTER_NOT_FOUND = "filter-not-found"  # it has no such event: send the whole filter
    FILTER_INVALID = "filter-invalid"
    INVALID = "invalid"  # the sender's bug
    POW = "pow"
    DUPLICATE = "duplicate"  # it had the event: success
    MUTE = "mute"  # NIP-01: nobody was listening to an ephemeral event
    ERROR = "error"  # the relay's trouble: try later
    OTHER = "other"


_LOOK_AT = 1000
"""Characters of a reason that are read: no relay needs more, and a frame can hold millions."""

_BY_PREFIX = {reason.value: reason for reason in Reason} | {
    "results_too_big": Reason.BLOCKED,
    "filter_not_found": Reason.FILTER_NOT_FOUND,
    "filter_invalid": Reason.FILTER_INVALID,
}
_SHOUTED = re.compile(r"\A(?:ERROR: )?(?:bad req: |bad msg: )?", re.ASCII)
_PREFIX = re.compile(r"([a-z][a-z0-9-]{0,39}):(?!//)", re.ASCII)
_OLD_CODE = re.compile(r"(RESULTS_TOO_BIG|CLOSED|FILTER_NOT_FOUND|FILTER_INVALID)\b:? *", re.ASCII)
_TOO_MANY = r"\btoo (?:many|much) (?:concurrent|open|subs|requests|neg)"
_TOO_BIG = r"\btoo (?:many|big|large)\b"
_TOO_MANY_RECORDS = (
    r"\btoo many (?:query )?(?:results|records|events|items)\b"
    r"|\b(?:results?(?: set)?|query) (?:is )?too (?:big|large)\b|\bmax_sync_events\b"
)
_CROWDED = (
    r"\b(?:too many|max(?:imum)?(?: number of)?) (?:\w+ ){0,2}(?:subscriptions?|subs|reqs?)\b"
    r"|\bsubscription (?:limit|quota)\b"
)
_LOST = r"\b(?:unknown|no such) (?:neg )?subscription|\bsubscription not found"
_SUPERSEDED = (
    r"\A(?:replaced|superseded):|\b(?:superseded|(?:a|have|has) newer|newer (?:version|event))\b"
)
_NUMBER = re.compile(r"(?<![\w.])\d{1,18}(?![\w.])", re.ASCII)

_UNKNOWN_COMMAND = (
    r"\b(?:unknown|unhandled|unexpected|unrecogni[sz]ed|unsupported|no such) (?:nostr |client )?"
    r"(?:cmd|command|message|msg|verb|type|envelope|label|request|action)\b"
    r"|\b(?:cmd|command|message|verb|request)(?: type)? (?:is )?(?:unknown|unrecogni[sz]ed"
    r"|not (?:recogni[sz]ed|supported|implemented|found)|unsupported|unhandled)"
    r"|\b(?:could not|cannot|can't|failed to|unable to) (?:parse|decode|handle|deserialize)"
    r" (?:the )?(?:cmd|command|message|msg|envelope|request)\b"
    r"|\binvalid (?:client message|message type|discriminator|command|envelope|label)\b"
)
_NO_COUNT = (
    r"\b(?:count|nip-?45)\b.{0,40}(?:disabled|not supported|unsupported)"
    r"|\bnot support(?:ing)? (?:the )?(?:count|nip-?45)\b"
)
_NO_NEG = (
    r"\b(?:neg(?:entropy|-open|-msg)?|nip-?77)\b.{0,40}(?:disabled|off\b|unsupported|unavailable"
    r"|unimplemented|not (?:a valid|allowed|available|enabled|implemented|supported))"
    r"|\b(?:not|n't) (?:implement|know|offer|speak|support)(?:ing)? (?:\w+ )?"
    r"(?:negentropy|nip-?77)\b"
    r"|\b(?:unknown|unhandled|unexpected|unrecogni[sz]ed|unsupported)\b.{0,30}"
    r"\b(?:neg-open|negentropy|nip-?77)\b"
    r"|\bnegentropy error: negentropy query missing elements"
)
_NOT_UNDERSTOOD = (
    r"\b(?:invalid|malformed|unparsea?ble|bad) (?:nostr )?(?:message|msg|request)\b(?!: \w)"
    r"|\b(?:parse|parsing) (?:error|failed)\b|\berror parsing\b|\binvalid_union\b"
    r"|\bdoes not match any of the allowed types\b"
    r"|\A\W*(?:(?:error|invalid): )?(?:unimplemented|not implemented|unsupported|unknown)\W*\Z"
)
"""What some relays say of any frame that they cannot read."""


def _says(text: str, pattern: str) -> bool:
    """Whether a text matches in any case. Most programs never need these patterns, and compiling
    all of them takes milliseconds: `re` compiles each on its first use, and keeps it."""
    return re.search(pattern, text, re.I) is not None


def strip_shout(reason: str) -> str:
    """The reason without the `ERROR: `, `bad req: ` and `bad msg: ` that strfry begins with."""
    return _SHOUTED.sub("", reason, count=1)


def prefix(reason: str) -> str:
    """The machine-readable word before the colon of a reason, or "" (NIP-01).

    `ERROR: ` and `ERROR: bad req: ` are skipped first: strfry puts them before the prefix.
    """
    found = _PREFIX.match(strip_shout(reason))
    return found[1] if found else ""


def message(reason: str) -> str:
    """What a reason says to a person: the text after its prefix or old NIP-77 code."""
    rest = strip_shout(reason)
    found = _OLD_CODE.match(rest) or _PREFIX.match(rest)
    return rest[found.end() :].strip() if found else rest.strip()


def classify(reason: str) -> Reason:
    """What a reason is about; OTHER for prose and prefixes that nobody has written down."""
    rest = strip_shout(reason[:_LOOK_AT])
    old = _OLD_CODE.match(rest)
    known = _BY_PREFIX.get(old[1].lower() if old else prefix(rest))
    if known is not None and not (known is Reason.ERROR and _says(rest, _LOST)):
        return known
    return _classify_prose(rest)


def _classify_prose(text: str) -> Reason:
    if _says(text, _LOST):
        return Reason.CLOSED
    if _says(text, _TOO_MANY):
        return Reason.TOO_MANY
    if means_count_unsupported(text) or means_neg_unsupported(text):
        return Reason.UNSUPPORTED
    return Reason.OTHER


def is_crowded(reason: str) -> bool:
    """True when a CLOSED says that this connection has too many open REQs, under any prefix."""
    return _says(reason[:_LOOK_AT], _CROWDED)


def is_overflow(reason: str) -> bool:
    """True when a NEG-ERR says that the query has more records than the relay works through.

    `blocked:` alone may also mean that we are not welcome; its words distinguish the two.
    """
    code, text = classify(reason), strip_shout(reason[:_LOOK_AT])
    if code is Reason.BLOCKED:
        return bool(_OLD_CODE.match(text) or (_says(text, _TOO_BIG) and not _says(text, _TOO_MANY)))
    return code in (Reason.ERROR, Reason.OTHER) and _says(text, _TOO_MANY_RECORDS)


def means_superseded(reason: str) -> bool:
    """True when an OK says that the relay has a newer version of the event."""
    return _says(strip_shout(reason[:_LOOK_AT]), _SUPERSEDED)


def max_records(reason: str) -> int | None:
    """The maximum that an overflow names in its prose, else None: other numbers are no maximum."""
    if not is_overflow(reason):
        return None
    numbers = _NUMBER.findall(message(reason[:_LOOK_AT]))
    return int(numbers[-1]) if numbers and int(numbers[-1]) > 0 else None


def means_count_unsupported(notice: str) -> bool:
    """True when a NOTICE, while a COUNT waits, says that the relay does not know COUNT."""
    return _speaks_of(notice, _NO_COUNT)


def means_neg_unsupported(notice: str) -> bool:
    """True when a NOTICE, before the first NEG-MSG, says that the relay does not know NIP-77."""
    return _speaks_of(notice, _NO_NEG) or _speaks_of(notice, _NOT_UNDERSTOOD)


def _speaks_of(notice: str, this_command: str) -> bool:
    text = notice[:_LOOK_AT]
    if _BY_PREFIX.get(prefix(text)) not in _MAY_MEAN_UNKNOWN:
        return False  # `rate-limited: ...` ends nothing
    return _says(text, _UNKNOWN_COMMAND) or _says(text, this_command)


_MAY_MEAN_UNKNOWN = (None, Reason.UNSUPPORTED, Reason.INVALID, Reason.ERROR)
