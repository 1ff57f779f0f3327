"""Kept fingerprints say what the events are, whatever came, went, failed or was reopened."""

from __future__ import annotations

import random
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.event import Event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.errors import StoreCorrupt
from nostr_client.negentropy.reconcile import Initiator, Responder
from nostr_client.negentropy.storage import seal_columns
from nostr_client.store import fingerprint_tables
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.compare.items import KeptItems, LocalItems

if TYPE_CHECKING:
    from pathlib import Path

EVERYTHING, NOTES = Filter(), Filter(kinds=[1])
START = 1_700_000_000
AUTHORS = [f"{n:02x}" * 32 for n in range(1, 6)]


def unsigned(
    number: int, *, at: int, kind: int = 1, tags: tuple[tuple[str, ...], ...] = ()
) -> VerifiedEvent:
    """A store asks for no signature: what is verified is the caller's promise."""
    key = sha256(f"{number}".encode()).hexdigest()
    return VerifiedEvent(Event(key, AUTHORS[number % 5], at, kind, tags, "", "0" * 128))


async def same(store: SqliteStore, filter: Filter) -> None:
    """What is kept equals a scan: items, and the whole set's fingerprint."""
    heads = await store.fingerprints.folded(filter)
    assert heads is not None
    stamps, ids = await store.negentropy_items(filter)
    whole = seal_columns(stamps.tolist(), ids.tobytes())
    with store.fingerprints.storage(heads) as kept:
        assert len(kept) == len(stamps)
        assert kept.ids(0, len(kept)) == ids.tobytes()
        assert kept.fingerprints([0], [len(kept)]) == whole.fingerprints([0], [len(kept)])


@pytest.fixture
async def store(tmp_path: Path) -> object:
    async with await SqliteStore.open(tmp_path / "store.db", clock=lambda: START) as opened:
        yield opened


async def test_what_is_kept_follows_saves_replacements_deletions_and_sweeps(
    store: SqliteStore,
) -> None:
    chance = random.Random(77)
    await store.save([unsigned(n, at=START - n) for n in range(3_000)])
    assert await store.fingerprints.register(EVERYTHING)
    assert await store.fingerprints.register(NOTES)
    await same(store, EVERYTHING)
    number = 10_000
    for turn in range(12):
        batch = []
        for _ in range(chance.randint(1, 700)):
            number += 1
            kind = chance.choice([1, 1, 1, 0, 7, 30_000])
            expires = (("expiration", str(START + chance.randint(1, 9))),) * (number % 9 == 0)
            at = START - chance.randint(0, 5_000)
            batch.append(
                unsigned(number, at=at, kind=kind, tags=(("d", f"{number % 7}"), *expires))
            )
        await store.save(batch)
        if turn % 3 == 0:
            await store.delete([Filter(kinds=[7]), Filter(kinds=[1], limit=150)])
        if turn % 4 == 0:
            store._clock = lambda turn=turn: START + turn  # expirations pass
            await store.sweep()
        if turn % 2:
            await same(store, EVERYTHING)
            await same(store, NOTES)
    await same(store, EVERYTHING)


async def test_a_long_log_is_folded_in_steps(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint_tables, "FOLD", 100)
    await store.fingerprints.register()
    await store.save([unsigned(n, at=START - n % 700) for n in range(2_350)])
    await store.delete([Filter(limit=333)])
    await same(store, EVERYTHING)
    (left,) = await store.database.read(
        lambda conn: conn.execute("SELECT count(*) FROM neg_log").fetchone()
    )
    assert left == 0


async def log_length(store: SqliteStore) -> int:
    return await store.database.read(fingerprint_tables.log_length)


async def test_the_log_of_a_store_that_is_never_compared_stays_short(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint_tables, "FOLD", 100)
    monkeypatch.setattr(fingerprint_tables, "LONG", 250)
    await store.fingerprints.register(EVERYTHING)
    await store.fingerprints.register(NOTES)
    for start in range(0, 2_000, 40):
        await store.save(
            [unsigned(n, at=START - n, kind=1 + n % 2) for n in range(start, start + 40)]
        )
        assert await log_length(store) <= 250
    await store.delete([Filter(kinds=[2])])
    assert await log_length(store) <= 250
    await store.fingerprints.tidy()
    assert await log_length(store) == 0
    await same(store, EVERYTHING)
    await same(store, NOTES)


async def test_chunks_stand_still_while_they_are_read(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint_tables, "LONG", 50)
    await store.save([unsigned(n, at=START - n) for n in range(100)])
    await store.fingerprints.register()
    heads = await store.fingerprints.folded(EVERYTHING)
    assert heads is not None
    with store.fingerprints.storage(heads) as kept:
        await store.save([unsigned(n, at=START - n) for n in range(100, 300)])
        await store.fingerprints.tidy()
        assert await log_length(store) == 200
        assert len(kept.ids(0, 100)) == 3_200
    await store.save([unsigned(1_000, at=START)])
    assert await log_length(store) == 0
    await same(store, EVERYTHING)


async def test_a_batch_that_is_undone_leaves_no_trace(store: SqliteStore) -> None:
    await store.fingerprints.register()

    def fail(*_: object) -> None:
        raise ValueError("no")

    store.on_batch.append(fail)
    with pytest.raises(ValueError, match="no"):
        await store.save([unsigned(1, at=START)])
    store.on_batch.remove(fail)
    await store.save([unsigned(2, at=START)])
    await same(store, EVERYTHING)


async def test_it_is_kept_over_a_reopening_and_by_those_who_know_nothing_of_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.db"
    async with await SqliteStore.open(path) as first:
        await first.save([unsigned(n, at=START - n) for n in range(2_500)])
        await first.fingerprints.register()
    async with await SqliteStore.open(path) as second:
        await second.save([unsigned(n, at=START + n) for n in range(9_000, 9_100)])
    async with await SqliteStore.open(path) as third:
        await same(third, EVERYTHING)


async def test_a_damaged_chunk_is_told(store: SqliteStore) -> None:
    await store.save([unsigned(n, at=START - n) for n in range(2_000)])
    await store.fingerprints.register()
    heads = await store.fingerprints.folded(EVERYTHING)
    assert heads is not None
    await store.database.write(lambda conn: conn.execute("UPDATE neg_chunk SET ids = x'00'"))
    with store.fingerprints.storage(heads) as kept, pytest.raises(StoreCorrupt):
        kept.ids(0, 1)


async def test_a_store_in_memory_or_without_the_scope_has_none(store: SqliteStore) -> None:
    assert await store.fingerprints.folded(EVERYTHING) is None
    async with await SqliteStore.open(":memory:") as memory:
        assert not await memory.fingerprints.register()
        assert await memory.fingerprints.folded(EVERYTHING) is None


async def test_a_second_reader_of_the_directory_scans_instead(store: SqliteStore) -> None:
    await store.save([unsigned(n, at=START - n) for n in range(50)])
    await store.fingerprints.register()
    heads = await store.fingerprints.folded(EVERYTHING)
    assert heads is not None
    with store.fingerprints.storage(heads):
        assert await store.fingerprints.folded(EVERYTHING) is None
    await same(store, EVERYTHING)


@pytest.mark.parametrize(("since", "until"), [(None, None), (START - 900, START - 100), (5, 9)])
async def test_a_stretch_of_kept_items_reconciles_like_a_scan(
    store: SqliteStore, since: int | None, until: int | None
) -> None:
    await store.save([unsigned(n, at=START - n // 3) for n in range(4_000)])
    await store.fingerprints.register()
    heads = await store.fingerprints.folded(EVERYTHING)
    assert heads is not None
    asked = Filter(since=since, until=until)
    scanned = LocalItems(*await store.negentropy_items(asked))
    theirs = LocalItems(scanned.stamps[::2].copy(), scanned.ids[::2].copy())
    with store.fingerprints.storage(heads) as kept:
        items = KeptItems(kept, 0, len(kept)).between(since, until)
        assert len(items) == len(scanned)
        assert items.packed() == scanned.packed()
        neg, answer = Initiator(items.seal(), frame_limit=4096), Responder(theirs.seal())
        message: bytes | None = neg.initiate()
        have: set[bytes] = set()
        while message is not None:
            round_ = neg.reconcile(answer.reconcile(message))
            have.update(round_.have)
            message = round_.message
        assert have == {bytes(key) for key in scanned.ids[1::2]}
