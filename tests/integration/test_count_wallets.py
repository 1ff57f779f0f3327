"""Zaps beside the keys of the recipients' wallets: what they signed, and what is not known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from nostr_client.client import NostrClient
from nostr_client.codecs import nip19
from nostr_client.codecs.event import EventTemplate
from nostr_client.count import followers, zaps
from nostr_client.count.wallets import WalletStatus
from nostr_client.errors import InvalidInput
from nostr_client.network.outbox import RelayChoice
from nostr_client.options import ConnectionOptions, Options, Timeouts
from tests.faulty_relay import FaultyRelay
from tests.running import nostr_client
from tests.wallet import Answer, WalletServer, saying, silence
from tests.worlds import START, signer
from tests.zapping import zap_tags

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nostr_client.codecs.event import Event, Tags
    from nostr_client.count import Query
    from nostr_client.count.result import CountResult, VerifiedZaps

PERSON, OTHER, WALLET, FORGER = (signer(n) for n in (1, 2, 100, 101))
NPUB = nip19.PublicKey(PERSON.pubkey).encode()
DAY = 86_400


def made(n: int, kind: int, tags: Tags = (), content: str = "", at: int = 0) -> Event:
    template = EventTemplate(kind=kind, content=content, tags=tags, created_at=START + at)
    return signer(n).sign_now(template).event


def receipt(at: int, by: int = 100, to: int = 1, *more: tuple[str, str]) -> Event:
    """A receipt of 21 sats, signed by a wallet."""
    return made(by, 9735, zap_tags("210n", signer(to).pubkey, *more, at=at + 1_000 * by), at=at)


def profile(address: str, n: int = 1, at: int = 0) -> Event:
    return made(n, 0, content=json.dumps({"name": "x", "lud16": address}), at=at)


def options(*, local: bool = True, http: float = 10.0) -> Options:
    return Options(connection=ConnectionOptions(local_wallets=local), timeouts=Timeouts(http=http))


async def counted(
    events: Sequence[Event],
    query: Query | None = None,
    *,
    store: Path | None = None,
    now: int = 30 * DAY,
    how: Options | None = None,
) -> CountResult:
    async with (
        FaultyRelay(events=list(events)) as relay,
        NostrClient(relay.url, store=store, options=how or options(), now=lambda: START + now) as c,
    ):
        return await c.count(query or zaps(NPUB), verify_zaps=True)


async def verified(
    events: Sequence[Event],
    query: Query | None = None,
    *,
    store: Path | None = None,
    now: int = 30 * DAY,
    how: Options | None = None,
) -> VerifiedZaps:
    found = (await counted(events, query, store=store, now=now, how=how)).verified
    assert found is not None
    return found


def numbers(found: VerifiedZaps) -> tuple[int, int] | None:
    """Receipts and millisats that wallets signed, both lower bounds; None: not known."""
    if found.receipts is None or found.amount is None:
        assert found.receipts is found.amount
        return None
    assert found.receipts.high is found.amount.high is None
    return found.receipts.value, found.amount.value


async def test_what_the_wallet_signed_is_told_from_what_receipts_claim() -> None:
    async with WalletServer(WALLET.pubkey) as wallet:
        events = [profile(wallet.address("me")), receipt(0), receipt(1), receipt(2, by=101)]
        result = await counted(events)
    assert result.merged.amount is not None
    assert result.merged.amount.value == 3 * 21_000
    assert result.verified is not None
    assert numbers(result.verified) == (2, 2 * 21_000)
    assert wallet.asked == ["/.well-known/lnurlp/me"]
    assert result.to_dict()["verified"]["receipts"] == 2


async def test_nobody_is_asked_unless_it_is_wanted() -> None:
    async with (
        WalletServer(WALLET.pubkey) as wallet,
        FaultyRelay(events=[profile(wallet.address("me")), receipt(0)]) as relay,
        NostrClient(relay.url, options=options()) as client,
    ):
        result = await client.count(zaps(NPUB))
    assert result.verified is None
    assert "verified" not in result.to_dict()
    assert wallet.asked == []


async def test_only_zaps_that_are_read_are_verified() -> None:
    async with FaultyRelay() as relay, NostrClient(relay.url) as client:
        with pytest.raises(InvalidInput, match="only zaps"):
            await client.count(followers(NPUB), verify_zaps=True)
        with pytest.raises(InvalidInput, match="only zaps"):
            await client.count(zaps(NPUB), read=False, verify_zaps=True)


async def test_the_newest_profile_says_which_wallet_it_is() -> None:
    async with WalletServer(WALLET.pubkey) as wallet:
        old, new = profile("me@old.example", at=0), profile(wallet.address("me"), at=9)
        assert numbers(await verified([old, new, receipt(0)])) == (1, 21_000)


async def test_the_profile_may_be_at_an_indexer() -> None:
    async with (
        WalletServer(WALLET.pubkey) as wallet,
        FaultyRelay(events=[receipt(0)]) as relay,
        FaultyRelay(events=[profile(wallet.address("me"))]) as indexer,
        NostrClient(
            relay.url, options=options(), choice=RelayChoice(indexers=(indexer.url,))
        ) as client,
    ):
        found = (await client.count(zaps(NPUB), verify_zaps=True)).verified
    assert found is not None
    assert numbers(found) == (1, 21_000)


async def test_each_of_those_who_share_a_zap_has_a_wallet() -> None:
    note = made(1, 1, (("zap", OTHER.pubkey, "wss://r.example", "1"),))
    async with WalletServer(WALLET.pubkey) as mine, WalletServer(FORGER.pubkey) as other:
        events = [
            note,
            profile(mine.address("me")),
            profile(other.address("you"), n=2),
            receipt(1, 100, 1, ("e", note.id)),
            receipt(2, 101, 2, ("e", note.id)),
            receipt(3, 101, 1, ("e", note.id)),
        ]
        found = await verified(events, zaps(note.id))
    assert numbers(found) == (2, 2 * 21_000)
    assert {one.recipient for one in found.wallets} == {PERSON.pubkey, OTHER.pubkey}


async def test_one_wallet_that_fails_leaves_the_other_ones_sum() -> None:
    note = made(1, 1, (("zap", OTHER.pubkey, "wss://r.example", "1"),))
    async with WalletServer(WALLET.pubkey) as wallet:
        events = [
            note,
            profile(wallet.address("me")),
            receipt(1, 100, 1, ("e", note.id)),
            receipt(2, 101, 2, ("e", note.id)),
        ]
        found = await verified(events, zaps(note.id))
    assert numbers(found) == (1, 21_000)
    assert [one.status for one in found.unknown] == [WalletStatus.NO_PROFILE]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (saying(404), WalletStatus.INVALID),
        (saying(200, body=b"<html>"), WalletStatus.INVALID),
        (saying(200, body=b'{"status":"ERROR","reason":"gone"}'), WalletStatus.INVALID),
        (saying(200, body=b" " * 300_000), WalletStatus.INVALID),
        (saying(302, Location="/again"), WalletStatus.INVALID),
        (saying(302, Location="file:///etc/passwd"), WalletStatus.NO_ADDRESS),
        (silence, WalletStatus.TIMEOUT),
    ],
)
async def test_a_wallet_that_gives_no_answer_is_a_status_and_no_zero(
    answer: Answer, status: WalletStatus
) -> None:
    async with WalletServer() as wallet:
        wallet.answer = answer
        events = [profile(wallet.address("me")), receipt(0)]
        result = await counted(events, how=options(http=1.5))
    assert result.verified is not None
    assert numbers(result.verified) is None
    assert [one.status for one in result.verified.wallets] == [status]
    assert result.to_dict()["verified"]["amount"] is None
    assert len(wallet.asked) <= 4


async def test_a_wallet_that_is_down_is_unreachable() -> None:
    async with WalletServer(WALLET.pubkey) as wallet:
        address = wallet.address("me")
    found = await verified([profile(address), receipt(0)])
    assert numbers(found) is None
    assert [one.status for one in found.wallets] == [WalletStatus.UNREACHABLE]


async def test_a_wallet_that_signs_no_zaps_signed_none_of_these() -> None:
    async with WalletServer() as wallet:
        found = await verified([profile(wallet.address("me")), receipt(0)])
    assert numbers(found) == (0, 0)
    assert found.wallets[0].status is WalletStatus.NO_ZAPS


async def test_no_receipts_need_no_wallet() -> None:
    async with WalletServer(WALLET.pubkey) as wallet:
        found = await verified([profile(wallet.address("me"))])
    assert numbers(found) == (0, 0)
    assert wallet.asked == []


async def test_where_no_relay_answers_nothing_is_verified() -> None:
    async with NostrClient("ws://127.0.0.1:9", options=options()) as client:
        assert (await client.count(zaps(NPUB), verify_zaps=True)).verified is None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.0.0.1", "0x7f.1", "router.lan"])
async def test_no_profile_makes_us_call_this_machine_or_its_network(host: str) -> None:
    async with WalletServer(WALLET.pubkey) as wallet:
        events = [profile(f"me@{host}:{wallet.port}"), receipt(0)]
        found = await verified(events, how=options(local=False))
    assert [one.status for one in found.wallets] == [WalletStatus.REFUSED]
    assert numbers(found) is None
    assert wallet.asked == []


async def test_a_redirect_is_followed_to_another_host() -> None:
    async with WalletServer() as own, WalletServer(WALLET.pubkey) as service:
        own.answer = saying(301, Location=f"{service.origin}/lnurl/7")
        found = await verified([profile(own.address("me")), receipt(0)])
    assert numbers(found) == (1, 21_000)
    assert service.asked == ["/lnurl/7"]


async def test_an_answer_is_kept_for_a_day_and_keys_for_ever(tmp_path: Path) -> None:
    """The wallet changes: what the old one signed in its time still counts, and nothing later."""
    store = tmp_path / "s.db"
    async with WalletServer(WALLET.pubkey) as wallet:
        me = profile(wallet.address("me"))
        events = [me, receipt(DAY)]
        for hours in (0, 23):
            now = 2 * DAY + hours * 3_600
            assert numbers(await verified(events, store=store, now=now)) == (1, 21_000)
        assert len(wallet.asked) == 1
        wallet.key = FORGER.pubkey
        events += [receipt(10 * DAY), receipt(11 * DAY, by=101), receipt(DAY - 1, by=101)]
        found = await verified(events, store=store, now=9 * DAY)
        later = await verified(events, store=store, now=12 * DAY)
    assert [one.key for one in later.wallets[0].keys] == [WALLET.pubkey, FORGER.pubkey]
    assert len(wallet.asked) == 3
    assert numbers(later) == (2, 2 * 21_000)
    assert found.wallets[0].keys[-1].first_seen == START + 9 * DAY


async def test_a_wallet_that_fails_later_leaves_what_it_signed_before(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    async with WalletServer(WALLET.pubkey) as wallet:
        events = [profile(wallet.address("me")), receipt(DAY)]
        await verified(events, store=store, now=2 * DAY)
        wallet.answer = saying(500)
        found = await verified([*events, receipt(8 * DAY)], store=store, now=9 * DAY)
    assert numbers(found) == (1, 21_000)
    assert [one.status for one in found.unknown] == [WalletStatus.INVALID]


async def test_receipts_that_were_read_earlier_are_verified_too(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    async with (
        WalletServer(WALLET.pubkey) as wallet,
        FaultyRelay(
            events=[profile(wallet.address("me")), receipt(0), receipt(1, by=101)]
        ) as relay,
    ):
        for _ in range(2):
            async with NostrClient(
                relay.url, store=store, options=options(), now=lambda: START + DAY
            ) as client:
                result = await client.count(zaps(NPUB), verify_zaps=True)
                assert result.verified is not None
                assert numbers(result.verified) == (1, 21_000)


async def test_the_command_says_what_wallets_signed_and_what_is_not_known(tmp_path: Path) -> None:
    """The second run has the answer that the first one kept: this machine itself is refused."""
    store = str(tmp_path / "s.db")
    async with (
        WalletServer(WALLET.pubkey) as wallet,
        FaultyRelay(
            events=[profile(wallet.address("me")), receipt(0), receipt(1, by=101)]
        ) as relay,
    ):
        command = ("count", "zaps", NPUB, "-r", relay.url, "--store", store, "--verify-zaps")
        refused = await nostr_client(*command)
        assert "signed by the recipient's wallet: not known\n" in refused.out
        assert f"({NPUB}) at 127.0.0.1: refused: " in refused.out
        async with NostrClient(relay.url, store=store, options=options()) as client:
            await client.count(zaps(NPUB), verify_zaps=True)
        table = await nostr_client(*command)
        told = json.loads((await nostr_client(*command, "--json")).out)
    assert "signed by the recipient's wallet: at least 21 sats in 1 receipt\n" in table.out
    assert (told["amount"]["value"], told["verified"]["amount"]) == (42_000, 21_000)
    assert told["verified"]["wallets"][0]["status"] == "ok"
    assert refused.code == table.code == 0


async def test_the_command_verifies_nothing_but_zaps() -> None:
    done = await nostr_client("count", "followers", NPUB, "-r", "ws://127.0.0.1:9", "--verify-zaps")
    assert done.code == 2
    assert "--verify-zaps goes with zaps" in done.err
