"""What relays mean by their words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs import reasons
from nostr_client.codecs.reasons import Reason, classify


@pytest.mark.parametrize(
    ("text", "prefix", "reason"),
    [
        ("", "", Reason.OTHER),
        ("auth-required: who are you", "auth-required", Reason.AUTH_REQUIRED),
        ("ERROR: auth-required: x", "auth-required", Reason.AUTH_REQUIRED),
        ("ERROR: bad req: auth-required: x", "auth-required", Reason.AUTH_REQUIRED),
        ("restricted: members only", "restricted", Reason.RESTRICTED),
        ("rate-limited: too many requests (30 > 10)", "rate-limited", Reason.RATE_LIMITED),
        ("rate-limited: too many negentropy subscriptions", "rate-limited", Reason.RATE_LIMITED),
        ("blocked:no space", "blocked", Reason.BLOCKED),
        ("pow: 28 < 30", "pow", Reason.POW),
        ("duplicate: had it", "duplicate", Reason.DUPLICATE),
        ("invalid: bad sig", "invalid", Reason.INVALID),
        ("mute: nobody", "mute", Reason.MUTE),
        ("error: disk: full", "error", Reason.ERROR),
        ("unsupported: this relay does not support NIP-45", "unsupported", Reason.UNSUPPORTED),
        ("ERROR: count-failed: can only count yours", "count-failed", Reason.OTHER),
        ("ERROR: bad req: COUNT disabled", "", Reason.UNSUPPORTED),
        ("COUNT is disabled by relay configuration", "", Reason.UNSUPPORTED),
        ("ERROR: too many subscriptions", "", Reason.TOO_MANY),
        ("ERROR: too many concurrent NEG requests", "", Reason.TOO_MANY),
        ("PROTOCOL-ERROR", "", Reason.OTHER),
        ("RESULTS_TOO_BIG", "", Reason.BLOCKED),
        ("CLOSED", "", Reason.CLOSED),
        ("FILTER_NOT_FOUND", "", Reason.FILTER_NOT_FOUND),
        ("FILTER_INVALID: no JSON", "", Reason.FILTER_INVALID),
        ("closed: unknown subscription handle", "closed", Reason.CLOSED),
        ("error: subscription not found", "error", Reason.CLOSED),
        ("https://example.com says no", "", Reason.OTHER),
        ("Note: not a prefix", "", Reason.OTHER),
        ("two words: not a prefix", "", Reason.OTHER),
        ("CLOSEDOWN", "", Reason.OTHER),
    ],
)
def test_prefix_and_class(text: str, prefix: str, reason: Reason) -> None:
    assert reasons.prefix(text) == prefix
    assert classify(text) is reason


@pytest.mark.parametrize(
    ("text", "overflow", "maximum"),
    [
        ("blocked: too many query results", True, None),
        ("blocked: this query is too big", True, None),
        ("blocked: too many records (max 50000)", True, 50_000),
        ("RESULTS_TOO_BIG", True, None),
        ("RESULTS_TOO_BIG: 500", True, 500),
        ("error: too many results", True, None),
        ("too many events", True, None),
        ("blocked: you are banned", False, None),
        ("blocked: too many requests, max 10", False, None),
        ("rate-limited: too many results in 60 seconds", False, None),
        ("auth-required: too many results", False, None),
        ("PROTOCOL-ERROR", False, None),
        ("CLOSED", False, None),
        ("blocked: too many records (max 0)", True, None),
        ("blocked: too many records (max " + "9" * 40 + ")", True, None),
    ],
)
def test_overflow(text: str, overflow: bool, maximum: int | None) -> None:
    assert reasons.is_overflow(text) is overflow
    assert reasons.max_records(text) == maximum


UNKNOWN_COMMAND = [
    "ERROR: bad msg: unknown cmd",
    "could not parse command",
    "Unsupported message",
    "Command unrecognized",
    "unrecognized command COUNT",
    "invalid client message",
    "unknown message type",
    "invalid: Invalid discriminator value. Expected 'EVENT' | 'REQ' | 'CLOSE' | 'AUTH'",
    "error: unknown message",
    "unsupported: unknown command",
]


@pytest.mark.parametrize("notice", UNKNOWN_COMMAND)
def test_unknown_command_in_the_known_wordings(notice: str) -> None:
    assert reasons.means_count_unsupported(notice)
    assert reasons.means_neg_unsupported(notice)


@pytest.mark.parametrize(
    ("notice", "count", "neg"),
    [
        ("ERROR: bad req: COUNT disabled", True, False),
        ("NIP-45 is not supported", True, False),
        ("ERROR: bad msg: negentropy disabled", False, True),
        ("ERROR: negentropy error: negentropy query missing elements", False, True),
        ("NIP-77 unsupported here", False, True),
        ("ERROR: too many concurrent NEG requests", False, False),
        ("rate-limited: slow down", False, False),
        ("rate-limited: unknown command", False, False),
        ("restricted: this relay requires payment", False, False),
        ("auth-required: unsupported message", False, False),
        ("Welcome! 5,000 messages today, count them all", False, False),
        ("", False, False),
    ],
)
def test_notices_that_speak_of_one_command_or_none(notice: str, count: bool, neg: bool) -> None:
    assert reasons.means_count_unsupported(notice) is count
    assert reasons.means_neg_unsupported(notice) is neg


@given(st.text())
def test_any_text_has_a_class(text: str) -> None:
    assert isinstance(classify(text), Reason)
    assert reasons.prefix(text) == "" or text.endswith(reasons.message(text))
    assert reasons.max_records(text) is None or reasons.is_overflow(text)


def test_a_huge_reason_is_looked_at_in_part() -> None:
    huge = "count " * 1_000_000 + "unsupported message"
    assert classify(huge) is Reason.OTHER
    assert not reasons.means_count_unsupported(huge)
    assert not reasons.is_overflow(huge)


@pytest.mark.parametrize(
    "reason",
    [
        "ERROR: too many subscriptions",
        "ERROR: too many concurrent REQs",
        "error: too many open subscriptions (20)",
        "rate-limited: maximum number of subscriptions",
        "blocked: subscription limit reached",
    ],
)
def test_crowded_connections_under_any_prefix(reason: str) -> None:
    assert reasons.is_crowded(reason)


@pytest.mark.parametrize(
    "reason", ["rate-limited: too many requests", "blocked: too many results", "error: no such sub"]
)
def test_other_refusals_are_not_crowds(reason: str) -> None:
    assert not reasons.is_crowded(reason)
