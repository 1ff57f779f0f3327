"""Computes the stages `tags` and `registers` in numpy, chunk by chunk.

Pairs of target and author are by far the most of a rebuild, so they never are rows of Spark: all
authors of one target in one chunk are one row, with their keys in one binary value. The chunks
are bounded, and what comes of them is merged after a shuffle, so they may be cut anywhere. A
target with very many authors is split by the register that they fall into: no worker has them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from agent.reindex.parquet import SCHEMAS, arrow
from agent.reindex.spark.columns import KEY, binary_array, decode_others
from nostr_client import hll
from nostr_client.hll.registers import places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Batches = Iterator[pa.RecordBatch]
    Held = list[pa.RecordBatch]
    Bytes = NDArray[np.uint8]

TAKEN: Final = ["kind", "pubkey", "targets", "others"]
"""The columns of events that are grouped."""

TAGS: Final = "target binary, kind int, events int, authors binary"
SPREAD: Final = "t long, part int, target binary, authors binary"
GROUPS: Final = "t long, part int, n int, keys binary, counts binary, registers binary"
HOT: Final = SCHEMAS["hot"]
PAIRS: Final = SCHEMAS["hot_author"]

CHUNK: Final = 1_000_000
"""Events and pairs grouped in one step: about 150 bytes each of a worker's memory."""

SPLIT: Final = 1_000_000
"""Events of a target from which its authors are split."""

_RECORD: Final = 1 + KEY
_TEXT: Final = 0x80
"""What marks the name of a target that is not 32 bytes in hex."""


def name_and_value(target: bytes) -> tuple[str, str]:
    """What a staged `target` names."""
    if target[0] & _TEXT:
        return chr(target[0] ^ _TEXT), target[1:].decode()
    return chr(target[0]), target[1:].hex()


def grouped(batches: Batches) -> Batches:
    """Batches of events with columns TAKEN to TAGS, a row for each target and kind of a chunk."""
    for held in chunks(batches):
        yield _of_keys(held)
        texts = _of_texts(held)
        if texts:
            yield rows(TAGS_ARROW, texts)


def chunks(batches: Batches) -> Iterator[Held]:
    """Batches of events, as many at once as are grouped at once."""
    held: Held = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += len(batch) + len(data_of(batch.column(2))) // _RECORD
        if size >= CHUNK:
            yield held
            held, size = [], 0
    if held:
        yield held


def _of_keys(held: Held) -> pa.RecordBatch:
    """The groups of targets that are keys."""
    counts = np.concatenate([lengths(batch.column(2)) for batch in held]) // _RECORD
    authors = np.concatenate([matrix_of(data_of(batch.column(1)), KEY) for batch in held])
    kinds = np.concatenate([batch.column(0).to_numpy() for batch in held]).astype("<i4")
    event = np.repeat(np.arange(len(counts)), counts)
    whole = np.empty((len(event), 4 + _RECORD), np.uint8)
    whole[:, :4] = kinds[event].view(np.uint8).reshape(-1, 4)
    whole[:, 4:] = np.concatenate([matrix_of(data_of(b.column(2)), _RECORD) for b in held])
    codes, values = coded(whole)
    order = np.sort(codes << 32 | np.arange(len(codes)))
    sizes = np.bincount(codes, minlength=len(values))
    columns = [
        binary_array(values[:, 4:], np.ones(len(values), np.int64)),
        pa.array(np.ascontiguousarray(values[:, :4]).view("<i4").ravel()),
        pa.array(sizes.astype(np.int32)),
        binary_array(authors[event[order & 0xFFFFFFFF]], sizes),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=TAGS_ARROW)


def _of_texts(held: Held) -> list[tuple[bytes, int, int, bytes]]:
    """The same of other targets, which are few."""
    found: dict[tuple[bytes, int], list[bytes]] = {}
    for batch in held:
        if not len(data_of(batch.column(3))):
            continue
        for kind, pubkey, texts in zip(
            *(batch.column(at).to_pylist() for at in (0, 1, 3)), strict=True
        ):
            for text in decode_others(texts) if texts else ():
                target = bytes([ord(text[0]) | _TEXT]) + text[1:].encode()
                found.setdefault((target, kind), []).append(pubkey)
    return [(*key, len(who), b"".join(who)) for key, who in found.items()]


def spread(split: int) -> Callable[[Batches], Batches]:
    """Rows (t, target, events, authors) of what has very many events to SPREAD: the authors
    parted by the register that they fall into, `split` events a part."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            made = []
            for t, target, events, authors in zip(
                *(column.to_pylist() for column in batch.columns), strict=True
            ):
                parts = min(hll.M, -(-events // split))
                keys = matrix_of(np.frombuffer(authors, np.uint8), KEY)
                offset = _offset(target)
                part = keys[:, 0 if offset is None else offset].astype(np.int64) * parts // hll.M
                made += [
                    (t, one, target, keys[part == one].tobytes())
                    for one in np.unique(part).tolist()
                ]
            yield rows(SPREAD_ARROW, made)

    return run


def merged(batches: Batches) -> Batches:
    """Rows of SPREAD, sorted by t and part, to GROUPS: each author once, and how often."""
    for whole in whole_groups(batches):
        yield _merged(whole)


def whole_groups(batches: Batches) -> Batches:
    """Rows that are sorted by their first two columns, cut anywhere, cut between groups alone: of
    rows that are equal in the two."""
    rest: pa.RecordBatch | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch] if rest is None else [rest, batch])
        (whole,) = table.combine_chunks().to_batches(max_chunksize=None) or [batch]
        last = _last_group(whole)
        rest = whole.slice(last)
        if last:
            yield whole.slice(0, last)
    if rest is not None and len(rest):
        yield rest


def _last_group(batch: pa.RecordBatch) -> int:
    """Where the last group begins: the next batch may go on with it."""
    starts = starts_of(batch)
    return int(starts[-1]) if len(starts) else 0


def starts_of(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Where each group begins."""
    first, second = (batch.column(at).to_numpy() for at in (0, 1))
    if not len(first):
        return np.empty(0, np.int64)
    changes = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    return np.flatnonzero(np.r_[True, changes])


def _merged(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Whole groups to GROUPS."""
    starts = starts_of(batch)
    counts = np.add.reduceat(lengths(batch.column(3)) // KEY, starts)
    codes, values = coded(matrix_of(data_of(batch.column(3)), KEY))
    pairs = np.repeat(np.arange(len(starts)), counts) << 32 | codes
    pairs, n = np.unique(pairs, return_counts=True)
    group, keys = pairs >> 32, values[pairs & 0xFFFFFFFF]
    sizes = np.bincount(group, minlength=len(starts))
    offsets = [_offset(target) for target in batch.column(2).take(pa.array(starts)).to_pylist()]
    columns = [
        batch.column(0).take(pa.array(starts)),
        batch.column(1).take(pa.array(starts)),
        pa.array(sizes.astype(np.int32)),
        binary_array(keys, sizes),
        binary_array(n.astype("<i4").view(np.uint8).reshape(-1, 4), sizes),
        binary_array(registers(keys, group, offsets), np.ones(len(starts), np.int64)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=GROUPS_ARROW)


def registers(keys: Bytes, group: NDArray[np.int64], offsets: list[int | None]) -> Bytes:
    """The (groups, 256) registers of keys; all zero where a group has no offset."""
    at = np.array([8 if one is None else one for one in offsets], np.int64)
    flat = np.ascontiguousarray(keys).reshape(-1)
    # Eight neighbours from any byte on, as one big-endian word: the register, and 56 bits.
    windows = np.ndarray((max(0, len(flat) - 7),), ">u8", flat, 0, (1,))
    words = windows[np.arange(len(keys)) * KEY + at[group]].astype(np.uint64)
    cell, rank = places(words)
    found = np.zeros(len(offsets) * hll.M, np.uint8)
    np.maximum.at(found, group * hll.M + cell.astype(np.int64), rank.astype(np.uint8))
    table = found.reshape(-1, hll.M)
    table[[at for at, one in enumerate(offsets) if one is None]] = 0
    return table


def hot_rows(batches: Batches) -> Batches:
    """Rows (t, target, kind, events, authors, registers of the parts) to HOT."""
    for batch in batches:
        made = []
        for t, target, kind, events, authors, parts in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):
            whole = parts[0] if len(parts) == 1 else hll.merge(*parts)
            made.append((t, *name_and_value(target), kind, events, authors, whole))
        if made:
            yield rows(HOT_ARROW, made)


def pairs(batches: Batches) -> Batches:
    """Rows (t, keys, counts) of GROUPS to PAIRS: an author a row, for those who read the table."""
    for batch in batches:
        sizes = lengths(batch.column(1)) // KEY
        keys = matrix_of(data_of(batch.column(1)), KEY)
        n = np.frombuffer(data_of(batch.column(2)), "<i4").astype(np.int64)
        t = np.repeat(batch.column(0).to_numpy(), sizes)
        columns = [pa.array(t), binary_array(keys, np.ones(len(keys), np.int64)), pa.array(n)]
        yield pa.RecordBatch.from_arrays(columns, schema=PAIRS_ARROW)


def _offset(target: bytes) -> int | None:
    """Where the registers of a target begin in a key, if the target has any."""
    name, value = name_and_value(target)
    return hll.offset({f"#{name}": [value]})


def coded(matrix: Bytes) -> tuple[NDArray[np.int64], Bytes]:
    """A number for each row, equal ones for equal rows, and the rows that they stand for."""
    width = matrix.shape[1]
    flat = pa.py_buffer(np.ascontiguousarray(matrix))
    plain = pa.Array.from_buffers(pa.binary(width), len(matrix), [None, flat])
    coded = plain.dictionary_encode()
    values = np.frombuffer(coded.dictionary.buffers()[1], np.uint8)
    return coded.indices.to_numpy().astype(np.int64), matrix_of(values, width)[
        : len(coded.dictionary)
    ]


def lengths(column: pa.Array) -> NDArray[np.int64]:
    """How many bytes each value of a binary column has."""
    return np.diff(_ends(column)).astype(np.int64)


def _ends(column: pa.Array) -> NDArray[np.int32]:
    """The offsets of a column of binary values; a column without rows may have none."""
    if not len(column):
        return np.zeros(1, np.int32)
    return np.frombuffer(column.buffers()[1], np.int32)[column.offset :][: len(column) + 1]


def data_of(column: pa.Array) -> Bytes:
    """The bytes of all values of a binary column, without a copy."""
    ends = _ends(column)
    if ends[-1] == ends[0]:
        return np.empty(0, np.uint8)
    return np.frombuffer(column.buffers()[2], np.uint8)[ends[0] : ends[-1]]


def matrix_of(data: Bytes, width: int) -> Bytes:
    """Bytes as rows of `width`."""
    return data.reshape(-1, width)


def rows(schema: pa.Schema, values: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Rows of a schema as one batch."""
    found = list(zip(*values, strict=True)) or [() for _ in schema]
    arrays = [pa.array(column, field.type) for column, field in zip(found, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


TAGS_ARROW: Final = arrow(TAGS)
SPREAD_ARROW: Final = arrow(SPREAD)
GROUPS_ARROW: Final = arrow(GROUPS)
HOT_ARROW: Final = arrow(HOT)
PAIRS_ARROW: Final = arrow(PAIRS)
