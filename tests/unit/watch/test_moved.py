"""How far a number moved: what two estimates differ by chance is no change."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client import count, hll
from nostr_client.codecs.filters import Filter
from nostr_client.count.merge import Claim, ClaimStatus, Method
from nostr_client.count.remembering import asked_of
from nostr_client.watch import Watch, WatchRepository
from nostr_client.watch.history import DAY, FIRST, HOUR, Point
from nostr_client.watch.moved import Change, change, moved
from nostr_client.watch.repository import asked
from tests.worlds import TARGET, signer

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable

A, B = "wss://a.example", "wss://b.example"
FOLLOWERS = count.followers(TARGET)
NOTES = count.query(Filter(kinds=[1]))
T0 = 20_000 * DAY


def sketch(people: Iterable[int]) -> bytes:
    assert FOLLOWERS.offset is not None
    return hll.from_pubkeys([signer(n).pubkey for n in people], FOLLOWERS.offset)


def made_up(people: int, seed: int) -> list[bytes]:
    rng = random.Random(seed)
    return [rng.randbytes(32) for _ in range(people)]


def claim(url: str, at: float, registers: bytes | None, method: Method = Method.HLL) -> Claim:
    return Claim(
        relay=url, status=ClaimStatus.OK, method=method, registers=registers, count=9, asked_at=at
    )


def number(at: int, value: int, low: int, high: int | None, *, exact: bool = False) -> Point:
    return Point.sample(at, value, low, high, exact=exact, unit="distinct_authors")


async def changed(
    claims: Iterable[Claim],
    then: Point,
    now: Point,
    *,
    query: count.Query = FOLLOWERS,
    relays: Collection[str] | None = None,
) -> Change | None:
    async with await WatchRepository.open(":memory:") as book:
        for one in claims:
            await book.claims.remember(asked_of(query), [(one.relay, one)])
        return await book.database.read(lambda c: change(c, query, then, now, relays=relays))


THEN, NOW = T0, T0 + HOUR
NOISE = number(THEN, 103, 95, 112), number(NOW, 100, 92, 109)


async def test_estimates_that_differ_by_chance_are_no_change() -> None:
    same = [claim(A, at, sketch(range(100))) for at in (THEN, NOW)]
    assert await changed(same, *NOISE) == Change(0, estimated=True)
    assert await changed(same, *reversed(NOISE)) == Change(0, estimated=True)


async def test_registers_that_rise_or_fall_are_a_change() -> None:
    few, many = sketch(range(100)), sketch(range(160))
    rise = await changed([claim(A, THEN, few), claim(A, NOW, many)], *NOISE)
    fall = await changed([claim(A, THEN, many), claim(A, NOW, few)], *NOISE)
    assert rise is not None
    assert fall is not None
    assert rise.estimated
    assert 30 <= rise.value <= 90
    assert fall.value == -rise.value


@pytest.mark.parametrize("seed", range(8))
async def test_one_in_thirty_is_seen_and_as_many_who_come_as_leave_are_none(seed: int) -> None:
    assert FOLLOWERS.offset is not None
    people = made_up(10_300, seed)
    old, new, other = (
        hll.from_pubkeys(some, FOLLOWERS.offset) for some in (people[:10_000], people, people[300:])
    )
    far = number(THEN, 10_000, 8_800, 11_200), number(NOW, 9_900, 8_700, 11_100)
    grew = await changed([claim(A, THEN, old), claim(A, NOW, new)], *far)
    assert grew is not None
    assert 100 <= grew.value <= 700
    swapped = await changed([claim(A, THEN, old), claim(A, NOW, other)], *far)
    assert swapped is not None
    assert abs(swapped.value) < 500


async def test_exact_numbers_differ_as_they_are() -> None:
    exact = number(THEN, 103, 103, 103, exact=True), number(NOW, 100, 100, 100, exact=True)
    registers = [claim(A, at, sketch(range(100))) for at in (THEN, NOW)]
    assert await changed(registers, *exact) == Change(-3)


async def test_numbers_without_registers_alone_differ_as_they_are() -> None:
    bounds = number(THEN, 32, 32, None), number(NOW, 33, 33, None)
    read = [claim(A, at, sketch(range(9)), Method.EVENTS) for at in (THEN, NOW)]
    assert await changed(read, *bounds) == Change(1)
    assert await changed([], *bounds, query=NOTES) == Change(1)
    with_registers = [*read, claim(B, NOW, sketch(range(9)))]
    assert await changed(with_registers, *bounds) == Change(0, estimated=True)


async def test_a_relay_that_is_not_believed_or_of_another_watch_moves_nothing() -> None:
    claims = [
        claim(A, THEN, sketch(range(100))),
        claim(B, THEN, sketch(range(100))),
        claim(A, NOW, sketch(range(100))),
        claim(B, NOW, sketch(range(300))),
    ]
    assert await changed(claims, *NOISE, relays={A}) == Change(0, estimated=True)
    both = await changed(claims, *NOISE, relays={A, B})
    assert both is not None
    assert both.value > 100


async def test_without_registers_of_both_times_nobody_knows_unless_the_numbers_are_far_apart() -> (
    None
):
    late = [claim(A, NOW, sketch(range(100)))]
    assert await changed(late, *NOISE) is None
    apart = number(THEN, 40, 30, 50), number(NOW, 100, 92, 109)
    assert await changed(late, *apart) == Change(60, estimated=True)


async def test_a_watch_says_how_far_it_moved_over_each_time() -> None:
    claims: list[tuple[int, int]] = [(0, 100), (2 * HOUR, 100), (3 * HOUR, 200)]
    async with await WatchRepository.open(":memory:") as book:
        await book.add(Watch(name="w", query="followers", target=TARGET))

        def record(conn: sqlite3.Connection, at: int, value: int) -> None:
            asked(conn, "w", T0 + at, number(T0 + at, value, value - 9, value + 9))

        async def said(at: int, **how: Any) -> dict[str, int | None]:
            now = number(T0 + at, 203, 190, 212)
            found = await book.database.read(lambda c: moved(c, "w", FOLLOWERS, now, **how))
            return found.changes

        for at, people in claims:
            one = claim(A, T0 + at, sketch(range(people)))
            await book.claims.remember(asked_of(FOLLOWERS), [(A, one)])
            await book.database.write(lambda c, at=at, n=people: record(c, at, n + 4))
        found = await said(3 * HOUR)
        assert found.keys() == {"1h", FIRST}
        assert all(value is not None and 50 < value < 160 for value in found.values())
        assert (await said(4 * HOUR + 60))["1h"] == 0
        assert FIRST not in await said(DAY)
        assert (await said(3 * HOUR, relays={B}))["1h"] == 99  # nobody of it gave registers
