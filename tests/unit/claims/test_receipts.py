"""What is held of zap receipts: who signed them, whom they pay, and what is not looked at yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client import count
from nostr_client.codecs import nip19
from nostr_client.count.claims import VOID, ClaimBook, HeldEvent, ListMemory, Update, reading_of
from nostr_client.count.merge import Receipt
from nostr_client.count.remembering import asked_of

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.count.claims import Memory

TARGET = "ab" * 32
ZAPS = asked_of(count.zaps(nip19.PublicKey(TARGET).encode()))
SIGNER, PAID = b"s" * 32, bytes.fromhex(TARGET)
CLEAR = HeldEvent(100, b"1" * 32, b"a" * 32, 21_000, "", SIGNER, PAID)
NAMING = HeldEvent(200, b"2" * 32, b"b" * 32, 42_000, "cd" * 32, SIGNER, PAID)
FORGED = HeldEvent(300, b"3" * 32, b"c" * 32, 63_000, "ef" * 32, SIGNER, PAID)
ALL = (CLEAR, NAMING, FORGED)


def work(memory: Memory) -> None:
    """Take in three receipts, then judge two of them; a later reading changes nothing of that."""
    whole = Update(start=0, end=None, upto=400, at=400, found=ALL)
    memory.apply(whole)
    reading = reading_of(memory, 400, sums=True)
    assert reading.doubted == {NAMING.id, FORGED.id}
    assert reading.receipts == {e.id: Receipt(SIGNER, PAID, e.created_at) for e in ALL}
    memory.judge([NAMING._replace(label=""), FORGED._replace(label="", amount=VOID)])
    memory.apply(whole)
    reading = reading_of(memory, 400, sums=True)
    assert reading.doubted == frozenset()
    assert reading.amounts == {CLEAR.id: 21_000, NAMING.id: 42_000}
    assert memory.count(0, None) == 3
    judged = [NAMING._replace(label=""), FORGED._replace(label="", amount=VOID)]
    assert sorted(memory.events()) == [CLEAR, *judged]


def test_in_memory() -> None:
    work(ListMemory())


async def test_in_the_store_and_in_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    for _ in range(2):
        book = await ClaimBook.open(path)
        place = await book.place(ZAPS, "wss://r.example/")
        if not await place.use(lambda memory: memory.count(0, None)):
            await place.use(work)
        assert len(await place.use(lambda memory: memory.ids_and_authors()[0])) == 2
        await book.close()
