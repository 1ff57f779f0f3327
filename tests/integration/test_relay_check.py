"""`relay check` finds each planted defect, names it in a sentence, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agent.relay.server import serve
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner, verify
from nostr_client.network.check import CheckOutcome, CheckReport, check_relay
from nostr_client.network.check.findings import TESTS
from nostr_client.store.sqlite import SqliteStore
from tests.defects import DEFECTS, events_of
from tests.faults import Silent
from tests.faulty_relay import FaultyRelay
from tests.right_relay import INFO, NOW, SIGNERS, Right, world
from tests.running import nostr_client

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.event import Event
    from tests.faulty_relay import Peer

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
        assert skipped(report).keys() == {"read.expired"}
        assert [one.test for one in report.findings] == list(TESTS)
        sent = len(relay.received) + relay.connections + len(relay.accepts)
        assert report.requests == sent <= 200
        assert {one.pubkey for one in relay.events if one.kind == 5 and one.pubkey == OWN.pubkey}
        assert not [one for one in relay.events if one.pubkey == OWN.pubkey and one.kind != 5]
        left = [one.id for one in relay.events if one.pubkey == OWN.pubkey]
        assert list(report.remaining) == left
        assert len(left) == 2


async def test_our_relay_has_no_defect(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "relay.db") as store:
        await store.save([verify(one) for one in world()])
        async with serve(store, port=0) as server:
            report = await check_relay(server.url, signer=OWN, write=True)
    assert wrongs(report) == {}
    untested = {"auth.spelling", "document.limits", "document.auth", "read.expired"}
    assert set(skipped(report)) <= untested


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


async def test_what_stays_after_writing_is_said_before_and_after(tmp_path: Path) -> None:
    key = tmp_path / "key"
    assert (await nostr_client("key", "gen", "--output", str(key))).code == 0
    async with FaultyRelay(Right(), events=world(40), info=INFO) as relay:
        args = ("relay", "check", relay.url, "--write", "--key-file", str(key))
        done = await nostr_client(*args)
        left = [one.id for one in relay.events][-2:]
        # Events of the same key in the same second would be the deleted ones again.
        assert (await nostr_client("key", "gen", "--output", str(tmp_path / "other"))).code == 0
        again = (*args[:-1], str(tmp_path / "other"), "--json")
        told = json.loads((await nostr_client(*again)).out)
        quiet = await nostr_client("relay", "check", relay.url)
    assert done.code == 0, done.out
    assert "two deletion requests (kind 5) of your key stay on the relay" in done.err
    assert f"2 deletion requests of your key stay there: {', '.join(left)}" in done.err
    assert len(told["remaining"]) == 2
    assert "stay" not in quiet.err


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


SMALL = [
    SIGNERS[n]
    .sign_now(
        EventTemplate(kind=(1, 1, 7)[n], tags=(("p", SIGNERS[4].pubkey),), created_at=NOW - 900 - n)
    )
    .event
    for n in range(3)
]
BY_CHANCE = {
    ("`finish` is said of every page", 3),  # nothing more is held
    ("EOSE before the events", 0),  # no event follows
    ("The estimate of the registers is the count", 3),  # the estimate of three is three
}
"""Defects that do not show in a relay of so few events, and do no harm there."""


@pytest.mark.parametrize("events", [(), SMALL], ids=["none", "three"])
@pytest.mark.parametrize("name", [name for name, one in DEFECTS.items() if not one.writes])
async def test_no_test_is_right_that_a_defect_would_pass(name: str, events: list[Event]) -> None:
    """Where a relay has too little to show its defect, the test of it is not tested."""
    defect = DEFECTS[name]
    held = [*events, *defect.events] if events else ()
    relay = FaultyRelay(defect.behaviour(), events=held, info=defect.info, date=defect.date)
    async with relay:
        report = await check_relay(relay.url, signer=OWN, wait=SILENCE)
    shown = report.of(defect.test).outcome is not CheckOutcome.RIGHT
    assert shown != ((name, len(events)) in BY_CHANCE), report.of(defect.test)


@pytest.mark.parametrize("events", [(), SMALL], ids=["none", "three"])
async def test_a_right_relay_of_few_events_has_no_defect_and_says_what_is_not_tested(
    events: list[Event],
) -> None:
    async with FaultyRelay(Right(), events=events, info=INFO) as relay:
        report = await check_relay(relay.url)
    assert wrongs(report) == {}
    few = {"read.expired", "read.versions", "read.deleted", "document.limits"}
    assert skipped(report).keys() >= few
    assert all(skipped(report).values())


async def test_registers_that_no_event_shows_are_not_tested_for_that_reason() -> None:
    """All events come at once, and none of them has a tag."""
    events = [
        SIGNERS[0].sign_now(EventTemplate(kind=1, content=f"{n}", created_at=NOW - 99 * n)).event
        for n in range(1, 64)
    ]
    async with FaultyRelay(Right(), events=events, info=INFO) as relay:
        report = await check_relay(relay.url)
    assert "63 events, which come at once" in report.of("read.page").text
    assert "has a tag" in skipped(report)["count.registers"]


async def test_silence_to_what_a_relay_does_not_list_is_no_defect() -> None:
    class Quiet(DEFECTS["NEG-OPEN gets no answer"].behaviour):  # type: ignore[misc]
        async def on_count(self, peer: Peer, message: list[Any]) -> None:
            return

    for nips, defects in (([1, 9, 11], set()), ([1, 45, 77], {"count.answer", "neg.answer"})):
        info = {"name": "quiet", "supported_nips": nips}
        async with FaultyRelay(Quiet(), events=world(40), info=info) as relay:
            report = await check_relay(relay.url, wait=SILENCE)
        assert wrongs(report).keys() - {"document.nips"} == defects
        assert "does not list it" in report.of("neg.answer").text or defects


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
