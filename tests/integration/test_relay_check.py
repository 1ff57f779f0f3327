"""`relay check` finds each planted defect, names it in a sentence, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from agent.relay.server import serve
from nostr_client.codecs.keys import KeySigner, verify
from nostr_client.network.check import CheckOutcome, CheckReport, check_relay
from nostr_client.network.check.findings import TESTS
from nostr_client.store.sqlite import SqliteStore
from tests.defects import DEFECTS, events_of
from tests.faults import Silent
from tests.faulty_relay import FaultyRelay
from tests.right_relay import INFO, Right, world
from tests.running import nostr_client

if TYPE_CHECKING:
    from pathlib import Path

OWN = KeySigner(bytes(31) + b"\x63")
SILENCE = 0.5
"""Seconds after which a relay of this process is silent: it has nothing else to do."""


def wrongs(report: CheckReport) -> dict[str, str]:
    return {one.test: one.text for one in report.wrong}


def skipped(report: CheckReport) -> dict[str, str]:
    found = (one for one in report.findings if one.outcome is CheckOutcome.NOT_TESTED)
    return {one.test: one.text for one in found}


async def test_a_right_relay_has_no_defect() -> None:
    async with FaultyRelay(Right(), events=world(), info=INFO) as relay:
        report = await check_relay(relay.url, signer=OWN, write=True)
        assert wrongs(report) == {}
        assert skipped(report) == {}
        assert [one.test for one in report.findings] == list(TESTS)
        sent = len(relay.received) + relay.connections + len(relay.accepts)
        assert report.requests == sent <= 200
        assert {one.pubkey for one in relay.events if one.kind == 5 and one.pubkey == OWN.pubkey}
        assert not [one for one in relay.events if one.pubkey == OWN.pubkey and one.kind != 5]


async def test_our_relay_has_no_defect(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "relay.db") as store:
        await store.save([verify(one) for one in world()])
        async with serve(store, port=0) as server:
            report = await check_relay(server.url, signer=OWN, write=True)
    assert wrongs(report) == {}
    assert set(skipped(report)) <= {"auth.spelling", "document.limits"}


@pytest.mark.parametrize("name", DEFECTS)
async def test_a_planted_defect_is_found(name: str) -> None:
    defect = DEFECTS[name]
    relay = FaultyRelay(
        defect.behaviour(), events=events_of(defect), info=defect.info, date=defect.date
    )
    wait = SILENCE if "answer" in defect.test or defect.word in ("NOTICE", "no NEG-ERR") else 10.0
    wait = SILENCE if defect.test in ("read.id", "neg.refusal") else wait
    async with relay:
        report = await check_relay(relay.url, signer=OWN, write=defect.writes, wait=wait)
    assert defect.word in wrongs(report).get(defect.test, ""), wrongs(report)
    assert report.requests <= 200


async def test_nothing_is_written_unless_asked_for() -> None:
    async with FaultyRelay(Right(), events=world(), info=INFO) as relay:
        report = await check_relay(relay.url, signer=OWN)
        assert not relay.verbs()["EVENT"]
    assert all(
        report.of(test).outcome is CheckOutcome.NOT_TESTED for test in TESTS if "write" in test
    )


async def test_a_budget_that_is_spent_leaves_tests_untested() -> None:
    async with FaultyRelay(Right(), events=world(), info=INFO) as relay:
        report = await check_relay(relay.url, most=12)
        assert len(relay.received) + relay.connections + len(relay.accepts) == 12
    assert report.requests == 12
    assert "12 messages" in report.of("count.exact").text
    assert not report.wrong


async def test_a_silent_relay_is_one_defect_and_no_more() -> None:
    async with FaultyRelay(Silent()) as relay:
        report = await check_relay(relay.url, wait=0.2)
    assert set(wrongs(report)) == {"read.answer"}
    assert report.of("count.exact").outcome is CheckOutcome.NOT_TESTED


async def test_an_empty_relay_has_no_defect() -> None:
    async with FaultyRelay(Right(), info=INFO) as relay:
        assert wrongs(await check_relay(relay.url)) == {}


async def test_the_command_reports_and_its_code_says_whether_one_is_wrong(tmp_path: Path) -> None:
    async with FaultyRelay(Right(), events=world(), info=INFO) as relay:
        done = await nostr_client("relay", "check", relay.url, "--json")
        assert done.code == 0, done.err
        report = json.loads(done.out)
        assert [one["test"] for one in report["findings"]] == list(TESTS)
    async with FaultyRelay(DEFECTS["`limit` is ignored"].behaviour(), events=world()) as relay:
        done = await nostr_client("relay", "check", relay.url)
    assert done.code == 1
    assert "read.limit" in done.out
    assert "For `limit` 3 it sends 120 events." in done.out
