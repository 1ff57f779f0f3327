"""Frames as RFC 6455 has them; that clients read them is tested over sockets."""

from __future__ import annotations

import pytest

from agent.relay.server import text_frames


@pytest.mark.parametrize(
    ("size", "header"),
    [(0, "8100"), (125, "817d"), (126, "817e007e"), (65_535, "817effff"),
     (65_536, "817f0000000000010000")],
)  # fmt: skip
def test_headers(size: int, header: str) -> None:
    made = text_frames([b"x" * size])
    assert made == bytes.fromhex(header) + b"x" * size


def test_sizes_are_bytes_and_not_characters() -> None:
    assert text_frames(["é".encode() * 63]) == b"\x81\x7e\x00\x7e" + "é".encode() * 63


def test_nothing() -> None:
    assert text_frames([]) == b""
