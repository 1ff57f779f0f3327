"""Questions whose matching events are judged one by one: zaps, reactions, replies."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from nostr_client.client import NostrClient
from nostr_client.codecs.event import Event, EventTemplate, Tags
from nostr_client.count import (
    Query,
    followers,
    reactions,
    replies,
    replies_and_comments,
    zaps,
)
from tests.faults import COUNT_REFUSALS, RefusesCount
from tests.faulty_relay import FaultyRelay, Peer
from tests.onebyone import OneByOne
from tests.worlds import START, Sketches, signer
from tests.zapping import zap_tags

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from nostr_client.count.result import CountResult


def made(i: int, kind: int, tags: Tags = (), content: str = "", at: int = START) -> Event:
    template = EventTemplate(kind=kind, content=content, tags=tags, created_at=at)
    return signer(i).sign_now(template).event


NOTE = made(0, 1, (("zap", signer(1).pubkey, "wss://r.example", "1"),))


def receipt(i: int, receiver: str) -> Event:
    return made(100 + i, 9735, zap_tags("210n", receiver, ("e", NOTE.id), at=i), at=START + i)


RECEIPTS = [receipt(0, NOTE.pubkey), receipt(1, signer(1).pubkey), receipt(2, signer(2).pubkey)]


async def counted(query: Query, *relays: FaultyRelay, store: Path | None = None) -> CountResult:
    async with NostrClient([relay.url for relay in relays], store=store) as client:
        return await client.count(query)


async def test_zaps_may_pay_the_author_and_the_splits_and_nobody_else(tmp_path: Path) -> None:
    async with FaultyRelay(events=[NOTE, *RECEIPTS]) as relay:
        first = await counted(zaps(NOTE.id), relay, store=tmp_path / "s.db")
        relay.events.append(receipt(3, NOTE.pubkey))
        second = await counted(zaps(NOTE.id), relay, store=tmp_path / "s.db")
    for result, receipts in ((first, 2), (second, 3)):
        assert result.events is not None
        assert result.merged.amount is not None
        assert (result.events.value, result.merged.amount.value) == (receipts, receipts * 21_000)


async def test_one_relay_that_has_the_event_is_enough() -> None:
    async with FaultyRelay(events=RECEIPTS) as one, FaultyRelay(events=[NOTE]) as other:
        result = await counted(zaps(NOTE.id), one, other)
    assert result.events is not None
    assert (result.events.value, result.exact) == (2, True)


async def test_without_the_event_no_zap_is_proven(tmp_path: Path) -> None:
    """It is not known whom they may pay; once it is, what was read before is judged."""
    async with FaultyRelay(events=RECEIPTS) as relay:
        blind = await counted(zaps(NOTE.id), relay, store=tmp_path / "s.db")
        relay.events.append(NOTE)
        seeing = await counted(zaps(NOTE.id), relay, store=tmp_path / "s.db")
    assert not blind.exact
    assert blind.low in (0, None)
    assert blind.merged.amount is None
    assert any("event was not found" in w for w in blind.relays[0].warnings)
    assert seeing.events is not None
    assert (seeing.events.value, seeing.exact) == (2, True)


async def test_no_receipt_is_no_zap_wherever_the_event_is() -> None:
    async with FaultyRelay() as relay:
        result = await counted(zaps(NOTE.id), relay)
    assert (result.value, result.exact) == (0, True)


ADDRESS = f"30023:{signer(0).pubkey}:slug"


async def test_the_newest_version_of_an_address_says_who_may_be_paid() -> None:
    old = made(0, 30023, (("d", "slug"), ("zap", signer(2).pubkey)))
    new = made(0, 30023, (("d", "slug"), ("zap", signer(1).pubkey)), at=START + 1)
    paid = [
        made(100 + i, 9735, zap_tags("210n", signer(i).pubkey, ("a", ADDRESS), at=i), at=START + i)
        for i in range(3)
    ]
    async with FaultyRelay(events=[old, *paid]) as one, FaultyRelay(events=[new, *paid]) as other:
        result = await counted(zaps(ADDRESS), one, other)
    assert result.events is not None
    assert result.events.value == 2


def reaction(i: int, content: str) -> Event:
    return made(i, 7, (("e", NOTE.id),), content, START + i)


@pytest.mark.parametrize("behaviour", [None, Sketches()])
async def test_reactions_are_split_by_content_where_they_are_read(
    behaviour: Sketches | None,
) -> None:
    events = [reaction(i, text) for i, text in enumerate(["+", "", "-", "🤙", "🤙", "🤙"])]
    asked = msgspec.structs.replace(reactions(NOTE.id), by_content=True)
    async with (
        FaultyRelay(behaviour, events=events[:4]) as one,
        FaultyRelay(behaviour, events=events[2:]) as other,
    ):
        result = await counted(asked, one, other)
    assert result.contents == {"🤙": 3, "+": 2, "-": 1}
    assert list(result.contents) == ["🤙", "+", "-"]
    assert result.to_dict()["contents"] == result.contents
    assert (result.value, result.exact) == (6, True)


async def test_replies_are_direct_or_below_and_a_mention_is_none() -> None:
    other = "ab" * 32
    events = [
        made(1, 1, (("e", NOTE.id, "", "root"),)),
        made(2, 1, (("e", NOTE.id, "", "root"), ("e", other, "", "reply"))),
        made(3, 1, (("e", NOTE.id, "", "mention"),)),
        made(4, 1, (("e", NOTE.id),)),
    ]
    asked = msgspec.structs.replace(replies(NOTE.id), by_content=True)
    async with FaultyRelay(events=events) as relay:
        result = await counted(asked, relay)
    assert result.contents == {"direct": 2, "thread": 1}
    assert (result.value, result.exact) == (3, True)


def listed(i: int, *follows: str, at: int = START) -> Event:
    return made(i, 3, tuple(("p", key) for key in follows), at=at)


async def test_replies_and_comments_leave_out_what_replies_leave_out() -> None:
    mention = made(3, 1, (("e", NOTE.id, "", "mention"),))
    events = [made(1, 1, (("e", NOTE.id, "", "root"),)), mention, made(4, 1111, (("E", NOTE.id),))]
    async with FaultyRelay(events=events) as relay:
        alone = await counted(replies(NOTE.id), relay)
        both = await counted(replies_and_comments(NOTE.id), relay)
    assert (alone.value, both.value, both.exact) == (1, 2, True)
    assert not any("count: it says" in text for text in both.relays[0].warnings)


async def test_replies_to_an_address_are_split_too() -> None:
    address = f"30023:{NOTE.pubkey}:x"
    events = [
        made(1, 1, (("a", address, "", "root"),)),
        made(2, 1, (("a", address, "", "root"), ("e", "ab" * 32, "", "reply"))),
        made(3, 1, (("a", address, "", "mention"),)),
    ]
    query = msgspec.structs.replace(replies(address), by_content=True)
    async with FaultyRelay(events=events) as relay:
        result = await counted(query, relay)
    assert (result.value, result.contents) == (2, {"direct": 1, "thread": 1})


FOLLOWED = signer(50).pubkey


@asynccontextmanager
async def unfollowed() -> AsyncIterator[tuple[FaultyRelay, FaultyRelay]]:
    """A relay with six lists that hold FOLLOWED, and one whose newer list of person 0 does not."""
    old = [listed(i, FOLLOWED) for i in range(6)]
    new = [listed(0, at=START + 9), listed(1, FOLLOWED, at=START + 9)]
    older = listed(2, at=START - 9)  # says nothing: the list with the key is newer
    plain = RefusesCount(COUNT_REFUSALS["closed, khatru"])
    async with (
        FaultyRelay(plain, events=old) as stale,
        FaultyRelay(plain, events=[*new, older, *old[3:]]) as fresh,
    ):
        yield stale, fresh


@pytest.mark.parametrize("registers", [True, False])
async def test_an_expired_event_that_a_relay_serves_counts_whatever_the_method(
    registers: bool,
) -> None:
    tags = (("e", NOTE.id), ("p", NOTE.pubkey), ("expiration", str(START + 1)))
    events = [NOTE, made(1, 7, tags[:2], "+"), made(2, 7, tags, "+")]
    behaviours = (Sketches(),) if registers else (RefusesCount(COUNT_REFUSALS["notice, rnostr"]),)
    async with FaultyRelay(*behaviours, events=events) as relay:
        result = await counted(reactions(NOTE.id), relay)
    assert result.value == 2


async def test_who_unfollowed_comes_off_where_a_relay_has_the_newer_list() -> None:
    async with unfollowed() as (stale, fresh):
        result = await counted(followers(FOLLOWED), stale, fresh)
        alone = await counted(followers(FOLLOWED), stale)
    assert (result.value, result.exact) == (5, True)
    assert (result.relays[0].count, result.relays[1].count) == (5, 4)
    assert (alone.value, alone.exact) == (6, True)  # as this relay says


async def test_who_unfollowed_comes_off_where_relays_are_asked_one_by_one() -> None:
    async with (
        unfollowed() as (stale, fresh),
        OneByOne([stale, fresh], followers(FOLLOWED)) as one_by_one,
    ):
        first = await one_by_one.ask(0)
        assert (first.value, first.exact) == (6, True)  # as this relay says
        result = await one_by_one.ask(1)
        assert (result.value, result.exact) == (5, True)
        assert [claim.count for claim in result.relays] in ([5, 4], [4, 5])
        asked = sum("authors" in message[2] for message in fresh.received if message[0] == "REQ")
        assert (await one_by_one.ask(1)).value == 5
        fresh.events.append(listed(0, FOLLOWED, at=START + 20))
        back = await one_by_one.ask(1)
        assert (back.value, asked > 0) == (6, True), "whoever follows again counts again"


async def test_an_author_of_whom_a_relay_was_not_asked_may_have_left() -> None:
    target = signer(50).pubkey
    plain = RefusesCount(COUNT_REFUSALS["closed, khatru"])
    held = [listed(i, target) for i in range(6)]
    async with (
        FaultyRelay(plain, events=held) as one,
        FaultyRelay(plain, events=held) as other,
        OneByOne([one, other], followers(target)) as one_by_one,
    ):
        assert (await one_by_one.ask(0, 1)).exact
        one.events.append(listed(6, target, at=START + 9))
        late = await one_by_one.ask(0)
        assert (late.value, late.exact) == (7, False)
        texts = [text for claim in late.relays for text in claim.warnings]
        why = f"lists of 1 author could not be compared ({other.url}"
        assert any(why in text and "number is not exact" in text for text in texts), texts
        again = await one_by_one.ask(1)
        assert (again.value, again.exact) == (7, True)


async def test_what_was_compared_holds_when_claims_are_explained_later(tmp_path: Path) -> None:
    target = signer(50).pubkey
    plain = RefusesCount(COUNT_REFUSALS["closed, khatru"])
    async with (
        FaultyRelay(plain, events=[listed(i, target) for i in range(4)]) as stale,
        FaultyRelay(plain, events=[listed(0, at=START + 9)]) as fresh,
        NostrClient([stale.url, fresh.url], timeout=4, store=tmp_path / "s.db") as client,
    ):
        counted_now = await client.count(followers(target))
        explained = await client._counter.explain(followers(target))
    assert (counted_now.value, explained.value) == (3, 3)


class ForgetsAuthors(RefusesCount):
    """Answers nothing that is asked by author."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        if "authors" not in message[2]:
            await super().on_req(peer, message)


async def test_lists_that_cannot_be_compared_make_the_number_not_exact() -> None:
    target = signer(50).pubkey
    refuses = COUNT_REFUSALS["closed, khatru"]
    async with (
        FaultyRelay(RefusesCount(refuses), events=[listed(i, target) for i in range(9)]) as one,
        FaultyRelay(ForgetsAuthors(refuses), events=[listed(i, target) for i in range(6)]) as two,
        NostrClient([one.url, two.url], timeout=2) as client,
    ):
        result = await client.count(followers(target))
    assert (result.value, result.exact) == (9, False)
    assert result.low is not None
    assert result.low <= 6
    (text,) = (one for one in result.relays[0].warnings if "could not be compared" in one)
    assert text == (
        "followers: the newest lists of 3 authors could not be compared"
        f" ({two.url}: no EOSE before the deadline), so they may have unfollowed:"
        " the number is not exact"
    )


def copied(i: int, receipt: Event, *, at: int) -> Event:
    """The same receipt under another key: another event that claims the same payment."""
    return made(i, 9735, receipt.tags, at=at)


async def test_what_several_receipts_claim_of_one_payment_counts_once(tmp_path: Path) -> None:
    copies = [copied(200 + i, RECEIPTS[0], at=START + 50 + i) for i in range(3)]
    async with (
        FaultyRelay(events=[NOTE, *RECEIPTS[:2], copies[0]]) as one,
        FaultyRelay(events=[NOTE, *RECEIPTS[:2], *copies[1:]]) as other,
    ):
        found = [await counted(zaps(NOTE.id), one, other, store=tmp_path / "s.db") for _ in "ab"]
        fresh = await counted(zaps(NOTE.id), one, other)
    for result in (*found, fresh):
        assert result.events is not None
        assert result.merged.amount is not None
        assert (result.events.value, result.merged.amount.value) == (2, 2 * 21_000)
        texts = [text for claim in result.relays for text in claim.warnings]
        assert any("1 receipt of payments that other receipts claim" in text for text in texts)
        assert any("2 receipts of payments that other receipts claim" in text for text in texts)


async def test_a_receipt_of_less_under_a_known_payment_lowers_nothing() -> None:
    """The amount stands in the invoice, so a smaller one is another payment."""
    less = made(300, 9735, zap_tags("10n", NOTE.pubkey, ("e", NOTE.id), at=0), at=START - 9)
    async with FaultyRelay(events=[NOTE, RECEIPTS[0], less]) as relay:
        result = await counted(zaps(NOTE.id), relay)
    assert result.merged.amount is not None
    assert result.merged.amount.value == 22_000
