"""`relay check` of the relays of others: what `relays.md` says of each, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.keys import KeySigner, verify
from nostr_client.network.check import CheckOutcome, check_relay
from tests.interop.test_sync_local_relay import load
from tests.peers.servers import local_relay, python_nostr_relay
from tests.right_relay import world

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.network.check import CheckReport

pytestmark = pytest.mark.interop


async def checked(url: str) -> CheckReport:
    await load(url, [verify(one) for one in world()])
    return await check_relay(url, signer=KeySigner(bytes(31) + b"\x63"), write=True, wait=5.0)


@pytest.mark.parametrize("newest", [False, True])
async def test_local_relay_is_reported_as_it_is_known(newest: bool) -> None:
    async with local_relay(newest=newest) as url:
        report = await checked(url)
    assert "first alone" in report.of("count.union").text
    assert report.of("count.limit").outcome is CheckOutcome.NOTED
    known = {"count.union", "read.refusal", "count.zero"}
    assert {one.test for one in report.wrong} == known | (set() if newest else {"neg.refusal"})


@pytest.mark.long
async def test_a_silent_relay_is_reported_as_it_is_known(tmp_path: Path) -> None:
    """PyPI nostr-relay: silence on COUNT and on what it does not know; its end is exclusive.

    It lists neither NIP-45 nor NIP-77, so silence about them is no defect.
    """
    async with python_nostr_relay(tmp_path) as url:
        report = await checked(url)
    silent = {"write.forged"}
    unlisted = {report.of(one) for one in ("count.answer", "neg.answer")}
    assert {one.outcome for one in unlisted} == {CheckOutcome.NOTED}
    assert all("does not list it" in one.text for one in unlisted)
    known = {
        *silent, "read.range", "read.refusal",
        "write.versions", "write.expired", "write.ephemeral", "write.deletion",
    }  # fmt: skip
    wrong = {one.test for one in report.wrong}
    assert silent <= wrong <= known
    assert all("does not answer" in report.of(one).text for one in silent)
    late = known - wrong  # on a busy machine an answer may come too late to be one
    untested = {report.of(one).outcome for one in (*late, "count.exact", "count.registers")}
    assert untested == {CheckOutcome.NOT_TESTED}
