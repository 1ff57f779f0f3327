"""What a nats-server may say, and anything else."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.counters.jetstream import NatsOptions, wire
from nostr_client.counters.jetstream.connection import (
    JetStreamConnection,
    batches_are_safe,
    caution,
    has_counters,
)
from nostr_client.errors import CounterError, InvalidInput, NetworkError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 2**70), st.text(max_size=8), st.just("5")
)
NAMES = st.sampled_from(
    ["stream", "seq", "val", "domain", "duplicate", "subject", "hdrs", "data", "time", "config",
     "state", "sources", "name", "metadata", "total", "streams", "purged", "messages", "subjects",
     "error", "mirror", "subject_transforms", "batch", "count"]
)  # fmt: skip
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=5)),
    max_leaves=15,
)
READERS: list[Callable[[object], object]] = [
    wire.ack, wire.batch_ack, wire.purged, wire.stored_message, wire.stream_info,
    wire.stream_page, wire.subjects,
]  # fmt: skip


@given(JSON)
def test_any_answer_is_read_or_refused(answer: Any) -> None:
    for reader in READERS:
        with contextlib.suppress(ProtocolError):
            reader(answer)


@given(st.dictionaries(st.text(max_size=6), st.text(max_size=6)), st.binary(max_size=30))
def test_any_direct_message_is_an_entry_or_refused(headers: dict[str, str], body: bytes) -> None:
    with contextlib.suppress(ProtocolError, CounterError):
        wire.entry(wire.direct_message({"Nats-Sequence": "7", **headers}, body))


@given(st.binary(max_size=60))
def test_any_bytes_are_header_lines(head: bytes) -> None:
    assert isinstance(wire.header_lines(head), tuple)


@pytest.mark.parametrize(
    ("shown", "ts"),
    [
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("2026-11-27T23:22:52.761719888Z", 1_795_821_772_761_719_888),
        ("", 0),
        ("yesterday", 0),
        ("1970-01-01T00:00:01.xZ", 1_000_000_000),
    ],
)
def test_timestamps(shown: str, ts: int) -> None:
    assert wire.timestamp(shown) == ts


@pytest.mark.parametrize(
    "headers",
    [(("A", "1"), ("A", "2")), (("A", "\t1"),), (("A", "1 "),), (("A b", "1"),)],
)
def test_headers_that_nats_py_would_change(headers: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(InvalidInput):
        wire.sendable(headers)
    assert wire.sendable((("A", "  1"), ("B", "2"))) == {"A": "  1", "B": "2"}


@pytest.mark.parametrize(
    ("version", "counts", "batches"),
    [
        ((2, 11, 9), False, False),
        ((2, 12, 0), True, False),
        ((2, 14, 4), True, False),
        ((2, 14, 5), True, True),
        ((2, 15, 1), True, True),
        ((0, 0, 0), False, False),
    ],
)
def test_versions(version: tuple[int, int, int], counts: bool, batches: bool) -> None:
    assert has_counters(version) is counts
    assert batches_are_safe(version) is batches
    assert (caution(version) is not None) == (counts and not batches)


def test_where_the_api_answers() -> None:
    assert NatsOptions().prefix == "$JS.API"
    assert NatsOptions(domain="hub").prefix == "$JS.hub.API"
    assert NatsOptions(api_prefix="from.other.").prefix == "from.other"
    with pytest.raises(InvalidInput):
        _ = NatsOptions(domain="hub", api_prefix="x").prefix


@pytest.mark.parametrize("url", ["nats://me:geheim@127.0.0.1:9", "odd://me:geheim@127.0.0.1:9"])
async def test_no_error_repeats_the_password_of_a_url(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nostr_client.counters.jetstream.dial.CONNECT_S", 0.3)
    with pytest.raises((NetworkError, InvalidInput)) as failed:
        await JetStreamConnection.connect(url, NatsOptions())
    assert "127.0.0.1:9" in str(failed.value)
    assert "geheim" not in str(failed.value)
