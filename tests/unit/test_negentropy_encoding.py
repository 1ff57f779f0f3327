"""Bytes of negentropy messages: round trips, and whatever a stranger may send."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.errors import InvalidInput, NegentropyError
from nostr_client.negentropy.encoding import (
    FINGERPRINT,
    FRAME_MARGIN,
    ID_LIST,
    INFINITY,
    SKIP,
    Block,
    MessageReader,
    MessageWriter,
    decode_varint,
    encode_varint,
    varint,
)
from nostr_client.negentropy.reconcile import Initiator, Responder
from nostr_client.negentropy.storage import PlainStorage

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = {
    "truncated",
    "bad-version-byte",
    "unsupported-version",
    "bound-too-long",
    "bad-mode",
    "varint-overflow",
    "bad-bound-order",
}
U64 = st.integers(0, INFINITY)
BOUNDS = st.tuples(U64, st.binary(max_size=32).map(lambda raw: raw.rstrip(b"\0")))
ITEMS = PlainStorage((1000 + i // 3, bytes([i]) * 32) for i in range(100))


def ranges_of(message: bytes, most: int = 1000) -> list[tuple[int, bytes, int, bytes]]:
    reader = MessageReader(message)
    found: list[tuple[int, bytes, int, bytes]] = []
    while not reader.exhausted:
        found += zip(*reader.read(most), strict=True)
    return found


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(NegentropyError) as caught:
        call()
    assert caught.value.kind in KINDS
    return caught.value.kind


@given(U64)
def test_a_varint_comes_back(number: int) -> None:
    raw = encode_varint(number)
    assert varint(number) == raw
    assert decode_varint(raw, 0) == (number, len(raw))
    assert refusal(lambda: decode_varint(raw[:-1], 0)) == "truncated"


@pytest.mark.parametrize("number", [-1, 2**64])
def test_a_number_outside_64_bits_is_no_varint(number: int) -> None:
    with pytest.raises(InvalidInput):
        encode_varint(number)


@pytest.mark.parametrize("raw", [b"\x82" + b"\x80" * 8 + b"\0", b"\x80" * 10 + b"\0"])
def test_a_varint_of_more_than_64_bits_or_10_bytes_is_refused(raw: bytes) -> None:
    assert refusal(lambda: decode_varint(raw, 0)) == "varint-overflow"


@given(st.lists(BOUNDS, min_size=2, unique=True).map(sorted), st.data())
def test_written_ranges_are_read(bounds: list[tuple[int, bytes]], data: st.DataObject) -> None:
    floor, uppers = bounds[0], bounds[1:]
    listed = data.draw(st.lists(st.booleans(), min_size=len(uppers), max_size=len(uppers)))
    writer = MessageWriter()
    block = Block(
        floor,
        len(uppers),
        [stamp for stamp, _ in uppers],
        [prefix for _, prefix in uppers],
        list(range(len(uppers))),
        [None if ids else bytes([at % 256]) * 16 for at, ids in enumerate(listed)],
    )
    assert writer.write(block, lambda low, high: bytes([low % 256]) * 32) == len(uppers)
    message = writer.message()
    assert writer.size == len(message)
    wanted = [
        (*bound, ID_LIST if ids else FINGERPRINT, bytes([at % 256]) * (32 if ids else 16))
        for at, (bound, ids) in enumerate(zip(uppers, listed, strict=True))
    ]
    skip = [(*floor, SKIP, b"")] if floor != (0, b"") else []
    assert ranges_of(message) == ranges_of(message, 1) == skip + wanted


@given(st.integers(4096, 9000), st.integers(1, 200), st.integers(0, 40))
def test_what_does_not_fit_is_not_written(limit: int, parts: int, size: int) -> None:
    writer = MessageWriter(limit)
    stamps = [at * 1000 for at in range(1, parts + 1)]
    lows = list(range(0, parts * size, size)) if size else [0] * parts
    block = Block((1, b""), parts * size, stamps, [b"k"] * parts, lows, [None] * parts)
    written = writer.write(block, lambda low, high: bytes(32 * (high - low)))
    before = writer.size
    assert before == len(writer.message()) <= limit - FRAME_MARGIN
    if written < parts:
        assert before + 40 * 32 + 50 > limit - FRAME_MARGIN
    writer.tail((stamps[written], b"x" * 32) if written < parts else (INFINITY - 1, b""), bytes(16))
    assert writer.size == len(writer.message()) <= limit


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_a_typed_refusal(tail: bytes) -> None:
    for message in (tail, b"\x61" + tail):
        client, server = Initiator(ITEMS, frame_limit=4096), Responder(ITEMS, frame_limit=4096)
        client.initiate()
        for role in (client.reconcile, server.reconcile):
            try:
                role(message)
            except NegentropyError as error:
                assert error.kind in KINDS  # noqa: PT017


@given(st.data())
def test_a_changed_message_does_no_more_than_a_typed_refusal(data: st.DataObject) -> None:
    whole = bytearray(Initiator(ITEMS).initiate())
    for _ in range(data.draw(st.integers(1, 5))):
        whole[data.draw(st.integers(1, len(whole) - 1))] = data.draw(st.integers(0, 255))
    message = bytes(whole[: data.draw(st.integers(1, len(whole)))])
    try:
        reply = Responder(ITEMS).reconcile(message)
    except NegentropyError as error:
        assert error.kind in KINDS  # noqa: PT017
    else:
        ranges_of(reply)


@pytest.mark.parametrize("shift", [27, 31, 58, 59, 60, 63])
@pytest.mark.parametrize("role", ["client", "server"])
def test_an_announced_length_allocates_nothing(shift: int, role: str) -> None:
    message = bytes.fromhex("61000002") + encode_varint(1 << shift)
    client, server = Initiator(ITEMS), Responder(ITEMS)
    client.initiate()
    tracemalloc.start()
    try:
        reconcile = client.reconcile if role == "client" else server.reconcile
        assert refusal(lambda: reconcile(message)) == "truncated"
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("", "truncated"),
        ("6181", "truncated"),
        ("6100", "truncated"),
        ("610000", "truncated"),
        ("610004aabb", "truncated"),
        ("61000081", "truncated"),
        ("61000002", "truncated"),
        ("6100000201" + "00" * 31, "truncated"),
        ("61000001" + "00" * 15, "truncated"),
        ("5f", "bad-version-byte"),
        ("70", "bad-version-byte"),
        ("610021" + "00" * 40, "bound-too-long"),
        ("6100ff7f", "bound-too-long"),
        ("61000003", "bad-mode"),
        ("6100008102", "bad-mode"),
        ("61" + "ff" * 10 + "7f0000", "varint-overflow"),
        ("610202ffff00" + "010101" + "00", "bad-bound-order"),
    ],
)
def test_what_is_wrong_is_named(message: str, kind: str) -> None:
    assert refusal(lambda: Responder(ITEMS).reconcile(bytes.fromhex(message))) == kind


def test_bounds_that_are_equal_but_for_zeros_do_not_descend() -> None:
    assert len(ranges_of(bytes.fromhex("61" + "0202aa0000" + "0101aa00" + "0102aa0000"))) == 3


def test_timestamps_past_the_last_one_are_infinity() -> None:
    raw = b"\x61" + (encode_varint(INFINITY) + b"\0\0") * 3
    assert [found[0] for found in ranges_of(raw)] == [INFINITY - 1, INFINITY, INFINITY]
