"""One session without a socket: what every frame means."""

from __future__ import annotations

import random

import pytest

from nostr_client.codecs.messages import Closed, NegErr, NegMsg, Notice
from nostr_client.negentropy.reconcile import Responder
from nostr_client.negentropy.storage import PlainStorage
from nostr_client.sync.compare.initiator import (
    InitiatorSession,
    LearnedIds,
    Refusal,
    RefusalKind,
    Suspicion,
    refusal,
)

ITEMS = [(1_000 + n, random.Random(n).randbytes(32)) for n in range(400)]


def talk(patience: int = 64) -> InitiatorSession:
    made = InitiatorSession(PlainStorage(ITEMS[:300]), frame_bytes=4096, patience=patience)
    made.first()
    return made


def test_a_session_learns_both_sides() -> None:
    mine = InitiatorSession(PlainStorage(ITEMS[:300]), frame_bytes=4096, patience=64)
    answer = Responder(PlainStorage(ITEMS[100:]), frame_limit=4096)
    message: bytes | None = mine.first()
    have: set[bytes] = set()
    need: set[bytes] = set()
    while message is not None:
        heard = mine.hear(NegMsg("n", answer.reconcile(message)))
        assert isinstance(heard, LearnedIds)
        have.update(heard.have)
        need.update(heard.need)
        message = heard.message
    assert have == {key for _, key in ITEMS[:100]}
    assert need == {key for _, key in ITEMS[300:]}


REASONS = {
    "blocked: too many query results": RefusalKind.OVERFLOW,
    "blocked: this query is too big": RefusalKind.OVERFLOW,
    "RESULTS_TOO_BIG": RefusalKind.OVERFLOW,
    "RESULTS_TOO_BIG: too old": RefusalKind.TOO_OLD,
    "CLOSED": RefusalKind.RESTART,
    "closed: unknown subscription handle": RefusalKind.RESTART,
    "error: subscription not found": RefusalKind.RESTART,
    "rate-limited: slow down": RefusalKind.BUSY,
    "rate-limited: too many negentropy subscriptions": RefusalKind.BUSY,
    "rate-limited: 8 negentropy sessions are open": RefusalKind.BUSY,
    "FILTER_NOT_FOUND": RefusalKind.NOT_FOUND,
    "FILTER_INVALID": RefusalKind.INVALID,
    "PROTOCOL-ERROR": RefusalKind.FAULT,
    "error: invalid negentropy message": RefusalKind.FAULT,
    "blocked: not for strangers": RefusalKind.DENIED,
    "restricted: members only": RefusalKind.DENIED,
    "unsupported: no": RefusalKind.UNSUPPORTED,
    "auth-required: who?": RefusalKind.AUTH,
}


@pytest.mark.parametrize("reason", REASONS)
def test_reasons(reason: str) -> None:
    for frame in (NegErr("n", reason), Closed("n", reason)):
        heard = talk().hear(frame)
        assert isinstance(heard, Refusal)
        assert heard.kind is REASONS[reason]


def test_the_maximum_comes_from_the_fourth_element_or_the_prose() -> None:
    assert refusal("blocked: too many query results", most=500, overflow=True).most == 500
    assert refusal("blocked: too many records, the maximum is 1000").most == 1000


def test_a_notice_before_the_first_answer_may_end_it_and_later_only_warns() -> None:
    text = "ERROR: bad msg: negentropy disabled"
    heard = talk().hear(Notice(text))
    assert isinstance(heard, Refusal)
    assert heard.kind is RefusalKind.UNSUPPORTED
    assert talk().hear(Notice("welcome to this relay")) == Suspicion(
        RefusalKind.FAULT, "welcome to this relay", sure=False
    )
    begun = talk()
    begun.begun = True
    assert isinstance(begun.hear(Notice(text)), Suspicion)
    assert begun.hear(Notice("welcome to this relay")) is None
    assert isinstance(talk().hear(Notice("ERROR: negentropy error: bad")), Suspicion)
    assert talk().hear(Notice("ERROR: too many concurrent NEG requests")) == Refusal(
        RefusalKind.BUSY, "ERROR: too many concurrent NEG requests"
    )


UNSUPPORTED = [
    "unknown command NEG-OPEN",
    "unknown message type: NEG-OPEN",
    "unknown kind: NEG-OPEN",
    "Unhandled message: NEG-OPEN",
    "unexpected message type",
    "failed to parse envelope: unknown envelope label",
    "Unable to handle message",
    "error: negentropy disabled",
    "Negentropy sync is disabled",
    "negentropy is not available here",
    "this relay does not support negentropy",
    "Invalid message: [{ code: invalid_union }]",
    "invalid: value does not match any of the allowed types",
    "unsupported: NEG-OPEN",
    "not implemented",
    "parse error",
]


@pytest.mark.parametrize("text", UNSUPPORTED)
def test_a_refusal_in_words_is_believed_at_once_in_a_notice_and_in_closed(text: str) -> None:
    for frame in (Notice(text), Closed("n", text)):
        heard = talk().hear(frame)
        assert isinstance(heard, Refusal)
        assert heard.kind is RefusalKind.UNSUPPORTED


NOTICES = {
    "ERROR: negentropy error: too many query results": RefusalKind.OVERFLOW,
    "blocked: negentropy query is too big": RefusalKind.OVERFLOW,
    "rate-limited: too many NEG-OPEN": RefusalKind.BUSY,
    "auth-required: negentropy is for friends": RefusalKind.AUTH,
    "blocked: negentropy not allowed": RefusalKind.DENIED,
    "restricted: negentropy is for members": RefusalKind.DENIED,
}


@pytest.mark.parametrize("text", NOTICES)
def test_other_refusals_by_notice_are_believed_where_they_speak_of_negentropy(text: str) -> None:
    heard = talk().hear(Notice(text))
    assert isinstance(heard, Refusal)
    assert heard.kind is NOTICES[text]
    later = talk()
    later.begun = True
    assert isinstance(later.hear(Notice(text)), Suspicion)


def test_a_notice_about_something_else_is_weighed_by_its_prefix() -> None:
    assert talk().hear(Notice("rate-limited: slow down")) == Suspicion(
        RefusalKind.BUSY, "rate-limited: slow down"
    )
    assert talk().hear(Notice("error: disk is full")) == Suspicion(
        RefusalKind.FAULT, "error: disk is full", sure=False
    )


@pytest.mark.parametrize("raw", ["60", "62", "", "61ff", "6100000290ffffffffffffffff7f"])
def test_what_is_no_negentropy_is_not_tried_again(raw: str) -> None:
    heard = talk().hear(NegMsg("n", bytes.fromhex(raw)))
    assert isinstance(heard, Refusal)
    assert heard.kind is RefusalKind.BROKEN


def test_patience_ends_and_new_ids_renew_it() -> None:
    stubborn = talk(patience=3)
    never = NegMsg("n", bytes.fromhex("61000001") + bytes(16))
    for _ in range(3):
        assert isinstance(stubborn.hear(never), LearnedIds)
    stubborn.credit(4)
    for _ in range(2):
        assert isinstance(stubborn.hear(never), LearnedIds)
    heard = stubborn.hear(never)
    assert isinstance(heard, Refusal)
    assert "converge" in heard.reason
