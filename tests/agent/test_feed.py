"""The event stream without sockets: numbers without gaps, bounds, ends."""

from __future__ import annotations

import msgspec
import pytest

from agent.api import schema
from agent.api.feed import KEPT_BYTES, SLOW, STOPPING, ApiFeed

STATUS = schema.AgentStatus(
    version="1",
    pid=1,
    started_at=0,
    uptime=0,
    ready=True,
    reasons=(),
    config="",
    store="",
    relay_url="",
    watches=0,
    syncs=0,
    relays=0,
    relays_connected=0,
    tasks=0,
    running=0,
    overdue=0,
)


def snapshot_of(feed: ApiFeed) -> schema.StateSnapshot:
    return schema.StateSnapshot(
        n=feed.n, run=feed.run, status=STATUS, watches=(), syncs=(), relays=()
    )


async def numbers(feed: ApiFeed, last: tuple[str, int] | None) -> list[int]:
    stream = feed.open(last, lambda: snapshot_of(feed))
    found = []
    while (message := await stream.next(0.001)) is not None:
        found.append(message[0])
    stream.close()
    return found


async def test_who_comes_again_gets_just_what_was_missed() -> None:
    feed = ApiFeed("run", 100)
    for _ in range(50):
        feed.publish(removed_watch="x")
    assert await numbers(feed, ("run", 40)) == list(range(41, 51))
    assert await numbers(feed, ("run", 50)) == []


@pytest.mark.parametrize("last", [None, ("other", 40), ("run", 51), ("run", 5)])
async def test_otherwise_it_begins_with_a_snapshot(last: tuple[str, int] | None) -> None:
    feed = ApiFeed("run", 20, kept=30)
    for _ in range(50):
        feed.publish(removed_watch="x")
    stream = feed.open(last, lambda: snapshot_of(feed))
    found = await stream.next(1)
    assert found is not None
    assert isinstance(msgspec.json.decode(found[1], type=schema.Message), schema.StateSnapshot)
    stream.close()
    assert feed.streams == 0


async def test_what_is_kept_is_bounded_by_bytes() -> None:
    feed = ApiFeed("run", 100)
    for _ in range(300):
        feed.publish(removed_watch="x" * 100_000)
    assert sum(len(data) for _, data in feed._kept) <= KEPT_BYTES
    assert await numbers(feed, ("run", 290)) == list(range(291, 301))


async def test_ends_are_told_once() -> None:
    feed = ApiFeed("run", 3)
    slow, kept = (feed.open(None, lambda: snapshot_of(feed)) for _ in range(2))
    for _ in range(3):
        assert await kept.next(1)
        feed.publish(removed_watch="x")
    feed.publish(removed_watch="x")
    feed.close()
    for stream, reason in ((slow, SLOW), (kept, STOPPING)):
        while True:
            found = await stream.next(1)
            assert found is not None
            message = msgspec.json.decode(found[1], type=schema.Message)
            if isinstance(message, schema.StreamEnd):
                break
        assert message.reason == reason
        with pytest.raises(EOFError):
            await stream.next(1)
