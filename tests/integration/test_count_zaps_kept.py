"""Counts that look into events, over time: a relay counts and names every matching event."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from nostr_client import count
from nostr_client.client import NostrClient
from nostr_client.codecs import nip19
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from tests.faulty_relay import Behaviour, FaultyRelay
from tests.negrelay import SpeaksNeg
from tests.syncing import CONNECTION
from tests.zapping import zap_tags

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.event import Event

WALLET = KeySigner(sha256(b"wallet").digest())
RECEIVER = sha256(b"receiver").hexdigest()
ZAPS = count.zaps(nip19.PublicKey(RECEIVER).encode())
START = 1_700_000_000


def receipt(n: int) -> Event:
    """A receipt of 21 sats that holds."""
    template = EventTemplate(kind=9735, tags=zap_tags("210n", RECEIVER, at=n), created_at=START + n)
    return WALLET.sign_now(template).event


def junk(n: int) -> Event:
    """A matching receipt without an invoice."""
    template = EventTemplate(kind=9735, tags=(("p", RECEIVER),), created_at=START + n)
    return WALLET.sign_now(template).event


def relay_of(behaviour: Behaviour) -> FaultyRelay:
    events = [receipt(10_000 * n) for n in range(20)] + [junk(10_000 * n + 5) for n in range(30)]
    return FaultyRelay(behaviour, events=events)


async def test_an_equal_count_of_receipts_proves_no_number_of_zaps(tmp_path: Path) -> None:
    """A zap goes, and a receipt that does not hold comes late: the relay's count stays."""
    async with (
        relay_of(Behaviour()) as relay,
        NostrClient(relay.url, store=tmp_path / "s.db", options=CONNECTION) as client,
    ):
        first = await client.count(ZAPS)
        assert (first.value, first.exact) == (20, True)
        same = await client.count(ZAPS)
        assert (same.value, same.exact, same.high) == (20, False, None)
        del relay.events[3]
        relay.events.append(junk(7))
        again = await client.count(ZAPS)
        assert not again.exact
        assert again.low is not None
        assert again.low <= 20


async def test_a_count_of_receipts_shows_a_zap_that_is_gone(tmp_path: Path) -> None:
    async with (
        relay_of(Behaviour()) as relay,
        NostrClient(relay.url, store=tmp_path / "s.db", options=CONNECTION) as client,
    ):
        await client.count(ZAPS)
        del relay.events[3]
        again = await client.count(ZAPS)
    assert again.value == 19
    assert again.merged.amount is not None
    assert again.merged.amount.value == 19 * 21_000


async def test_receipts_that_do_not_hold_are_fetched_once(tmp_path: Path) -> None:
    behaviour = SpeaksNeg()
    async with (
        relay_of(behaviour) as relay,
        NostrClient(relay.url, store=tmp_path / "s.db", options=CONNECTION) as client,
    ):
        assert (await client.count(ZAPS)).value == 20
        relay.events += [receipt(400_000), junk(400_001)]
        again = await client.count(ZAPS)
        assert (again.value, again.exact) == (21, True)
        assert again.relays[0].events_read == 2 + 2
        same = await client.count(ZAPS)
    assert (same.value, same.exact, same.relays[0].events_read) == (21, True, 2)
