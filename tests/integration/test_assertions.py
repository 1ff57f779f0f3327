"""`nostr-client assertions` against relays: what arrives, what is sent again, and what is not."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from nostr_client.assertions import ASSERTIONS, Card, CardOptions, Ledger, Publisher, publisher
from nostr_client.assertions.introduction import NEWEST
from nostr_client.assertions.publisher import AT_ONCE
from nostr_client.assertions.relays import CardRelays
from nostr_client.assertions.report import RelayDelivery
from nostr_client.assertions.signing import BATCH
from nostr_client.codecs.event import Event, EventTemplate, parse_event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.nip19 import PublicKey
from nostr_client.network.pool import RelayPool
from nostr_client.options import Options
from nostr_client.store.sqlite import SqliteStore
from nostr_client.store.sync_memory import TriedTable
from nostr_client.sync.memory import RefusalNote, RelayAndKey, Side, StoredMemory, Verdict
from nostr_client.sync.options import SyncOptions
from tests.agent.service.kit import eventually
from tests.cards import FAN, ME, PROVIDER, Takes, cards, key_file, made, sent
from tests.faulty_relay import FaultyRelay, Peer
from tests.peers.servers import local_relay
from tests.running import nostr_client, started

if TYPE_CHECKING:
    from pathlib import Path

NOTE = made(ME, 1, at=1_700_000_000)
EVENTS = [
    NOTE,
    made(FAN, 3, ("p", ME.pubkey), at=1_700_000_100),
    made(FAN, 7, ("e", NOTE.event.id), ("p", ME.pubkey), at=1_700_000_200),
]


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    async with await SqliteStore.open(path) as opened:
        await opened.save(EVENTS)
    return path


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return key_file(tmp_path / "provider.key")


class Run:
    """`assertions publish` of one store and key."""

    def __init__(self, store: Path, key: Path) -> None:
        self.args = ("--store", str(store), "--key-file", str(key), "--json")

    async def __call__(self, *args: str, verb: str = "publish") -> tuple[int, dict[str, Any], str]:
        run = await nostr_client("assertions", verb, *args, *self.args)
        return run.code, json.loads(run.out) if run.out else {}, run.err


@pytest.fixture
def publish(store: Path, key: Path) -> Run:
    return Run(store, key)


async def test_what_did_not_change_is_not_signed_again_over_restarts(publish: Run) -> None:
    async with FaultyRelay(Takes()) as relay:
        code, first, err = await publish("--all", "-r", relay.url)
        assert (code, first["signed"]) == (0, 3), err
        for _ in range(2):
            code, later, _ = await publish("--all", "-r", relay.url)
            assert (code, later["signed"], later["unchanged"]) == (0, 0, 3)
        found = cards(relay)
        assert len(found) == len({one["id"] for one in found}) == 3
        assert sorted(one["kind"] for one in sent(relay)) == [0, 10002, 30382, 30382, 30383]
        mine = next(one for one in found if ["d", ME.pubkey] in one["tags"])
        for tag in (["followers", "1"], ["post_cnt", "1"], ["reactions_cnt", "1"]):
            assert tag in mine["tags"]


async def test_a_kill_in_the_middle_signs_nothing_twice(
    publish: Run, store: Path, key: Path
) -> None:
    behaviour = Takes(most=2)
    async with FaultyRelay(behaviour) as relay:
        args = ("--store", str(store), "--key-file", str(key), "--all", "-r", relay.url)
        async with started("assertions", "publish", *args) as process:
            await relay.heard("EVENT", 5, within=60)
            process.kill()
        before = {event["id"] for event in sent(relay)}
        behaviour.left = 1_000
        code, report, _ = await publish("--all", "-r", relay.url)
        assert (code, report["signed"], report["unchanged"]) == (0, 0, 3)
        assert {event["id"] for event in sent(relay)} == before


async def marked(store: Path) -> bool:
    """Whether the ledger says that a relay took a batch."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as conn:
        (taken,) = conn.execute("SELECT count(*) FROM assertion_taken").fetchone()
    return bool(taken == BATCH)


async def test_a_kill_after_a_batch_sends_only_what_was_not_recorded(
    publish: Run, store: Path, key: Path
) -> None:
    """More cards than the ledger marks at once: the marked ones are not sent again."""
    cards = BATCH + AT_ONCE
    async with await SqliteStore.open(store) as opened:
        await opened.save([made(ME, 1, at=1_700_010_000 + n) for n in range(cards - 3)])
    behaviour = Takes(most=BATCH + 5)
    async with FaultyRelay(behaviour) as relay:
        args = ("--store", str(store), "--key-file", str(key), "--all", "-r", relay.url)
        async with started("assertions", "publish", *args) as process:
            await relay.heard("EVENT", cards + 2, within=60)
            await eventually(lambda: marked(store))
            process.kill()
        first = [event["id"] for event in sent(relay)]
        assert len(first) == len(set(first)) == cards + 2
        behaviour.left = 10 * cards
        code, report, _ = await publish("--all", "-r", relay.url)
        assert (code, report["signed"], report["unchanged"]) == (0, 0, cards)
        again = [event["id"] for event in sent(relay)][len(first) :]
        assert len(again) == len(set(again)) == cards + 2 - BATCH
        assert set(again) <= set(first)


async def test_all_is_every_author_of_the_store_and_the_rest_is_reported(
    publish: Run, store: Path
) -> None:
    others = [KeySigner(bytes([n]) * 32) for n in range(40, 44)]
    kinds = (0, 5, 4, 10002)
    some = [made(one, kind, at=1_700_000_000) for one, kind in zip(others, kinds, strict=True)]
    async with await SqliteStore.open(store) as opened:
        await opened.save(some)
    async with FaultyRelay(Takes()) as relay:
        code, report, err = await publish("--all", "--dry-run", "-r", relay.url)
        assert (code, report["signed"]) == (0, 3 + 3), err
        assert report["without_card"] == {
            "author: all stored events are private": 1,
            "event: it is private": 1,
            "event: kinds 0, 3, 5, 7, 10002 get no card": 5,
        }


async def test_a_relay_that_refused_gets_the_same_events_again(publish: Run) -> None:
    behaviour = Takes("blocked: not now")
    async with FaultyRelay(behaviour) as relay:
        code, report, _ = await publish("--all", "-r", relay.url)
        (one,) = report["relays"].values()
        assert (code, one["taken"], one["left"]) == (1, 0, 5)
        assert one["refused"] == {"blocked: not now": 5}
        refused = {event["id"] for event in sent(relay)}
        behaviour.refuses = ""
        code, report, _ = await publish("--all", "-r", relay.url)
        (one,) = report["relays"].values()
        assert (code, one["taken"], one["left"], report["signed"]) == (0, 5, 0, 0)
        assert {event["id"] for event in sent(relay)} == refused


async def test_a_refusal_of_us_ends_the_run_of_that_relay(publish: Run, store: Path) -> None:
    async with FaultyRelay(Takes("restricted: members only")) as relay:
        code, report, _ = await publish("--all", "-r", relay.url)
        (one,) = report["relays"].values()
        assert (code, one["error"]) == (3, "restricted: members only")
        shown = await nostr_client(
            "assertions", "publish", "--all", "-r", relay.url, *publish.args[:4]
        )
        assert shown.out.count("members only") == 1


class Limits(Takes):
    """Takes `most` events of each burst, then says so `refusals` times."""

    def __init__(self, most: int, refusals: int) -> None:
        super().__init__()
        self.most = self.room = most
        self.refusals = self.again = refusals

    async def on_event(self, peer: Peer, message: list[Any]) -> None:
        if self.room:
            self.room -= 1
            await super().on_event(peer, message)
            return
        self.again -= 1
        if not self.again:
            self.room, self.again = self.most, self.refusals
        await peer.send("OK", message[1]["id"], False, "rate-limited: slow down")


async def delivered(store: Path, relay: FaultyRelay, cards: int, timeout: float) -> RelayDelivery:
    """Send new cards to a relay; what became of them."""
    async with await SqliteStore.open(store, migrations=[ASSERTIONS]) as opened:
        ledger = Ledger(opened.database, PROVIDER.pubkey)
        sender = Publisher(ledger, PROVIDER, CardOptions(), time.time)
        made = [Card(30382, f"{n:064x}", {"followers": n}, {}) for n in range(cards)]
        await sender.sign(made)
        await CardRelays([relay.url], Options(), timeout).send(sender, {})
        return sender.report.relays[relay.url]


async def test_a_relay_that_limits_the_rate_gets_all_cards_after_pauses(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "FIRST_PAUSE_S", 0.01)
    async with FaultyRelay(Limits(most=10, refusals=3)) as relay:
        found = await delivered(store, relay, 2 * AT_ONCE, 600.0)
        assert found == RelayDelivery(taken=2 * AT_ONCE)


async def test_a_relay_that_takes_no_more_in_time_is_reported_with_what_is_left(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "FIRST_PAUSE_S", 0.01)
    async with FaultyRelay(Limits(most=10, refusals=1_000_000)) as relay:
        found = await delivered(store, relay, 2 * AT_ONCE, 2.0)
        why = "rate-limited: slow down; not finished within 2 s"
        assert found == RelayDelivery(taken=10, left=2 * AT_ONCE - 10, error=why)


async def test_an_empty_or_half_read_store_publishes_nothing_and_says_why(
    publish: Run, store: Path, key: Path, tmp_path: Path
) -> None:
    async with FaultyRelay(Takes()) as relay:
        empty = Run(tmp_path / "empty.db", key)
        code, _, err = await empty("--all", "-r", relay.url)
        assert (code, "the store is empty" in err) == (2, True)
        async with await SqliteStore.open(store) as opened:
            memory = StoredMemory(TriedTable(opened.database), time.time)
            note = RefusalNote(Verdict.WITHHELD, "named and not sent")
            await memory.note(
                RelayAndKey("wss://a.example"), Side.DOWN, {b"1" * 32: note}, SyncOptions()
            )
        code, _, err = await publish("--all", "-r", relay.url)
        assert (code, "1 event that relays named did not come" in err) == (2, True)
        assert sent(relay) == []


PROFILE = EventTemplate(kind=0, content='{"name":"Ann","about":"me"}', created_at=1_700_000_300)
CARD = EventTemplate(kind=30382, tags=(("d", "ab" * 32),), created_at=1_700_000_300)


async def test_a_key_of_a_person_signs_no_card(publish: Run, store: Path) -> None:
    """Whether the store or a relay shows whose key it is; newer cards do not hide it."""
    known = PROVIDER.sign_now(PROFILE)
    newer = [
        PROVIDER.sign_now(msgspec.structs.replace(CARD, created_at=1_800_000_000 + n)).event
        for n in range(NEWEST)
    ]
    async with FaultyRelay(Takes(), events=[known.event, *newer]) as relay:
        for dry in ((), ("--dry-run",)):
            code, _, err = await publish("--all", *dry, "-r", relay.url)
            assert (code, f"{relay.url} has an event of kind 0 by" in err) == (2, True), err
        async with await SqliteStore.open(store) as opened:
            await opened.save([known])
        relay.events = []
        code, _, err = await publish("--all", "-r", relay.url)
        assert (code, "the store has an event of kind 0 by" in err) == (2, True), err
        assert sent(relay) == []


async def test_cards_and_introduction_of_another_machine_do_not_refuse_a_key(
    publish: Run, key: Path, tmp_path: Path
) -> None:
    """The ledger is lost: the events on the relay still read as the program writes them."""
    async with FaultyRelay(Takes()) as relay:
        assert (await publish("--all", "-r", relay.url))[0] == 0
        code, _, err = await publish("--followed-by", FAN.pubkey, "--prune", "-r", relay.url)
        assert code == 0, err
        relay.events = [parse_event(json.dumps(one)) for one in sent(relay)]
        assert {one.kind for one in relay.events} == {0, 5, 10002, 30382, 30383}
        again = Run(tmp_path / "again.db", key)
        async with await SqliteStore.open(tmp_path / "again.db") as opened:
            await opened.save(EVENTS)
        code, _, err = await again("--all", "-r", relay.url)
        assert code == 0, err


class ShowsNothing(Takes):
    """Answers no REQ: nobody learns which events of a key it has."""

    shows = False

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        if self.shows:
            await super().on_req(peer, message)
        else:
            await peer.send("CLOSED", message[1], "auth-required: for members")


async def test_a_relay_that_does_not_show_the_events_of_a_key_gets_no_cards(publish: Run) -> None:
    behaviour = ShowsNothing()
    async with FaultyRelay(behaviour) as closed, FaultyRelay(Takes()) as relay:
        urls = ("-r", closed.url, "-r", relay.url)
        for dry in (("--dry-run",), ()):
            code, report, _ = await publish("--all", *urls, *dry)
            why = report["relays"][closed.url]["error"]
            assert (code, "does not say which events of this key" in why) == (1, True), report
        assert (report["relays"][closed.url]["left"], len(sent(relay))) == (5, 5)
        assert sent(closed) == []
        behaviour.shows = True
        code, report, _ = await publish("--all", *urls)
        assert (code, report["signed"], len(sent(closed))) == (0, 0, 5)
        behaviour.shows = False
        assert (await publish("--all", *urls))[0] == 0
        person = PROVIDER.sign_now(PROFILE).event
        relay.events = [person]
        code, _, err = await publish("--all", "--name", "other", *urls)
        assert (code, "kind 0" in err) == (2, True), "a profile is never replaced unseen"


async def test_one_key_never_changes_its_meaning(publish: Run) -> None:
    async with FaultyRelay(Takes()) as relay:
        await publish("--all", "-r", relay.url)
        for dry in ((), ("--dry-run",)):
            code, _, err = await publish("--all", "--claimed-zaps", "-r", relay.url, *dry)
            assert (code, "a key keeps its meaning" in err) == (2, True)


async def test_ranks_are_those_of_one_viewpoint_for_each_key(publish: Run) -> None:
    fan = PublicKey(FAN.pubkey).encode()
    async with FaultyRelay(Takes()) as relay:
        code, _, err = await publish("--all", "--rank-of", fan, "-r", relay.url)
        assert (code, "1 follow list" in err) == (0, True), err
        cards = [one["tags"] for one in sent(relay) if one["kind"] == 30382]
        fields = [{tag[0]: tag[1] for tag in tags} for tags in cards]
        ranks = {one["d"]: one["rank"] for one in fields}
        assert ranks == {ME.pubkey: "50", FAN.pubkey: "0"}
        for other in ((), ("--rank-of", f"{fan}:2"), ("--dry-run",)):
            code, _, err = await publish("--all", *other, "-r", relay.url)
            assert (code, "a key keeps its meaning" in err) == (2, True)


async def test_a_rank_without_a_viewpoint_is_refused(publish: Run) -> None:
    code, _, err = await publish("--all", "--field", "rank", "-r", "wss://relay.example")
    assert (code, "--rank-of" in err) == (2, True), err


async def test_a_subject_that_left_the_list_and_one_that_vanished_are_retracted(
    publish: Run, store: Path
) -> None:
    async with FaultyRelay(Takes()) as relay:
        await publish("--all", "-r", relay.url)
        code, _, err = await publish(ME.pubkey, "-r", relay.url)
        assert (code, "may be a key or an event id" in err) == (2, True)
        me = ("--followed-by", FAN.pubkey)
        code, report, _ = await publish(*me, "--prune", "-r", relay.url)
        assert (code, report["retracted"]) == (0, 2)
        gone = made(ME, 62, ("relay", "ALL_RELAYS"), at=1_700_001_000)
        async with await SqliteStore.open(store) as opened:
            await opened.save([gone])
        code, report, _ = await publish(*me, "-r", relay.url)
        assert (report["retracted"], report["signed"]) == (1, 0)
        deleted = [tag[1] for one in sent(relay) if one["kind"] == 5 for tag in one["tags"]]
        assert f"30382:{PROVIDER.pubkey}:{ME.pubkey}" in deleted


async def test_readers_find_the_cards_on_a_relay_that_is_not_ours(publish: Run) -> None:
    async with local_relay() as url:
        code, _, err = await publish("--all", "-r", url)
        assert code == 0, err
        async with RelayPool() as pool:
            person = Filter(kinds=[30382], authors=[PROVIDER.pubkey], tags={"#d": [ME.pubkey]})
            note = Filter(kinds=[30383], authors=[PROVIDER.pubkey], tags={"#d": [NOTE.event.id]})
            found = await pool.fetch([person, note], [url])
        ((url_, page),) = found.answers.items()
        assert url_
        numbers = [read(one.event) for one in sorted(page.events, key=lambda e: e.event.kind)]
        assert [one["followers"] for one in numbers[:1]] == [1]
        names = ("comment_cnt", "repost_cnt", "reaction_cnt", "zap_cnt", "zap_amount")
        assert [numbers[1][name] for name in names] == [0, 0, 1, 0, 0]


def read(card: Event) -> dict[str, int]:
    """The numbers of a card, as clients read them: the second item of each tag, if it is one."""
    return {tag[0]: int(tag[1]) for tag in card.tags if len(tag) > 1 and tag[1].isdigit()}


async def test_a_retraction_is_as_new_as_its_card(tmp_path: Path) -> None:
    """The clock was set back since, or two cards were signed within a second."""
    now = 2_000_000_000.0
    subject = (30382, "ab" * 32)
    path = tmp_path / "s.db"
    async with await SqliteStore.open(path, migrations=[ASSERTIONS]) as store:
        ledger = Ledger(store.database, PROVIDER.pubkey)
        publisher = Publisher(ledger, PROVIDER, CardOptions(), lambda: now)
        for number in (10, 20):
            await publisher.sign([Card(*subject, {"followers": number}, {})])
        signed = (await ledger.published([subject]))[subject]
        now -= 3_600
        await publisher.retract([subject])
        deletion = (await ledger.published([subject]))[subject]
    assert deletion.kind == 5
    assert deletion.created_at >= signed.created_at > 2_000_000_000
