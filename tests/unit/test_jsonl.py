"""JSONL into a store and out again: what is left out, and that nothing changes on the way."""

from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.event import parse_event
from nostr_client.codecs.filters import Filter
from nostr_client.errors import InvalidInput, StoreError
from nostr_client.network import verifier
from nostr_client.store.base import SaveStatus
from nostr_client.store.event_lines import CUT_OFF, unpacked
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.files import jsonl
from nostr_client.sync.files.jsonl import import_jsonl
from tests.conformance.store_events import NOW, exported, make
from tests.conftest import shared_path

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_shared_events_go_round_unchanged(store: SqliteStore) -> None:
    with shared_path("data/events.jsonl").open("rb") as lines:
        report = await import_jsonl(store, lines)
    assert report.lines == 7_119
    assert set(report.statuses) <= {SaveStatus.STORED, *_LEFT_OUT}
    assert report.reasons == {}
    assert report.stored + sum(report.statuses.get(s, 0) for s in _LEFT_OUT) == 7_119
    first = await exported(store)
    lines_out = first.splitlines()
    assert len(lines_out) == report.stored == (await store.stats()).events
    keys = [(event["created_at"], event["id"]) for event in map(json.loads, lines_out)]
    assert keys == sorted(keys)
    async with await SqliteStore.open(":memory:", clock=lambda: NOW) as again:
        second = await import_jsonl(again, io.BytesIO(first))
        assert second.stored == second.lines == report.stored
        assert await exported(again) == first
    assert (await store.verify()).problems == ()


_LEFT_OUT = (
    SaveStatus.SUPERSEDED,
    SaveStatus.DELETED,
    SaveStatus.EXPIRED,
    SaveStatus.EPHEMERAL,
    SaveStatus.DUPLICATE,
)


async def test_what_is_left_out_is_counted_by_reason(store: SqliteStore) -> None:
    good = make(content="good").event
    forged = parse_event({**json.loads(good.to_json()), "content": "forged"})
    unsigned = parse_event({**json.loads(make(content="x").event.to_json()), "sig": "00" * 64})
    lines = [
        good.to_json(), "", "   ", good.to_json(), make(kind=20_000).event.to_json(),
        make(tags=(("expiration", "5"),)).event.to_json(), "{", "[]", '{"id":1}', "\x00", "\u2028",
        unsigned.to_json(), make(content="last").event.to_json(),
    ]  # fmt: skip
    report = await import_jsonl(store, io.BytesIO("\r\n".join(lines).encode()))
    assert report.lines == 10
    assert report.statuses == {
        SaveStatus.STORED: 2,
        SaveStatus.DUPLICATE: 1,
        SaveStatus.EPHEMERAL: 1,
        SaveStatus.EXPIRED: 1,
        SaveStatus.INVALID: 5,
    }
    assert sum(report.reasons.values()) == 5
    assert any("signature" in reason for reason in report.reasons)
    again = await import_jsonl(store, io.BytesIO(forged.to_json().encode()))
    assert again.stored == 0


@pytest.mark.parametrize(
    ("text", "cut_off"),
    [
        ("[\n{},\n{}\n]", None),
        ("[{},\n{}]", None),
        ("[\n{},\n{}", 1),
        ("\n[{},\n{},", 2),
        ("[\n{},\n[\n{}\n]", 1),  # two files, the first of them cut off
        ('["EVENT","s",{}]\n{}', None),
        ("{},\n{}\n]", None),
    ],
)
async def test_an_array_that_does_not_end_is_told(
    store: SqliteStore, text: str, cut_off: int | None
) -> None:
    for content in ("one", "two"):
        text = text.replace("{}", make(content=content).event.to_json(), 1)
    report = await import_jsonl(store, io.BytesIO(text.encode()))
    assert report.stored == 2
    assert report.first_lines == ({} if cut_off is None else {CUT_OFF: cut_off})
    assert report.lines == 2 + (cut_off is not None)


async def test_a_known_event_is_not_verified_again(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = make().event.to_json().encode()
    await import_jsonl(store, io.BytesIO(line))

    def never(events: object) -> object:
        assert not events, "verified twice"
        return []

    monkeypatch.setattr(verifier, "verify_many", never)
    report = await import_jsonl(store, io.BytesIO(line))
    assert report.statuses == {SaveStatus.DUPLICATE: 1}


async def test_reasons_do_not_grow_with_the_file(store: SqliteStore) -> None:
    lines = "\n".join(json.dumps({"id": "0" * n}) for n in range(500)) + "\n" + "x\n" * 5
    lines += "\n".join('{"' + "k" * n + '":' for n in range(200))
    report = await import_jsonl(store, io.BytesIO(lines.encode()))
    assert report.statuses == {SaveStatus.INVALID: report.lines}
    assert len(report.reasons) <= jsonl.REASONS_KEPT + 1


@pytest.mark.parametrize("before", [jsonl.REASONS_KEPT, 3 * jsonl.REASONS_COUNTED])
def test_the_most_frequent_reasons_are_reported_and_not_the_first(before: int) -> None:
    tally = jsonl.ReasonTally()
    for line in range(1, before + 1):
        tally.add(f"rare {line}", line)
    for line in range(before + 1, before + 11):
        tally.add("late and frequent", line)
    counts, lines = tally.most_frequent()
    assert next(iter(counts.items())) == ("late and frequent", 10)
    assert lines["late and frequent"] == before + 1
    assert len(counts) == jsonl.REASONS_KEPT + 1
    assert sum(counts.values()) == before + 10
    assert list(counts)[-1] == jsonl.OTHER
    assert set(lines) == set(counts)
    assert tally.most_frequent() == (counts, lines)


def test_memory_of_reasons_is_bounded() -> None:
    tally = jsonl.ReasonTally()
    for line in range(5 * jsonl.REASONS_COUNTED):
        tally.add(f"rare {line}", line)
        tally.add("common", line)
        assert len(tally._counts) <= jsonl.REASONS_COUNTED
    counts, lines = tally.most_frequent()
    assert counts["common"] == 5 * jsonl.REASONS_COUNTED
    assert lines["common"] == 0


async def test_many_batches_and_progress(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "CHUNK", 3)
    monkeypatch.setattr(jsonl, "BATCH", 4)
    events = [make(n % 5, at=n) for n in range(50)]
    text = b"".join(e.event.to_json().encode() + b"\n" for e in events)
    seen: list[tuple[int, int]] = []
    report = await import_jsonl(store, io.BytesIO(text), lambda *done: seen.append(done))
    assert report.stored == 50
    assert seen[-1] == (50, len(text))
    assert len(seen) > 2
    wanted = Filter(authors=[events[0].event.pubkey], since=10)
    lines = (await exported(store, wanted)).splitlines()
    assert [json.loads(line)["created_at"] for line in lines] == [*range(10, 50, 5)]


async def test_a_closed_store_stops_the_import(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "s.db")
    await store.close()
    with pytest.raises(StoreError):
        await import_jsonl(store, io.BytesIO(make().event.to_json().encode()))


async def test_what_stands_before_the_damage_of_a_file_is_saved(store: SqliteStore) -> None:
    lines = shared_path("data/events.jsonl").read_bytes().splitlines(keepends=True)[:1_500]
    packed = gzip.compress(b"".join(lines))
    for damaged in (packed + b"noise", packed + gzip.compress(b"\n" * 63_000_000)):
        async with await SqliteStore.open(":memory:", clock=lambda: NOW) as plain:
            whole = await import_jsonl(plain, io.BytesIO(b"".join(lines)))
            with pytest.raises(InvalidInput, match="what came before is kept"):
                await import_jsonl(store, unpacked(io.BufferedReader(io.BytesIO(damaged))))
            assert (await store.stats()).events == (await plain.stats()).events
            assert whole.lines == 1_500
