"""Lines of files from elsewhere: long ones, joined ones, gzipped ones, marked ones."""

from __future__ import annotations

import gzip
import io

import pytest

from nostr_client.errors import InvalidInput
from nostr_client.store import event_lines as module
from nostr_client.store.event_lines import JoinedLines, is_gzip, read_lines, unpacked

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
    stream = JoinedLines([io.BytesIO(b"a\nb"), io.BytesIO(b""), io.BytesIO(b"c\n")])
    assert [line.text for part in read_lines(stream, 5) for line in part] == [b"a", b"b", b"c"]


def test_a_byte_order_mark_is_no_part_of_a_file_and_none_elsewhere_is_dropped() -> None:
    mark = b"\xef\xbb\xbf"
    stream = JoinedLines([file(mark + b"a\n" + mark + b"b"), file(mark), file(mark + b"\nc\n")])
    assert [line.text for part in read_lines(stream, 5) for line in part] == [
        b"a",
        mark + b"b",
        b"c",
    ]


def test_what_is_gzipped_is_read_as_what_is_not() -> None:
    packed = file(gzip.compress(PLAIN[:20_000]) + gzip.compress(PLAIN[20_000:]))
    stream = JoinedLines([unpacked(packed), unpacked(file(b"more"))])
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


def test_a_small_file_that_unpacks_to_much_is_refused_after_its_lines() -> None:
    packed = gzip.compress(PLAIN + b"\n" * 63_000_000)
    lines = read_lines(unpacked(file(packed)), 10_000)
    assert [line.text for line in next(lines)] == PLAIN.splitlines()
    with pytest.raises(InvalidInput, match="more than 100 times its size"):
        list(lines)


def test_what_unpacks_to_little_is_read_however_well_it_packs() -> None:
    packed = gzip.compress(b"\n" * 15_000_000 + b"end")
    assert [one for part in read_lines(unpacked(file(packed)), 9) for one in part] == [
        (15_000_001, b"end")
    ]


class Counting(io.BytesIO):
    """Counts calls: blank lines are to be skipped many at a time."""

    calls = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        self.calls += 1
        return super().readline(size)

    def peek(self, size: int = 0, /) -> bytes:
        self.calls += 1
        return self.getvalue()[self.tell() : self.tell() + 65_536]


@pytest.mark.parametrize("blank", [b"\n", b" \r\n", b"\t \n\n"])
def test_blank_lines_cost_nothing_and_are_numbered(blank: bytes) -> None:
    text = (blank * 3_000_000)[: 3_000_000 - 3_000_000 % len(blank)]
    stream = Counting(b"a\n" + text + b"  b\nc\n" + text + b"d")
    lists = list(read_lines(stream, 100))
    found = [line for part in lists for line in part]
    assert [line.text for line in found] == [b"a", b"b", b"c", b"d"]
    number = text.count(b"\n")
    assert [line.number for line in found] == [1, number + 2, number + 3, 2 * number + 4]
    assert stream.calls < 1_000


def test_a_reader_gets_its_turn_while_all_is_blank() -> None:
    lists = list(read_lines(file(b"\n" * (3 * module.STEP_BYTES)), 100))
    assert lists == [[], [], []]


@pytest.mark.parametrize("line", [b"[", b"]", b"],", b"[]", b"[ ],", b"[ ,", b"] ,"])
def test_a_line_without_an_event_is_not_parsed(
    line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Millions of them pack to some kilobytes: an exception for each takes most of a minute."""
    parsed: list[bytes] = []
    monkeypatch.setattr(module, "parse_event", parsed.append)
    assert module.parse_event_line(line) == []
    assert parsed == []
