"""A count that stops when it has enough, by what relays said before."""

from __future__ import annotations

import json
import time
from contextlib import AsyncExitStack
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from nostr_client import count, hll
from nostr_client.client import NostrClient
from nostr_client.codecs.nip19 import PublicKey
from nostr_client.count.claims import ClaimBook
from nostr_client.count.merge import Claim, ClaimStatus, Method
from nostr_client.count.remembering import asked_of
from nostr_client.errors import InvalidInput
from tests.faulty_relay import FaultyRelay
from tests.running import nostr_client
from tests.worlds.people import TARGET, Sketches, follow

if TYPE_CHECKING:
    from pathlib import Path

NPUB = PublicKey(TARGET).encode()
PARTS = [range(400), range(200), range(100, 300), range(50), range(390, 410)]


async def test_the_second_count_asks_few_and_says_who_was_not_asked(tmp_path: Path) -> None:
    query = count.followers(NPUB)
    async with AsyncExitStack() as stack:
        relays = [
            await stack.enter_async_context(
                FaultyRelay(Sketches(), events=[follow(i) for i in part])
            )
            for part in PARTS
        ]
        urls = [one.url for one in relays]
        async with NostrClient(urls, store=tmp_path / "s.db") as client:
            first = await client.count(query, enough=0.1)
            assert first.unasked is not None
            assert (first.answered, first.unasked.known) == (5, ())
            second = await client.count(query, enough=0.1)
        assert second.unasked is not None
        assert relays[0].url in {claim.relay for claim in second.relays}
        assert second.answered < 5
        assert second.answered + len(second.unasked.known) == 5
        assert second.unasked.confirmed_high <= second.unasked.high < 0.1
        assert second.lower_bound
        assert not second.exact
        args = [arg for url in urls for arg in ("-r", url)]
        done = await nostr_client(
            "count", "followers", NPUB, *args, "--enough", "10%", "--store", f"{tmp_path}/s.db"
        )
        assert done.code == 0, done.err
        assert "not asked: " in done.out
        assert "of the people whom two relays give" in done.out
        done = await nostr_client(
            "count", "followers", NPUB, *args, "--enough", "10%", "--store", f"{tmp_path}/s.db",
            "--json",
        )  # fmt: skip
        assert json.loads(done.out)["unasked"]["known"]


async def test_relays_without_common_people_are_all_asked_again(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        relays = [
            await stack.enter_async_context(
                FaultyRelay(Sketches(), events=[follow(i) for i in part])
            )
            for part in (range(200), range(200, 600))
        ]
        urls = [one.url for one in relays]
        async with NostrClient(urls, store=tmp_path / "s.db") as client:
            await client.count(count.followers(NPUB), enough=0.1)
            second = await client.count(count.followers(NPUB), enough=0.1)
        assert second.answered == 2
        assert second.unasked is not None
        assert second.unasked.relays == ()


async def test_a_relay_whose_earlier_answer_is_excluded_is_not_asked_and_bounds_nothing(
    tmp_path: Path,
) -> None:
    people = [range(200)] * 4
    async with AsyncExitStack() as stack:
        relays = [
            await stack.enter_async_context(
                FaultyRelay(Sketches(), events=[follow(i) for i in part])
            )
            for part in (*people, range(200, 2_000))
        ]
        urls = [one.url for one in relays]
        async with NostrClient(urls, store=tmp_path / "s.db") as client:
            first = await client.count(count.followers(NPUB), enough=0.1)
            assert first.merged.excluded or "left out" in str(first.merged.parts)
            second = await client.count(count.followers(NPUB), enough=0.1)
        assert second.unasked is not None
        assert second.unasked.excluded == (urls[-1],)
        assert second.answered == 1
        assert second.unasked.high < 0.1


async def test_what_cannot_be_told_is_refused(tmp_path: Path) -> None:
    async with FaultyRelay(Sketches(), events=[follow(1)]) as relay:
        async with NostrClient([relay.url]) as client:
            with pytest.raises(InvalidInput, match="give a store"):
                await client.count(count.followers(NPUB), enough=0.1)
        async with NostrClient([relay.url], store=tmp_path / "s.db") as client:
            with pytest.raises(InvalidInput, match=r"finer line than 5%.* and the store has 0"):
                await client.count(count.followers(NPUB), enough=0.03)
            with pytest.raises(InvalidInput, match="no line below 2%"):
                await client.count(count.followers(NPUB), enough=0.01)
            with pytest.raises(InvalidInput, match="registers"):
                await client.count(count.zaps(NPUB), enough=0.1)
        for text, hint in (
            ("much", "write for instance 10% or 0.1"),
            ("10", "write 10%"),
            ("150%", "write for instance 10% or 0.1"),
        ):
            done = await nostr_client("count", "followers", NPUB, "-r", relay.url, "--enough", text)
            assert done.code == 2
            assert hint in " ".join(done.err.split())


async def test_a_finer_line_needs_other_questions_that_all_relays_answered(tmp_path: Path) -> None:
    now = time.time()
    people = [f"{n:064x}" for n in range(1_000)]
    async with AsyncExitStack() as stack:
        relays = [
            await stack.enter_async_context(
                FaultyRelay(Sketches(), events=[follow(i) for i in range(part)])
            )
            for part in (300, 300, 298)
        ]
        urls = [one.url for one in relays]
        book = await ClaimBook.open(tmp_path / "s.db")
        for n in range(20):
            query = count.followers(f"{n + 1:064x}")
            assert query.offset is not None
            keys = [sha256(f"{n} {one}".encode()).hexdigest() for one in people]
            registers = hll.from_pubkeys(keys, query.offset)
            claims = [
                (
                    url,
                    Claim(
                        relay=url, status=ClaimStatus.OK, method=Method.HLL, count=1_000,
                        registers=registers, asked_at=now - n * 86_400,
                    ),
                )
                for url in urls
            ]  # fmt: skip
            await book.remember(asked_of(query), claims)
        asked = asked_of(count.followers(NPUB))
        assert len(await book.registers_of(asked, now - 9.5 * 86_400, 100)) == 10
        assert len(await book.registers_of(asked, 0.0, 7)) == 7
        await book.close()
        async with NostrClient(urls, store=tmp_path / "s.db") as client:
            first = await client.count(count.followers(NPUB), enough=0.03)
            assert first.answered == 3
            second = await client.count(count.followers(NPUB), enough=0.03)
        assert second.answered == 1
        assert second.unasked is not None
        assert second.unasked.high < 0.03
