"""How wallets are asked: one request a second at each host, and a bounded number of people."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import VerifiedEvent, verify
from nostr_client.count.wallets import WalletStatus
from nostr_client.count.wallets.asking import MOST_PEOPLE, Wallets
from nostr_client.network.paging.page import EventPage
from nostr_client.network.transport import Transport
from tests.worlds import START, signer
from tests.worlds.clock import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.count.wallets import Wallet
    from nostr_client.network.relay import Relay

KEY = "ab" * 32
ANSWER = json.dumps({"tag": "payRequest", "allowsNostr": True, "nostrPubkey": KEY}).encode()


def profile(n: int, host: str) -> VerifiedEvent:
    content = json.dumps({"lud16": f"n{n}@{host}"})
    return verify(
        signer(n).sign_now(EventTemplate(kind=0, content=content, tags=(), created_at=START)).event
    )


class Profiles:
    """A relay, as far as profiles are asked of it."""

    url = "wss://profiles.example"

    def __init__(self, *profiles: VerifiedEvent) -> None:
        self._profiles = profiles

    async def fetch(self, filters: Sequence[Filter], *_: Any, **__: Any) -> EventPage:
        found = [one for one in self._profiles if any(f.matches(one.event) for f in filters)]
        return EventPage(events=tuple(found), complete=True, frames=len(found), bytes=0)


class Noting(Transport):
    """Answers at once, and notes when each host was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, list[float]] = {}

    async def get_document(self, url: str, *, accept: str) -> bytes:
        host = url.split("/")[2]
        self.asked.setdefault(host, []).append(asyncio.get_running_loop().time())
        return ANSWER


def look_up(hosts: Sequence[str], seconds: float) -> tuple[Noting, tuple[Wallet, ...]]:
    """Look up one person at each host, in virtual time."""
    transport = Noting()

    async def main() -> tuple[Wallet, ...]:
        people = [profile(n, host) for n, host in enumerate(hosts)]
        relay = cast("Relay", Profiles(*people))
        wallets = Wallets(transport, now=lambda: float(START))
        return await wallets.look_up([one.event.pubkey for one in people], [relay], seconds)

    return transport, run(main)


def test_a_host_is_asked_once_a_second_and_others_meanwhile() -> None:
    transport, wallets = look_up(["one.example"] * 4 + ["two.example"] * 2, 60)
    assert [round(at, 3) for at in transport.asked["one.example"]] == [0, 1, 2, 3]
    assert [round(at, 3) for at in transport.asked["two.example"]] == [0, 1]
    assert {one.status for one in wallets} == {WalletStatus.OK}


def test_those_for_whom_the_time_was_too_short_are_late_and_not_zero() -> None:
    transport, wallets = look_up(["one.example"] * 5, 2.5)
    assert len(transport.asked["one.example"]) == 3
    late = [one for one in wallets if one.status is WalletStatus.TIMEOUT]
    assert len(late) == 2
    assert not any(one.is_known for one in late)


def test_a_count_asks_about_so_many_people_and_no_more() -> None:
    transport, wallets = look_up([f"h{n}.example" for n in range(MOST_PEOPLE + 3)], 60)
    assert len(transport.asked) == MOST_PEOPLE
    left = [one for one in wallets if one.status is WalletStatus.NOT_ASKED]
    assert len(left) == 3
    assert not any(one.is_known for one in left)
