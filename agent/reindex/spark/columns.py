"""Converts rows to Arrow batches of the plan's one input schema.

Tags are parsed once, here, where the rows pass through Python anyway: `targets` and `others` hold
the tracked targets of an event, each once; `tags` keeps the JSON of those few kinds whose tags a
later stage looks at; of a zap receipt it has what was paid for what.

A target that is an id or a key, as nearly all are, is 33 bytes: the tag's name and the 32. An
event's are one binary value, so that Spark, which is slow with arrays, moves one value for each
event and not one for each tag. `others` is binary too, and empty where there are none: for a batch
that is limited in bytes Spark goes through all nulls in front of a row once again for each row.
"""

from __future__ import annotations

import itertools
import re
from binascii import hexlify, unhexlify
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from agent.reindex.parquet import arrow
from nostr_client.codecs import kinds
from nostr_client.codecs.event import Event
from nostr_client.codecs.zaps import claimed
from nostr_client.store.index.schema import TRACKED_NAMES
from nostr_client.store.rows import encode_tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Tags = tuple[tuple[str, ...], ...]

SCHEMA: Final = (
    "seq long, id binary, pubkey binary, created_at long, kind int, d string, exp long,"
    " targets binary, others binary, tags string"
)

ARROW: Final = arrow(SCHEMA)

KEY: Final = 32
"""Bytes of an id or a pubkey."""

LOOKED_AT: Final = frozenset({kinds.DELETION, kinds.VANISH, kinds.GIFT_WRAP, kinds.ZAP})
"""Kinds whose tags decide more than targets."""

PAYMENT: Final = "payment"
"""What the tags of a zap receipt name beside its targets: the payment, msats, who pays whom."""

encode_others: Final = msgspec.msgpack.Encoder().encode
decode_others: Final = msgspec.msgpack.Decoder(list[str]).decode

_IS_KEY: Final = re.compile(r"[0-9a-f]{64}").fullmatch


def batch(rows: Iterable[Sequence[Any]]) -> pa.RecordBatch:
    """Rows, with the columns of `event_rows.EventRow`, as one batch."""
    *columns, tags = zip(*rows, strict=True)
    return from_columns(columns, tags)


def from_columns(columns: Sequence[Sequence[Any]], tags: Iterable[Tags]) -> pa.RecordBatch:
    """The same from columns (seq to exp); `tags` may be made as they are taken."""
    _, ids, pubkeys, created_at, kind, *_ = columns
    found = _Targets()
    kept: list[str | None] = []
    for at, (k, one) in enumerate(zip(kind, tags, strict=True)):
        found.add(k, one)
        if k in LOOKED_AT:
            event = Event(ids[at].hex(), pubkeys[at].hex(), created_at[at], k, one, "", "")
            kept.append(_kept(event))
        else:
            kept.append(None)
    fields = list(ARROW)
    arrays = [pa.array(values, f.type) for values, f in zip(columns, fields[:7], strict=True)]
    last = pa.array(kept, pa.string())
    return pa.RecordBatch.from_arrays([*arrays, *found.arrays(), last], schema=ARROW)


def _kept(event: Event) -> str:
    if event.kind != kinds.ZAP:
        return encode_tags(event.tags).decode()
    found = claimed(event)
    if found is None:
        return "[]"
    zap, payments = found
    tags: list[tuple[str, ...]] = [(name, value, str(msats)) for name, value, msats in payments]
    tags.append((PAYMENT, zap.payment.hex(), str(zap.amount), zap.sender, zap.receiver))
    return encode_tags(tags).decode()


class _Targets:
    """Collects the tracked targets of event after event, flat: names, values, how many each."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._values: list[str] = []
        self._counts: list[int] = []

    def add(self, kind: int, tags: Tags) -> None:
        """Take the targets of one event."""
        wanted = TRACKED_NAMES.get(kind)
        if wanted is None:
            self._counts.append(0)
            return
        if len(wanted) == 1:  # contact lists, which have most of all tags
            (name,) = wanted
            values = {tag[1] for tag in tags if tag[0] == name and len(tag) > 1}
            self._names.append(name * len(values))
            self._values += values
        else:
            values = {tag[0] + tag[1] for tag in tags if tag[0] in wanted and len(tag) > 1}
            self._names += [one[0] for one in values]
            self._values += [one[1:] for one in values]
        self._counts.append(len(values))

    def arrays(self) -> tuple[pa.Array, pa.Array]:
        """`targets` and `others`."""
        keys, held = _keys(self._values)
        names = np.frombuffer("".join(self._names).encode(), np.uint8)
        event = np.repeat(np.arange(len(self._counts)), self._counts)
        records = np.empty((len(keys), 1 + KEY), np.uint8)
        records[:, 0] = names if held is None else names[held]
        records[:, 1:] = keys
        per_event = np.bincount(event if held is None else event[held], minlength=len(self._counts))
        targets = binary_array(records, per_event)
        if held is None:
            return targets, pa.array([b""] * len(self._counts), pa.binary())
        return targets, self._others(names, event, held)

    def _others(
        self, names: NDArray[np.uint8], event: NDArray[np.int64], held: NDArray[np.bool_]
    ) -> pa.Array:
        found: dict[int, list[str]] = {}
        for at in np.flatnonzero(~held).tolist():
            found.setdefault(int(event[at]), []).append(chr(names[at]) + self._values[at])
        packed = [b""] * len(self._counts)
        for one, texts in found.items():
            packed[one] = encode_others(texts)
        return pa.array(packed, pa.binary())


def _keys(values: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.bool_] | None]:
    """The (n, 32) bytes of values that are lower-case hex of 32, and which they are; None: all."""
    joined, held = "".join(values), None
    if not set(map(len, values)) <= {64} or not _is_hex(joined):
        known = [_IS_KEY(value) is not None for value in values]
        joined, held = "".join(itertools.compress(values, known)), np.array(known, bool)
    return np.frombuffer(unhexlify(joined), np.uint8).reshape(-1, KEY), held


def _is_hex(text: str) -> bool:
    """Whether a text is exactly what its bytes are written as."""
    try:
        return hexlify(unhexlify(text)) == text.encode()
    except ValueError:
        return False


def binary_array(records: NDArray[np.uint8], counts: NDArray[np.int64]) -> pa.Array:
    """Consecutive rows of `records` as binary values, `counts` rows each; without a copy."""
    ends = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts * records.shape[1], out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(records))]
    return pa.Array.from_buffers(pa.binary(), len(counts), buffers)
