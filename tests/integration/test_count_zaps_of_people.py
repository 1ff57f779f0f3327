"""Zaps of a person: what a receipt names says whether it may pay that person."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from nostr_client.cli.count.command import second_lines
from nostr_client.client import NostrClient
from nostr_client.codecs import nip19
from nostr_client.codecs.event import EventTemplate
from nostr_client.count import zaps
from nostr_client.options import ReadBudget
from nostr_client.watch.live import MISSED
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.worlds import START, signer
from tests.zapping import zap_tags

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.event import Event, Tags
    from nostr_client.count.result import CountResult

PERSON, OTHER = signer(1), signer(2)
ZAPS = zaps(nip19.PublicKey(PERSON.pubkey).encode())


def made(n: int, kind: int, tags: Tags = (), at: int = 0) -> Event:
    return signer(n).sign_now(EventTemplate(kind=kind, tags=tags, created_at=START + at)).event


OWN = made(1, 1)
FOREIGN = made(2, 1)
SHARED = made(2, 1, (("zap", PERSON.pubkey, "wss://r.example", "1"),), at=1)
ARTICLE = made(2, 30_023, (("d", "a:b"), ("zap", PERSON.pubkey, "wss://r.example", "1")))
OTHERS_ARTICLE = made(2, 30_023, (("d", "x"),))


def receipt(at: int, *more: tuple[str, str]) -> Event:
    return made(100, 9735, zap_tags("210n", PERSON.pubkey, *more, at=at), at=at)


def address(event: Event) -> tuple[str, str]:
    return "a", f"{event.kind}:{event.pubkey}:{event.first_tag('d')}"


async def counted(*relays: FaultyRelay, store: Path | None = None) -> CountResult:
    async with NostrClient([relay.url for relay in relays], store=store) as client:
        return await client.count(ZAPS)


def numbers(result: CountResult) -> tuple[int, int, bool, int]:
    """Receipts and the proven ones of them, whether that is exact, and the proven sum in sats."""
    events, amount = result.events, result.merged.amount
    assert events is not None
    assert amount is not None
    assert amount.exact == events.exact
    return events.value, events.low, events.exact, amount.low // 1_000


async def test_a_zap_that_names_nothing_is_the_persons() -> None:
    async with FaultyRelay(events=[receipt(0), receipt(1)]) as relay:
        assert numbers(await counted(relay)) == (2, 2, True, 42)


async def test_a_zap_of_an_event_pays_its_author_or_a_split_and_nobody_else() -> None:
    receipts = [receipt(n, ("e", one.id)) for n, one in enumerate((OWN, SHARED, FOREIGN))]
    async with FaultyRelay(events=[OWN, SHARED, FOREIGN, *receipts]) as relay:
        result = await counted(relay)
    assert numbers(result) == (2, 2, True, 42)
    assert any("1 invalid receipt" in w for w in result.relays[0].warnings)


async def test_a_zap_of_an_address_is_judged_by_its_newest_version() -> None:
    receipts = [receipt(n, address(one)) for n, one in enumerate((ARTICLE, OTHERS_ARTICLE))]
    async with FaultyRelay(events=[ARTICLE, OTHERS_ARTICLE, *receipts]) as relay:
        assert numbers(await counted(relay)) == (1, 1, True, 21)


async def test_an_address_of_the_persons_own_needs_no_look() -> None:
    own = ("a", f"30023:{PERSON.pubkey}:gone")
    async with FaultyRelay(events=[receipt(0, own)]) as relay:
        assert numbers(await counted(relay)) == (1, 1, True, 21)


async def test_what_no_relay_gives_is_counted_said_and_not_proven() -> None:
    async with FaultyRelay(
        events=[OWN, receipt(0, ("e", OWN.id)), receipt(1, ("e", "ab" * 32))]
    ) as r:
        result = await counted(r)
    assert numbers(result) == (2, 1, False, 21)
    assert result.high is None
    assert any(
        "1 receipt names an event that was not found" in w for w in result.relays[0].warnings
    )
    assert "amount: 42 sats, at least 21 sats, as receipts claim" in second_lines(result)


async def test_of_a_reading_that_was_cut_the_low_end_is_what_is_proven() -> None:
    receipts = [receipt(n, ("e", "ab" * 32)) for n in range(3)] + [receipt(9)]
    async with (
        FaultyRelay(events=receipts) as relay,
        NostrClient(relay.url, budget=ReadBudget(events=2)) as client,
    ):
        result = await client.count(ZAPS)
    value, low, exact, sats = numbers(result)
    assert (low, exact, sats) == (1, False, 21)
    assert value in (1, 2)


async def test_names_that_are_none_are_never_asked_for() -> None:
    odd = [("e", "x"), ("a", "30023:short:x"), ("a", f"1:{OTHER.pubkey}:" + "d" * 2_000)]
    async with FaultyRelay(events=[receipt(n, one) for n, one in enumerate(odd)]) as relay:
        assert numbers(await counted(relay)) == (3, 0, False, 0)
        asked = [part for message in relay.received for part in message if isinstance(part, dict)]
    asked = [one for one in asked if one["kinds"] != [62]]  # who vanished
    assert all("ids" not in one and "authors" not in one for one in asked)


async def test_any_relay_of_the_question_may_have_the_event() -> None:
    async with (
        FaultyRelay(events=[receipt(0, ("e", FOREIGN.id)), receipt(1, ("e", OWN.id))]) as one,
        FaultyRelay(events=[OWN, FOREIGN, receipt(0, ("e", FOREIGN.id))]) as other,
    ):
        assert numbers(await counted(one, other)) == (1, 1, True, 21)


async def test_a_relay_that_is_silent_about_events_delays_nobody_for_long() -> None:
    class SilentAboutIds(Behaviour):
        async def on_req(self, peer: Peer, message: list[Any]) -> None:
            if "ids" not in message[2]:
                await super().on_req(peer, message)

    receipts = [receipt(0), receipt(1, ("e", "ab" * 32))]
    async with AsyncExitStack() as stack:
        relays = [
            await stack.enter_async_context(FaultyRelay(SilentAboutIds(), events=list(receipts)))
            for _ in range(4)
        ]
        client = await stack.enter_async_context(NostrClient([r.url for r in relays], timeout=6))
        result = await client.count(ZAPS)
    assert numbers(result)[:3] == (2, 1, False)
    assert not any("in time" in text for one in result.relays for text in one.warnings)


async def test_what_was_not_found_is_looked_for_again_and_what_was_judged_stays_so(
    tmp_path: Path,
) -> None:
    events = [receipt(0, ("e", OWN.id)), receipt(1, ("e", FOREIGN.id)), receipt(2)]
    async with FaultyRelay(events=events) as relay:
        assert numbers(await counted(relay, store=tmp_path / "s.db"))[:3] == (3, 1, False)
        relay.events += [OWN, FOREIGN]
        assert numbers(await counted(relay, store=tmp_path / "s.db"))[:2] == (2, 2)
        del relay.events[-2:]
        assert numbers(await counted(relay, store=tmp_path / "s.db"))[:2] == (2, 2)


async def test_a_live_receipt_is_judged_as_its_relay_is_asked_again() -> None:
    began = time.monotonic()
    async with (
        FaultyRelay(events=[OWN, FOREIGN, receipt(0)]) as relay,
        NostrClient(relay.url, now=lambda: START + time.monotonic() - began) as client,
        client.watch(ZAPS, interval=3_600) as results,
    ):
        assert numbers(await anext(results)) == (1, 1, True, 21)
        while not any(one[0] == "REQ" and one[2].get("limit") == MISSED for one in relay.received):
            await relay.heard("REQ", relay.verbs()["REQ"] + 1)  # it does not listen yet
        steps = {
            "ab" * 32: (2, 1, False, 21),  # no relay gives this event
            FOREIGN.id: (2, 1, False, 21),
            OWN.id: (3, 2, False, 42),
        }
        for at, (named, said) in enumerate(steps.items(), start=1):
            await relay.broadcast(receipt(at, ("e", named)))
            assert numbers(await anext(results)) == said
