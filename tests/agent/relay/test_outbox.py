"""The outbox is bounded, keeps its order, and lets producers wait for their reader."""

from __future__ import annotations

import asyncio
import sys

from agent.relay.outbox import BATCH, FRAME_BYTES, Outbox, OutboxBudget, size_of


def texts(number: int, frames: int) -> int:
    """The limit that so many bytes of text in so many frames just reach."""
    return number + frames * FRAME_BYTES


async def test_frames_come_in_order() -> None:
    box = Outbox(1_000, 10)
    assert all(box.put(text) for text in (b"a", b"b"))
    assert box.take() == [b"a", b"b"]
    assert box.is_empty


async def test_large_frames_are_taken_apart() -> None:
    box = Outbox(10 * BATCH, 10)
    for text in (b"a", b"x" * BATCH, b"b", b"y" * 2 * BATCH):
        box.put(text)
    sizes = [len(box.take()) for _ in range(4)]
    assert sizes == [1, 1, 1, 1]
    assert box.is_empty


async def test_a_reader_that_is_too_far_behind_gets_nothing_more() -> None:
    box = Outbox(texts(10, 2), 5)
    assert box.put(b"x" * 8)
    assert not box.put(b"y" * 3)
    assert box.bytes == texts(8, 1)
    assert box.put(b"z" * 2)


async def test_the_smallest_frames_wait_in_no_more_memory_than_large_ones() -> None:
    """The bound is one of memory, of a reader and of all together, not only of texts."""
    most = 1_000_000
    budget = OutboxBudget(most)
    boxes = [Outbox(most // 2, 100, budget) for _ in range(3)]
    waiting = []
    for box in boxes:
        for n in range(most):
            frame = b"[%d]" % n
            if not box.put(frame):
                break
            waiting.append(frame)
    assert len(waiting) > 1_000
    assert sum(map(sys.getsizeof, waiting)) + 8 * len(waiting) <= most
    assert budget.bytes == sum(map(size_of, waiting))
    for box in boxes:
        box.close()
    assert budget.bytes == 0


async def test_one_frame_above_the_size_passes_alone() -> None:
    box = Outbox(10, 5)
    assert box.put(b"x" * 50)
    assert not box.put(b"y")


async def test_producers_wait_until_little_is_left() -> None:
    box = Outbox(1_000, texts(5, 1))
    await box.wait_low()
    box.put(b"x" * 4)
    box.put(b"y" * 4)
    waiting = asyncio.ensure_future(box.wait_low())
    await asyncio.sleep(0)
    assert not waiting.done()
    box.take()
    await asyncio.sleep(0)
    assert not waiting.done()  # the frames are still on their way
    assert box.take() == []
    await waiting


async def test_all_frames_or_none_are_put_while_little_is_left() -> None:
    box = Outbox(1_000, texts(10, 2))
    assert box.put_all([])
    assert not box.put_all([b"x" * 6, b"y" * 5])
    assert box.is_empty
    assert box.put_all([b"x" * 6, b"y" * 4])
    assert box.is_low
    assert not box.put_all([b"z"])
    assert box.take() == [b"x" * 6, b"y" * 4]
    assert not box.put_all([b"z"])  # the frames are still on their way
    assert box.take() == []
    assert box.put_all([b"z"])
    assert box.take() == [b"z"]
