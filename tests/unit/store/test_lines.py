"""Lines of files from elsewhere: long ones, joined ones, gzipped ones, marked ones."""

from __future__ import annotations

import gzip
import io

import pytest

from nostr_client.errors import InvalidInput
from nostr_client.store import lines as module
from nostr_client.store.lines import is_gzip, joined, read_lines, unpacked

PLAIN = b"".join(b"line %d\n" % n for n in range(5_000))


def file(content: bytes) -> io.BufferedReader:
    return io.BufferedReader(io.BytesIO(content))


def test_lines_are_split_at_newlines_alone_and_long_ones_are_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LINE_LIMIT", 8)
    text = "a\u2028b\n\r\n" + "x" * 30 + "\n12345678\n" + "y" * 100
    chunks = list(read_lines(io.BytesIO(text.encode()), chunk=2))
    lines = [line.text for chunk in chunks for line in chunk]
    assert lines == ["a\u2028b".encode(), b"x" * 9, b"12345678", b"y" * 9]
    assert max(map(len, chunks)) == 2


def test_files_are_joined_even_when_a_last_line_does_not_end() -> None:
    stream = joined([io.BytesIO(b"a\nb"), io.BytesIO(b""), io.BytesIO(b"c\n")])
    assert [line.text for part in read_lines(stream, 5) for line in part] == [b"a", b"b", b"c"]


def test_a_byte_order_mark_is_no_part_of_a_file_and_none_elsewhere_is_dropped() -> None:
    mark = b"\xef\xbb\xbf"
    stream = joined([file(mark + b"a\n" + mark + b"b"), file(mark), file(mark + b"\nc\n")])
    assert [line.text for part in read_lines(stream, 5) for line in part] == [
        b"a",
        mark + b"b",
        b"c",
    ]


def test_what_is_gzipped_is_read_as_what_is_not() -> None:
    packed = file(gzip.compress(PLAIN[:20_000]) + gzip.compress(PLAIN[20_000:]))
    stream = joined([unpacked(packed), unpacked(file(b"more"))])
    read = [line.text for chunk in read_lines(stream, 64) for line in chunk]
    assert read == [*PLAIN.splitlines(), b"more"]


@pytest.mark.parametrize("content", [b"", b"\x1f", b"{}", b"\x8b\x1f"])
def test_what_is_not_gzipped_is_itself(content: bytes) -> None:
    stream = file(content)
    assert not is_gzip(stream)
    assert unpacked(stream) is stream
    assert stream.read() == content


@pytest.mark.parametrize("damage", ["cut", "flipped", "followed by noise"])
def test_damaged_gzip_is_told(damage: str) -> None:
    packed = bytearray(gzip.compress(PLAIN))
    if damage == "cut":
        del packed[-100:]
    elif damage == "flipped":
        packed[200] ^= 0xFF
    else:
        packed += b"noise"
    stream = unpacked(file(bytes(packed)))
    with pytest.raises(InvalidInput, match="gzip"):
        list(read_lines(stream, 64))
