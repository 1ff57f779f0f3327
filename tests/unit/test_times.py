"""Times as people write them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs.times import DAY, time_of
from nostr_client.errors import InvalidInput

NOW = 1_780_000_000.75
MIDNIGHT = 1_780_000_000 // DAY * DAY


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("0", 0),
        ("1700000000", 1_700_000_000),
        ("now", 1_780_000_000),
        ("today", MIDNIGHT),
        ("Yesterday", MIDNIGHT - DAY),
        ("2 weeks ago", 1_780_000_000 - 14 * DAY),
        ("  2  Weeks   AGO ", 1_780_000_000 - 14 * DAY),
        ("an hour ago", 1_780_000_000 - 3600),
        ("1 month", 1_780_000_000 - 30 * DAY),
        ("last week", 1_780_000_000 - 7 * DAY),
        ("2mo", 1_780_000_000 - 60 * DAY),
        ("1y ago", 1_780_000_000 - 365 * DAY),
        ("3d", 1_780_000_000 - 3 * DAY),
        ("1.5h ago", 1_780_000_000 - 5400),
        ("900 years ago", 0),
        ("2026-01-31", 1_769_817_600),
        ("2026-01-31T12:00", 1_769_817_600 + DAY // 2),
        ("2026-01-31T12:00Z", 1_769_817_600 + DAY // 2),
        ("2026-01-31 13:00:00+01:00", 1_769_817_600 + DAY // 2),
    ],
)
def test_a_time(text: str, at: int) -> None:
    assert time_of(text, NOW) == at


@pytest.mark.parametrize(
    "text", ["", "soon", "2 moons ago", "-5", "1e9", "2026-13-01", "1969-12-31", "in 2 days"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(InvalidInput):
        time_of(text, NOW)


@pytest.mark.parametrize(
    "text", ["2026", "20260131", "90", "0000000012", "1769817600000", "9" * 40]
)
def test_a_number_that_is_meant_otherwise_is_no_time(text: str) -> None:
    with pytest.raises(InvalidInput, match="ten digits"):
        time_of(text, NOW)


@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 1, 1)))
def test_every_date_is_read(at: datetime) -> None:
    assert time_of(at.isoformat(), NOW) == int(at.replace(tzinfo=UTC).timestamp())


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    with suppress(InvalidInput):
        assert time_of(text, NOW) >= 0
