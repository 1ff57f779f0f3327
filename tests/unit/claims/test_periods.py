"""What a relay showed at any time: as a list of all its answers says, and bounded."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from typing import NamedTuple

import pytest

from nostr_client.count.claims import CLAIMS, periods
from nostr_client.count.claims.periods import Standing, standings
from nostr_client.count.claims.rows import remember
from nostr_client.count.merge import Claim, ClaimStatus, Method
from nostr_client.store.file.migrate import create

URL = "wss://r.example"


class Said(NamedTuple):
    """How a relay answered at a time; no registers: it failed, or gave none."""

    at: float
    answers: bool
    registers: bytes | None

    @property
    def claim(self) -> Claim:
        status = ClaimStatus.OK if self.answers else ClaimStatus.TIMEOUT
        return Claim(
            relay=URL,
            status=status,
            method=Method.HLL,
            registers=self.registers,
            asked_at=self.at - 0.5,
            answered_at=self.at,
        )


def drawn(seed: int) -> list[Said]:
    """Registers that rise most of the time and fall at times, failures, and bare counts."""
    rng, now, registers = random.Random(seed), 1_000.0, bytearray(256)
    said = []
    for _ in range(60):
        now += rng.choice((0.25, 60.0, 86_400.0))
        for n in rng.sample(range(256), rng.choice((0, 0, 1, 9))):
            registers[n] = rng.randrange(60)
        answers = rng.random() < 0.8
        shows = answers and rng.random() < 0.9
        said.append(Said(now, answers, bytes(registers) if shows else None))
    return said


def expected(said: list[Said], at: float) -> Standing | None:
    until = [one for one in said if one.at <= at]
    if not until:
        return None
    registers = [one.registers for one in until if one.registers is not None]
    return Standing(
        answers=until[-1].answers,
        answered_at=max((one.at for one in until if one.answers), default=None),
        registers=registers[-1] if registers else None,
        seen_at=until[-1].at,
    )


def store(conn: sqlite3.Connection) -> None:
    create(conn, [CLAIMS])
    conn.execute("INSERT INTO claim_query VALUES (1, 'key', 'followers', '', '')")
    conn.execute("INSERT INTO claim_relay VALUES (1, ?)", (URL,))


@pytest.mark.parametrize("seed", range(8))
def test_the_state_at_any_time_is_that_of_the_last_answer_until_then(seed: int) -> None:
    said = drawn(seed)
    with closing(sqlite3.connect(":memory:")) as conn:
        store(conn)
        for one in said:
            remember(conn, 1, [(1, one.claim)], ())
        for at in (0.0, *(one.at for one in said)):
            assert standings(conn, "key", at).get(URL) == expected(said, at)
        ((rows,),) = conn.execute("SELECT count(*) FROM claim_period").fetchall()
        assert rows <= len(said)


def test_equal_answers_are_one_row_and_between_them_a_state_is_known() -> None:
    with closing(sqlite3.connect(":memory:")) as conn:
        store(conn)
        for n in range(50):
            remember(conn, 1, [(1, Said(100.0 + n, True, bytes(256)).claim)], ())
        assert conn.execute("SELECT count(*) FROM claim_period").fetchone() == (1,)
        assert standings(conn, "key", 120.5)[URL] == Standing(True, 120.5, bytes(256), 120.5)
        assert standings(conn, "key", 99.0) == {}


def test_a_relay_that_changes_in_each_answer_fills_no_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(periods, "MOST_PERIODS", 10)
    said = [Said(100.0 + n, True, bytes([n % 250]) + bytes(255)) for n in range(40)]
    with closing(sqlite3.connect(":memory:")) as conn:
        store(conn)
        for one in said:
            remember(conn, 1, [(1, one.claim)], ())
        assert conn.execute("SELECT count(*) FROM claim_period").fetchone() == (10,)
        assert standings(conn, "key", 130.0)[URL].registers == said[30].registers
        assert standings(conn, "key", 129.0) == {}  # nobody knows any more


def test_a_clock_that_is_set_back_loses_no_state() -> None:
    with closing(sqlite3.connect(":memory:")) as conn:
        store(conn)
        for at, n in ((5_000.0, 1), (1_000.0, 2), (1_000.0, 3)):
            remember(conn, 1, [(1, Said(at, True, bytes([n]) * 256).claim)], ())
        assert standings(conn, "key", 5_000.0)[URL].registers == b"\x01" * 256
        assert standings(conn, "key", 5_001.0)[URL].registers == b"\x03" * 256
