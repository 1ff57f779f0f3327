"""Many cards, one key: the order stays, a remote signer gets few requests at once, and the ledger
reads a batch without sorting all cards."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from nostr_client.assertions import ledger
from nostr_client.assertions.signing import BATCH, REMOTE, batches, sign_all
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner, VerifiedEvent, verify
from nostr_client.errors import DeadlineExceeded

KEY = KeySigner(bytes([5]) * 32)


class RemoteKey:
    """A signer that is no key in memory; it counts the requests that wait together."""

    pubkey = KEY.pubkey

    def __init__(self, fails: str = "") -> None:
        self.waiting = self.most = 0
        self.fails = fails

    async def sign(self, template: EventTemplate) -> VerifiedEvent:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await asyncio.sleep(0)
        self.waiting -= 1
        if template.content == self.fails:
            raise DeadlineExceeded("the bunker gave no answer")
        return KEY.sign_now(template)


def templates(count: int) -> list[EventTemplate]:
    return [EventTemplate(kind=1, content=str(n), created_at=n) for n in range(count)]


async def test_the_order_of_the_templates_stays_over_chunks_and_requests() -> None:
    for signer, count in ((KEY, 300), (RemoteKey(), REMOTE)):
        signed = await sign_all(signer, templates(count))
        assert [one.content for one in signed] == [str(n) for n in range(count)]
        assert {verify(one.event).pubkey for one in signed} == {KEY.pubkey}


async def test_a_remote_signer_gets_few_requests_at_once() -> None:
    signer = RemoteKey()
    for some in batches(templates(3 * REMOTE), signer):
        await sign_all(signer, some)
    assert signer.most == REMOTE
    assert [len(some) for some in batches(templates(BATCH + 1), KEY)] == [BATCH, 1]


async def test_a_failure_is_the_error_of_the_signer() -> None:
    with pytest.raises(DeadlineExceeded, match="no answer"):
        await sign_all(RemoteKey(fails="3"), templates(REMOTE))


def test_a_batch_of_the_ledger_is_read_in_order_without_a_sort() -> None:
    conn = sqlite3.connect(":memory:")
    try:
        conn.executescript(ledger._TABLES)
        pending = _plan(conn, ledger._PENDING, ("signer", "relay", 5, 512))
        subjects = _plan(conn, ledger._SUBJECTS, ("signer", 30382, "ab", 512))
    finally:
        conn.close()
    assert "INTEGER PRIMARY KEY" in pending
    assert "(signer=? AND (kind,subject)>(?,?))" in subjects
    assert "TEMP B-TREE" not in pending + subjects


def _plan(conn: sqlite3.Connection, sql: str, values: tuple[object, ...]) -> str:
    return " ".join(row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {sql}", values))
