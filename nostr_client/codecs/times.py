"""Times as people write them: dates, times ago, Unix seconds. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from nostr_client.errors import InvalidInput, clip

IN_WORDS: Final = (
    "a time: Unix seconds, a date such as 2026-01-31 or 2026-01-31T12:00Z, `yesterday`, "
    "`2 weeks ago`, `last week`, or 90m, 12h, 3d, 2w, 6mo, 1y before now"
)

DAY: Final = 86_400
_UNITS: Final = {
    "second": 1, "minute": 60, "hour": 3600, "day": DAY, "week": 7 * DAY, "month": 30 * DAY,
    "year": 365 * DAY,
}  # fmt: skip
_SHORT: Final = {"s": 1, "m": 60, "h": 3600, "d": DAY, "w": 7 * DAY, "mo": 30 * DAY, "y": 365 * DAY}
_WORDS: Final = re.compile(rf"(\d{{1,9}}|an?|last) ({'|'.join(_UNITS)})s?(?: ago)?")
_LETTER: Final = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(mo|[smhdwy])(?: ago)?")
_NUMBER: Final = re.compile(r"[0-9]+")
_NAMED: Final = {"now": 0, "today": 0, "yesterday": DAY}


def time_of(text: str, now: float) -> int:
    """Unix seconds of a time that somebody wrote; `now` is what "ago" counts from.

    A date is its midnight, and one without a zone is UTC; a month is 30 days, a year 365. `today`
    and `yesterday` begin at midnight UTC. Raises InvalidInput.
    """
    plain = " ".join(text.lower().split())
    if _NUMBER.fullmatch(plain):
        return _of_number(plain)
    if plain in _NAMED:
        at = int(now) - _NAMED[plain]
        return at if plain == "now" else at // DAY * DAY
    ago = _ago(plain)
    return _of_date(text.strip()) if ago is None else max(0, int(now - ago))


def _of_number(plain: str) -> int:
    """Unix seconds, which have ten digits since 2001, or 0 for the beginning of time.

    Any other number is meant otherwise: as a year, a date, a duration or milliseconds.
    """
    if plain != "0" and (len(plain) != 10 or plain[0] == "0"):
        raise InvalidInput(
            f"{clip(plain, 60)!r} is not {IN_WORDS}: Unix seconds have ten digits, a date has "
            "dashes, and a duration has a unit"
        )
    return int(plain)


def _ago(plain: str) -> float | None:
    if words := _WORDS.fullmatch(plain):
        number = int(words[1]) if words[1].isdecimal() else 1
        return number * _UNITS[words[2]]
    if letter := _LETTER.fullmatch(plain):
        return float(letter[1]) * _SHORT[letter[2]]
    return None


def _of_date(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        seconds = int(at.timestamp())
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{clip(text, 60)!r} is not {IN_WORDS}") from error
    if seconds < 0:
        raise InvalidInput(f"{clip(text, 60)!r} is before 1970, as no event is")
    return seconds
