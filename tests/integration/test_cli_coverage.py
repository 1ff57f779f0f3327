"""`nostr-client coverage` over relays of this process: what it prints, and its exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.nip19 import PublicKey
from tests.faulty_relay import FaultyRelay
from tests.negrelay import SpeaksNeg
from tests.running import SOON, nostr_client

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.event import Event

OWN = KeySigner(bytes(31) + b"\x41")
NPUB = PublicKey(OWN.pubkey).encode()
NOTES = [
    OWN.sign_now(EventTemplate(kind=1, content=f"{n}", created_at=1_700_000_000 + n)).event
    for n in range(20)
]


def made(kind: int, at: int, *tags: tuple[str, ...]) -> Event:
    template = EventTemplate(kind=kind, tags=tags, created_at=1_700_000_000 + at)
    return OWN.sign_now(template).event


OLD, NEW = made(0, 1), made(0, 2)
DELETION = made(5, 100, ("e", NOTES[0].id))


async def test_the_matrix_the_deleted_and_what_was_not_looked_at() -> None:
    one = FaultyRelay(SpeaksNeg(), events=[*NOTES, OLD])
    other = FaultyRelay(events=[*NOTES[5:], NEW, DELETION])
    async with one, other:
        done = await nostr_client(
            "coverage",
            NPUB,
            "-r",
            one.url,
            "--relays",
            f"{other.url},ws://127.0.0.1:9",
            "--json",
            **SOON,
        )
        assert done.code == 0, done.err
        told = json.loads(done.out)
        unions = {row["kind"]: row["union"] for row in told["kinds"]}
        assert {kind: n for kind, n in unions.items() if n} == {0: 1, 1: 19, 5: 1}
        first, second, gone = told["relays"]
        notes = {row["kind"]: row for row in first["kinds"]}
        assert (notes[1]["held"], notes[1]["by"], notes[1]["lacking"]) == (19, "ids", [])
        assert notes[0]["lacking"] == [NEW.id]
        assert first["deleted_but_served"] == [NOTES[0].id]
        notes = {row["kind"]: row for row in second["kinds"]}
        assert (notes[1]["held"], notes[1]["by"]) == (15, "events")
        assert notes[1]["lacking"] == sorted(event.id for event in NOTES[1:5])
        assert not any(row["whole"] for row in gone["kinds"])
        assert one.verbs()["NEG-OPEN"]
        filters = [message[2] for message in one.received if message[0] == "REQ"]
        (sample,) = [asked["ids"] for asked in filters if "ids" in asked]
        assert sorted(sample) == notes[1]["lacking"]  # one relay alone names these: they are tested
        done = await nostr_client("coverage", NPUB, "-r", one.url, "-r", other.url)
    assert done.code == 0
    assert "90.4 %" in done.out  # 19 of 21: the new profile and the deletion are not there
    assert f"serves 1 deleted event: {NOTES[0].id}" in done.err


async def test_a_relay_that_serves_what_the_author_asked_it_to_forget_is_named() -> None:
    one = FaultyRelay(SpeaksNeg(), events=NOTES)
    other = FaultyRelay(events=[])
    async with one, other:
        vanish = made(62, 7, ("relay", one.url))
        other.events.append(vanish)
        asked = ("coverage", NPUB, "--kind", "1", "-r", one.url, "-r", other.url)
        done = await nostr_client(*asked, "--json")
        first, second = json.loads(done.out)["relays"]
        assert first["deleted_but_served"] == sorted(event.id for event in NOTES[:8])
        assert (first["requests_lacking"], second["deleted_but_served"]) == ([vanish.id], [])
        everything = ("coverage", NPUB, "-r", one.url, "-r", other.url)
        (first, _) = json.loads((await nostr_client(*everything, "--json")).out)["relays"]
        assert first["requests_lacking"] == [vanish.id]
        shown = await nostr_client(*everything, "--repair", "--yes")
        assert "serves 8 deleted events" in shown.err
        assert "it lacks the request: --repair sends it" in shown.err
        assert vanish.id in {event.id for event in one.events}
        shown = await nostr_client(*everything)
        assert "serves 8 deleted events" in shown.err
        assert "lacks the request" not in shown.err


async def test_ids_that_a_relay_alone_names_and_does_not_send_are_said_apart() -> None:
    liar = SpeaksNeg(hides={event.id for event in NOTES[:5]})
    one, other = FaultyRelay(liar, events=NOTES), FaultyRelay(SpeaksNeg(), events=NOTES[5:])
    async with one, other:
        asked = ("coverage", NPUB, "--kind", "1", "-r", one.url, "-r", other.url)
        done = await nostr_client(*asked, "--json")
        shown = await nostr_client(*asked, "--repair", "--dry-run")
    told = json.loads(done.out)
    assert told["kinds"] == [{"kind": 1, "union": 15, "store": None}]
    rows = [relay["kinds"][0] for relay in told["relays"]]
    assert [(row["held"], row["unconfirmed"], row["lacking"]) for row in rows] == [
        (15, 5, []), (15, 0, [])
    ]  # fmt: skip
    assert "names 5 events that nothing confirms" in shown.err
    assert "does not get 5 events: named by a relay, and sent by none" in shown.err


async def test_no_relay_that_was_looked_at_is_exit_code_3() -> None:
    done = await nostr_client("coverage", NPUB, "-r", "ws://127.0.0.1:9", "--kind", "1", **SOON)
    assert done.code == 3
    assert "was not read to the end" in done.err


async def test_relays_must_be_named_or_looked_up() -> None:
    done = await nostr_client("coverage", NPUB)
    assert done.code == 2
    assert "from:nip65" in done.err


async def test_the_relays_where_the_author_writes_are_looked_up() -> None:
    holder = FaultyRelay(SpeaksNeg(), events=NOTES)
    async with holder:
        listed = made(10002, 5, ("r", holder.url, "write"), ("r", "wss://read.example", "read"))
        async with FaultyRelay(events=[listed]) as indexer:
            done = await nostr_client(
                "coverage", NPUB, "--relays", "from:nip65", "--indexer", indexer.url
            )
    # A list that names an address of this machine is a stranger's word: it is not followed.
    assert done.code == 3
    assert "is not asked" in done.err or "not asked" in done.err


async def test_a_named_relay_is_compared_although_no_write_relay_may_be_asked() -> None:
    holder = FaultyRelay(SpeaksNeg(), events=NOTES)
    listed = made(10002, 5, ("r", "ws://127.0.0.1:9", "write"))
    async with holder, FaultyRelay(events=[listed]) as indexer:
        asked = ("--relays", f"from:nip65,{holder.url}", "--indexer", indexer.url)
        done = await nostr_client("coverage", NPUB, "-k", "1", *asked)
        told = json.loads((await nostr_client("coverage", NPUB, *asked, "--json")).out)
    assert done.code == 0, done.err
    assert "100.0 %" in done.out
    assert "only the named relays are compared: " in done.err
    assert told["no_list"]


async def test_what_a_relay_need_not_have_does_not_raise_its_share(tmp_path: Path) -> None:
    """A relay with one of two notes and all protected ones has half of what it should have."""
    kept = [made(1, 100 + n, ("-",)) for n in range(20)]
    one = FaultyRelay(SpeaksNeg(), events=[NOTES[0], *kept])
    other = FaultyRelay(SpeaksNeg(), events=NOTES[:2])
    async with one, other:
        asked = ("-r", one.url, "-r", other.url)
        told = json.loads((await nostr_client("coverage", NPUB, "-k", "1", *asked, "--json")).out)
    assert [row["share"] for row in told["relays"]] == [0.5, 1.0]


async def test_a_share_of_no_event_is_not_known() -> None:
    async with FaultyRelay(SpeaksNeg()) as one, FaultyRelay() as other:
        asked = ("coverage", NPUB, "-r", one.url, "-r", other.url)
        done = await nostr_client(*asked)
        told = json.loads((await nostr_client(*asked, "--json")).out)
    assert done.code == 0
    assert "%" not in done.out
    assert "no event is known" in done.err
    assert [row["share"] for row in told["relays"]] == [None, None]


async def test_protected_and_expired_events_are_no_part_of_what_a_relay_lacks(
    tmp_path: Path,
) -> None:
    """Two relays name them, so no sample shows them; a third, which has none, is complete."""
    protected, expired = made(1, 60, ("-",)), made(1, 61, ("expiration", "1700000100"))
    held = [*NOTES, protected, expired]
    relays = [FaultyRelay(SpeaksNeg(), events=held) for _ in range(2)]
    async with relays[0], relays[1], FaultyRelay(SpeaksNeg(), events=NOTES) as third:
        asked = [word for one in (*relays, third) for word in ("-r", one.url)]
        done = await nostr_client("coverage", NPUB, "-k", "1", *asked, "--repair", "--dry-run")
        told = json.loads((await nostr_client("coverage", NPUB, "-k", "1", *asked, "--json")).out)
    assert done.out.count("100.0 %") == 3
    assert "1 event protected by the author (NIP-70): not moved" in done.err
    assert "1 event expired (NIP-40): not moved" in done.err
    assert "nothing to send" in done.err
    assert (told["protected"], told["expired"]) == ([protected.id], [expired.id])
    assert [row["share"] for row in told["relays"]] == [1.0, 1.0, 1.0]
    assert told["relays"][2]["kinds"][0]["lacking"] == sorted([protected.id, expired.id])


async def test_a_store_that_a_repair_does_not_fill_is_named(tmp_path: Path) -> None:
    one, other = FaultyRelay(SpeaksNeg(), events=NOTES), FaultyRelay(SpeaksNeg())
    store = ("--store", f"{tmp_path}/store.db")
    async with one, other:
        asked = ("coverage", NPUB, "-k", "1", "-r", one.url, "-r", other.url)
        done = await nostr_client(*asked, *store, "--repair", "--yes")
        assert "the store lacks 20 events" in done.err
        assert "sync run --direction down" in done.err
        which = ("--filter", json.dumps({"authors": [OWN.pubkey]}), "--direction", "down")
        synced = await nostr_client("sync", "run", *which, *store, "-r", one.url)
        assert synced.code == 0, synced.err
        assert "the store lacks" not in (await nostr_client(*asked, *store)).err
        assert "the store lacks" not in (await nostr_client(*asked)).err
