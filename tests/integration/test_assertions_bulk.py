"""`assertions publish --from TABLES`: cards of a table of counts, by the rules of all cards."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.assertions import ASSERTIONS, CardOptions, Ledger
from nostr_client.assertions.bulk import publish_table
from nostr_client.assertions.count_table import CountTable
from nostr_client.assertions.fields import ADDRESS, EVENT, IDENTIFIER, USER, field_named, is_field
from nostr_client.assertions.relays import CardRelays
from nostr_client.assertions.tally import AssertionTally
from nostr_client.codecs.event import Event, EventTemplate, parse_event
from nostr_client.errors import InvalidInput
from nostr_client.options import Options
from nostr_client.store.sqlite import SqliteStore
from tests.cards import FAN, ME, PROVIDER, Takes, key_file, sent
from tests.conftest import shared_path
from tests.count_tables import Counted, write_table
from tests.faulty_relay import FaultyRelay
from tests.integration.test_assertions import Run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from nostr_client.assertions import PublishReport

DAY = 86_400
NOW = 1_800_000_000
ID, SITE = "cd" * 32, "https://example.com"
NOWHERE = CardRelays((), Options())
"""No relay gets the cards: the ledger has what is signed."""


def person(key: str, followers: int, at: int = NOW) -> Counted:
    return Counted(USER, key, [("followers", followers), ("post_cnt", 1)], at)


ROWS = [
    person(ME.pubkey, 12),
    person(FAN.pubkey, 0),
    Counted(EVENT, ID, [("comment_cnt", 1), ("repost_cnt", 0), ("reaction_cnt", 2)], NOW),
    Counted(ADDRESS, f"30023:{ME.pubkey}:x", [("quote_cnt", 4)], NOW),
    Counted(IDENTIFIER, SITE, [("comment_cnt", 1), ("reaction_cnt", 0)], NOW, ["web"]),
]


@dataclass
class Bulk:
    """Runs of one key and store, over whatever the folder of tables has."""

    store: SqliteStore
    folder: Path
    options: CardOptions = field(default_factory=CardOptions)

    async def __call__(self, rows: Iterable[Counted], now: int = NOW, **how: Any) -> PublishReport:
        table = CountTable(write_table(self.folder, rows))
        return await publish_table(
            self.store, PROVIDER, table, self.options, NOWHERE, now=lambda: now, **how
        )

    async def cards(self) -> dict[tuple[int, str], Event]:
        ledger = Ledger(self.store.database, PROVIDER.pubkey)
        subjects = [one async for some in ledger.subjects() for one in some]
        return await ledger.published(subjects)


@pytest.fixture
async def bulk(tmp_path: Path) -> AsyncIterator[Bulk]:
    path = tmp_path / "store.db"
    async with await SqliteStore.open(path, migrations=[ASSERTIONS]) as store:
        yield Bulk(store, tmp_path / "tables")


async def test_every_row_becomes_a_card_with_its_numbers_and_time(bulk: Bulk) -> None:
    report = await bulk(ROWS, NOW + 60)
    assert (report.signed, report.withheld) == (5, {})
    assert report.incomplete == {"zap_amount, zap_cnt": 1}
    cards = await bulk.cards()
    for row in ROWS:
        card = cards[row.kind, row.subject]
        found = {name: int(value) for name, value, *_ in card.tags if is_field(card.kind, name)}
        assert found == dict(row.fields or ())
        assert card.first_tag("counted_at") == str(NOW)
        assert card.first_tag("expiration") == str(NOW + 30 * DAY)
        assert list(card.tag_values("k")) == list(row.subject_kinds or ())


async def test_a_card_is_signed_again_for_a_new_number_or_a_newer_count_before_it_expires(
    bulk: Bulk,
) -> None:
    for now, at, followers, signed in (
        (NOW, NOW, 12, 1),
        (NOW + DAY, NOW, 12, 0),
        (NOW + DAY, NOW + DAY, 12, 0),
        (NOW + DAY, NOW + DAY, 13, 1),
        (NOW + 29 * DAY, NOW + DAY, 13, 0),
        (NOW + 29 * DAY, NOW + 28 * DAY, 13, 1),
    ):
        report = await bulk([person(ME.pubkey, followers, at)], now)
        assert (report.signed, report.unchanged) == (signed, 1 - signed), (now, at)
    for at, now, why in (
        (NOW, NOW + 29 * DAY, "a newer count is published"),
        (NOW, NOW + 30 * DAY, "counted more than 30 days ago"),
    ):
        report = await bulk([person(ME.pubkey, 14, at)], now)
        assert (report.signed, report.withheld) == (0, {why: 1})


async def test_a_bad_row_and_a_subject_with_two_rows_are_counted_and_not_published(
    bulk: Bulk,
) -> None:
    bad = [
        Counted(USER, FAN.pubkey, [("score", 5)], NOW),
        Counted(USER, "nobody", [("followers", 5)], NOW),
        person(ME.pubkey, 99),
        Counted(USER, "ab" * 32, [("followers", 5)], NOW),
    ]
    report = await bulk([ROWS[0], *bad, ROWS[4]])
    assert (report.signed, sum(report.withheld.values())) == (1, 5)
    assert {why: number for why, number in report.withheld.items() if "two rows" in why} == {
        "a subject with two rows": 2
    }
    assert report.withheld["post_cnt: not known"] == 1
    assert list(await bulk.cards()) == [(IDENTIFIER, SITE)]


async def test_a_damaged_file_publishes_nothing_of_the_others(bulk: Bulk) -> None:
    write_table(bulk.folder, ROWS)
    second = bulk.folder / "assertions" / "part-00001.parquet"
    raw = (bulk.folder / "assertions" / "part-00000.parquet").read_bytes()
    second.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(InvalidInput, match=second.name):
        await bulk(ROWS)
    assert await bulk.cards() == {}
    second.unlink()
    with pytest.raises(InvalidInput, match="no rows"):
        await bulk([])
    assert await bulk.cards() == {}


async def test_a_subject_that_left_the_table_and_a_key_that_vanished_are_retracted(
    bulk: Bulk,
) -> None:
    await bulk(ROWS)
    assert (await bulk(ROWS[2:])).retracted == 0
    report = await bulk(ROWS[:1] + ROWS[2:], prune=True)
    assert (report.retracted, report.signed) == (1, 0)
    refused = [Counted(EVENT, ID, [("score", 1)], NOW)]
    assert (await bulk(ROWS[:1] + refused + ROWS[3:], prune=True)).retracted == 0
    gone = EventTemplate(kind=62, tags=(("relay", "ALL_RELAYS"),), created_at=NOW - 5)
    await bulk.store.save([ME.sign_now(gone)])
    report = await bulk(ROWS)
    assert (report.retracted, report.withheld) == (2, {"its key asked to vanish (NIP-62)": 2})
    assert set(await bulk.cards()) == {(EVENT, ID), (IDENTIFIER, SITE), (USER, FAN.pubkey)}
    back = EventTemplate(kind=1, created_at=NOW - 4)
    await bulk.store.save([ME.sign_now(back)])
    assert (await bulk(ROWS)).signed == 2


async def test_the_key_of_a_person_signs_no_card(bulk: Bulk) -> None:
    with pytest.raises(InvalidInput, match="a key of their own"):
        await bulk([*ROWS, person(PROVIDER.pubkey, 0)])
    await bulk.store.save([PROVIDER.sign_now(EventTemplate(kind=30023, created_at=NOW))])
    with pytest.raises(InvalidInput, match="a key of their own"):
        await bulk(ROWS)
    assert await bulk.cards() == {}


async def test_a_table_of_the_shared_events_gives_the_cards_of_its_counts(bulk: Bulk) -> None:
    tally = AssertionTally(NOW, lambda *_: None)
    for line in dict.fromkeys(shared_path("data/events.jsonl").read_text("utf-8").splitlines()):
        tally.add(parse_event(line))
    rows = []
    for kind, subject in list(tally.subjects())[::10]:
        values = tally.values(kind, subject, personal=False)
        fields = [
            (name, value)
            for name, value in values.items()
            if isinstance(value, int) and not field_named(kind, name).zaps
        ]
        k = tally.identifier_kinds(subject) if kind == IDENTIFIER else None
        rows.append(Counted(kind, subject, fields, NOW, k))
    report = await bulk(rows)
    assert (report.signed, report.withheld) == (len(rows), {})
    cards = await bulk.cards()
    for row in rows:
        card = cards[row.kind, row.subject]
        found = {name: int(value) for name, value, *_ in card.tags if is_field(card.kind, name)}
        assert found == dict(row.fields or ())


async def test_the_command_takes_a_folder_of_tables_and_nothing_beside_it(tmp_path: Path) -> None:
    publish = Run(tmp_path / "store.db", key_file(tmp_path / "provider.key"))
    now = 1_700_000_000
    tables = str(write_table(tmp_path / "tables", [one._replace(as_of=now) for one in ROWS]))
    async with FaultyRelay(Takes()) as relay:
        code, report, err = await publish("--from", tables, "-r", relay.url)
        assert (code, report["signed"]) == (0, 0), err
        assert report["withheld"] == {"counted more than 30 days ago": 5}
        code, _, err = await publish("--from", tables, "--all", "-r", relay.url)
        assert (code, "drop --all" in err) == (2, True)
        code, _, err = await publish("--from", str(tmp_path), "-r", relay.url)
        assert code == 0, err
        events = {one["kind"]: one for one in sent(relay)}
        assert events.keys() == {0, 10002}
        assert "of an archive" in json.loads(events[0]["content"])["about"]
