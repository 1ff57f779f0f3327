"""Invoices and zap receipts: what holds, and everything that does not."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client import count
from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.zaps import MOST_MSATS, TARGET_TAGS, Zap, paid, parse_invoice, read_zap
from nostr_client.errors import InvalidInput
from tests.zapping import SENDER, invoice, zap_tags

# Invoices of the BOLT 11 text's own examples.
DONATION = (
    "lnbc1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5"
    "rqwzqfqqqsyqcyq5rqwzqfqypqdpl2pkx2ctnv5sxxmmwwd5kgetjypeh2ursdae8g6twvus8g6rfwvs8qun0dfjkxaq9qrs"
    "gq357wnc5r2ueh7ck6q93dj32dlqnls087fxdwk8qakdyafkq3yap9us6v52vjjsrvywa6rt52cm9r9zqt8r2t7mlcwspyet"
    "p5h2tztugp9lfyql"
)
COFFEE = (
    "lnbc2500u1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsy"
    "qcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdq5xysxxatsyp3k7enxv4jsxqzpu9qrsgquk0rl77nj30yxdy8j9vdx85fkpmdla2"
    "087ne0xh8nhedh8w27kyke0lp53ut353s06fv3qfegext0eh0ymjpf39tuven09sam30g4vgpfna3rh"
)
WALLET = KeySigner(sha256(b"wallet").digest())
RECEIVER = sha256(b"receiver").hexdigest()
NOTE = sha256(b"a note").hexdigest()


def zap_request(**changes: Any) -> Event:
    tags = (("p", RECEIVER), ("e", NOTE), ("amount", "21000"), ("relays", "wss://r.example.com"))
    made = {"kind": 9734, "tags": tags, "created_at": 1_700_000_000} | changes
    return SENDER.sign_now(EventTemplate(**made)).event


def receipt(
    request: Event | str, bolt11: str | None = None, *tags: tuple[str, ...], kind: int = 9735
) -> Event:
    text = request if isinstance(request, str) else request.to_json()
    paid = invoice("210n", text) if bolt11 is None else bolt11
    named = tags or (("p", RECEIVER), ("e", NOTE))
    all_tags = (*named, ("bolt11", paid), ("description", text))
    template = EventTemplate(kind=kind, tags=all_tags, created_at=1_700_000_001)
    return WALLET.sign_now(template).event


def test_the_examples_of_bolt_11_are_read() -> None:
    assert parse_invoice(DONATION).amount is None
    assert parse_invoice(COFFEE).amount == 250_000_000
    assert parse_invoice("lightning:" + COFFEE.upper()).created_at == 1_496_314_658


@pytest.mark.parametrize(
    ("amount", "millisats"),
    [("1", 10**11), ("1m", 10**8), ("25u", 2_500_000), ("210n", 21_000), ("10p", 1), ("", None)],
)
def test_amounts_are_millisats(amount: str, millisats: int | None) -> None:
    assert parse_invoice(invoice(amount)).amount == millisats


@pytest.mark.parametrize("amount", ["1p", "0n", "01n", "-1n", "1x", "21000001", "9" * 17 + "m"])
def test_amounts_that_cannot_be_are_refused(amount: str) -> None:
    with pytest.raises(InvalidInput):
        parse_invoice(invoice(amount))


@pytest.mark.parametrize("text", ["", "lnbc", COFFEE[:-1] + "q", "npub1xyz", "1" * 6000])
def test_what_is_no_invoice_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_invoice(text)


@given(st.text(max_size=80))
def test_any_text_is_an_invoice_or_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_invoice(text)


def test_a_zap_tells_who_paid_how_much() -> None:
    made = receipt(zap_request())
    zap = read_zap(made, NOTE)
    assert zap is not None
    assert (zap.amount, zap.sender, zap.about) == (21_000, SENDER.pubkey, NOTE)
    assert read_zap(made, RECEIVER) == zap
    assert read_zap(receipt(zap_request()), "ab" * 32) is None


def test_what_was_paid_is_told_for_each_target_that_both_name_and_as_read_zap_says() -> None:
    address = f"30023:{RECEIVER}:x"
    tags = (*zap_tags("210n", RECEIVER, ("e", NOTE), ("a", address)), ("a", "elsewhere"))
    held = WALLET.sign_now(EventTemplate(kind=9735, tags=tags, created_at=1)).event
    found = paid(held)
    assert found == [("a", address, 21_000), ("e", NOTE, 21_000), ("p", RECEIVER, 21_000)]
    for target in (NOTE, RECEIVER, address, "elsewhere", SENDER.pubkey):
        zap = read_zap(held, target)
        told = [] if zap is None else [zap.amount]
        assert told == [one.msats for one in found if one.value == target]
    assert {one.name for one in found} == set(TARGET_TAGS)
    most = receipt(zap_request(tags=(("p", RECEIVER),)), invoice("100"), ("p", RECEIVER))
    found_most = read_zap(most)
    assert found_most is not None
    assert found_most._replace(payment=b"") == Zap(MOST_MSATS, SENDER.pubkey, RECEIVER)


def test_an_invoice_with_its_own_description_passes() -> None:
    assert read_zap(receipt(zap_request(), invoice("210n")), NOTE) is not None


FORGED = json.loads(zap_request().to_json()) | {"content": "more"}
BAD = {
    "no request": receipt("{}"),
    "a request that is not signed": receipt(json.dumps(FORGED)),
    "another kind of request": receipt(zap_request(kind=1)),
    "two receivers": receipt(zap_request(tags=(("p", RECEIVER), ("p", NOTE)))),
    "another amount": receipt(zap_request(), invoice("211n")),
    "no amount": receipt(zap_request(), invoice("")),
    "an invoice for something else": receipt(zap_request(), invoice("210n", "another")),
    "an invoice that is none": receipt(zap_request(), "lnbc1"),
    "another event": receipt(zap_request(), None, ("p", RECEIVER), ("e", RECEIVER)),
    "another receiver": receipt(zap_request(), None, ("p", NOTE), ("e", NOTE)),
    "another kind": receipt(zap_request(), kind=9736),
    "more than anybody would pay": receipt(
        zap_request(tags=(("p", RECEIVER),)), invoice("101"), ("p", RECEIVER)
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_receipts_that_prove_nothing_are_not_counted(name: str) -> None:
    assert read_zap(BAD[name]) is None
    assert paid(BAD[name]) == []
    assert count.zaps(NOTE).hold(BAD[name]) is None


def test_the_query_counts_events_by_reading_them() -> None:
    asked = count.zaps(NOTE)
    held = asked.hold(receipt(zap_request()))
    assert held is not None
    assert (held.amount, held.author.hex()) == (21_000, SENDER.pubkey)
    assert asked.offset is None
    assert asked.filters[0].to_dict() == {"kinds": [9735], "#e": [NOTE]}


def test_replies_and_comments_share_their_registers() -> None:
    asked = count.replies_and_comments(NOTE)
    assert len(asked.filters) == 2
    assert asked.offset is not None


def test_receipts_claim_one_payment_where_the_invoice_is_the_same() -> None:
    tags = zap_tags("210n", RECEIVER)
    shouted = tuple((k, v.upper() if k == "bolt11" else v) for k, v in tags)
    later = zap_tags("210n", RECEIVER, at=9)
    made = [EventTemplate(kind=9735, tags=one, created_at=1) for one in (tags, shouted, later)]
    found = [read_zap(WALLET.sign_now(one).event) for one in made]
    payments = [zap.payment for zap in found if zap is not None]
    assert len(payments) == 3
    assert payments[0] == payments[1] != payments[2]


def test_the_payment_hash_of_an_invoice_is_read() -> None:
    assert parse_invoice(COFFEE).payment_hash == bytes.fromhex(
        "0001020304050607080900010203040506070809000102030405060708090102"
    )
    assert parse_invoice(invoice("210n")).payment_hash is None
