"""A repair over relays of this process: what moves, what does not, and what a second one does."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from nostr_client.cli.sync.coverage import _Printer
from nostr_client.client import NostrClient
from nostr_client.codecs.event import Event, EventTemplate
from nostr_client.codecs.keys import KeySigner, verify
from nostr_client.codecs.nip19 import PublicKey
from nostr_client.network.outbox import RelayChoice
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.coverage import Look, SkipReason
from tests.faulty_relay import FaultyRelay, Peer
from tests.negrelay import Drops, SpeaksNeg
from tests.right_relay import Right
from tests.running import nostr_client, started

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from nostr_client.codecs.filters import Filter

OWN = KeySigner(bytes(31) + b"\x51")
FRIEND = KeySigner(bytes(31) + b"\x52")
NPUB = PublicKey(OWN.pubkey).encode()
NOW = int(time.time())


def made(kind: int, ago: int, *tags: tuple[str, ...], by: KeySigner = OWN) -> Event:
    return by.sign_now(EventTemplate(kind=kind, tags=tags, created_at=NOW - ago)).event


NOTES = [made(1, 90 * 86_400 + n) for n in range(30)] + [made(1, 600 + n) for n in range(30)]
GONE = NOTES[3]
DELETION = made(5, 300, ("e", GONE.id))
PROFILE, OLD_PROFILE = made(0, 500), made(0, 900)
PRIVATE = made(4, 400, ("p", FRIEND.pubkey))
PROTECTED = made(1, 410, ("-",))
LIVE = {one.id for one in NOTES if one is not GONE} | {DELETION.id, PROFILE.id}


def ids(relay: FaultyRelay) -> set[str]:
    return {one.id for one in relay.events}


class Deletes(Right):
    """A right relay whose pages are large."""

    cap = 500


async def test_relays_end_with_equal_sets_and_a_second_repair_moves_nothing() -> None:
    one = FaultyRelay(Deletes(), events=[*NOTES[:40], OLD_PROFILE, PROTECTED, PRIVATE])
    two = FaultyRelay(Deletes(), events=[*NOTES[20:], PROFILE])
    three = FaultyRelay(Deletes(), events=[DELETION])
    kinds = ("--kind", "0", "--kind", "1", "--kind", "4", "--kind", "5")
    async with one, two, three:
        relays = [arg for each in (one, two, three) for arg in ("-r", each.url)]
        done = await nostr_client("coverage", NPUB, *relays, *kinds, "--repair", "--dry-run")
        assert done.code == 0, done.err
        assert not any(each.verbs()["EVENT"] for each in (one, two, three))
        assert "does not get 1 event: of private kinds" in done.err
        done = await nostr_client("coverage", NPUB, *relays, *kinds, "--repair", "--yes", "--json")
        assert done.code == 0, done.err
        told = json.loads(done.out)
        assert told["report"]["complete"]
        assert ids(one) == LIVE | {PROTECTED.id, PRIVATE.id}
        assert ids(two) == ids(three) == LIVE
        sent = [message[1]["kind"] for message in one.received if message[0] == "EVENT"]
        assert sent[0] == 5
        before = [each.verbs()["EVENT"] for each in (one, two, three)]
        done = await nostr_client("coverage", NPUB, *relays, *kinds, "--repair", "--yes")
        assert done.code == 0, done.err
        assert "nothing to send" in done.err
        assert [each.verbs()["EVENT"] for each in (one, two, three)] == before


async def test_what_a_relay_drops_twice_stays_dropped(tmp_path: Path) -> None:
    question = Look(author=OWN.pubkey, kinds=(1,))
    holder, forgetful = FaultyRelay(SpeaksNeg(), events=NOTES[:5]), FaultyRelay(SpeaksNeg())
    async with holder, forgetful:
        for run in range(4):
            relays = [holder.url, forgetful.url]
            async with NostrClient(relays, store=tmp_path / "store.db") as client:
                plan = await client.plan_repair(await client.coverage(question))
                if run < 2:
                    assert len(plan.steps) == 5
                    assert (await client.repair(plan)).complete
                    forgetful.events.clear()
                else:
                    assert plan.steps == ()
                    assert [(why, n) for _, why, n in plan.left] == [(SkipReason.DROPPED, 5)]
    assert forgetful.verbs()["EVENT"] == 10


async def test_what_a_relay_drops_at_once_counts_as_refused() -> None:
    question = Look(author=OWN.pubkey, kinds=(1,))
    holder, dropping = FaultyRelay(SpeaksNeg(), events=NOTES[:5]), FaultyRelay(Drops())
    async with holder, dropping, NostrClient([holder.url, dropping.url]) as client:
        report = await client.repair(await client.plan_repair(await client.coverage(question)))
        (one,) = report.relays
        assert (one.taken, one.refused) == (0, {"accepted, and not there when asked for": 5})
        plan = await client.plan_repair(await client.coverage(question))
        assert [(why, n) for _, why, n in plan.left] == [(SkipReason.REFUSED, 5)]


async def test_refusals_are_told_and_not_tried_again_at_once() -> None:
    refusing = FaultyRelay(SpeaksNeg(refuses=lambda event: "blocked: not here"))
    holder = FaultyRelay(SpeaksNeg(), events=NOTES[:3])
    question = Look(author=OWN.pubkey, kinds=(1,))
    async with holder, refusing, NostrClient([holder.url, refusing.url]) as client:
        report = await client.repair(await client.plan_repair(await client.coverage(question)))
        (one,) = report.relays
        assert (one.taken, one.refused) == (0, {"blocked: not here": 3})
        assert not report.complete
        plan = await client.plan_repair(await client.coverage(question))
        assert plan.steps == ()
        assert [(why, n) for _, why, n in plan.left] == [(SkipReason.REFUSED, 3)]


async def test_the_store_gives_what_no_relay_has(tmp_path: Path) -> None:
    async with await SqliteStore.open(tmp_path / "store.db") as store:
        await store.save([verify(one) for one in (*NOTES[:4], PROFILE)])
    empty = FaultyRelay(SpeaksNeg())
    async with empty, NostrClient([empty.url], store=tmp_path / "store.db") as client:
        found = await client.coverage(Look(author=OWN.pubkey, kinds=(0, 1)))
        assert (found.held(empty.url, 1), len(found.union(1))) == (0, 4)
        await client.repair(await client.plan_repair(found))
    assert ids(empty) == {one.id for one in (*NOTES[:4], PROFILE)}


@pytest.mark.parametrize("batches", [1, 30])
async def test_a_store_that_fills_meanwhile_hides_nothing(tmp_path: Path, batches: int) -> None:
    """A sync runs beside: what the store has got meanwhile is not what the relay lacks."""
    full = FaultyRelay(SpeaksNeg(), events=NOTES)
    arriving = [NOTES[at::batches] for at in range(batches)]
    async with full, await SqliteStore.open(tmp_path / "store.db") as store:
        items = store.negentropy_items

        async def then_more(filter: Filter) -> Any:
            found = await items(filter)
            if arriving:
                await store.save([verify(one) for one in arriving.pop()])
            return found

        with mock.patch.object(store, "negentropy_items", then_more):
            async with NostrClient([full.url], store=store) as client:
                found = await client.coverage(Look(author=OWN.pubkey, kinds=(1,)))
    assert found.lacking(full.url, 1) == frozenset()
    assert found.held(full.url, 1) == len(NOTES)


@asynccontextmanager
async def an_inbox(mine: FaultyRelay) -> AsyncIterator[tuple[FaultyRelay, NostrClient]]:
    """An empty relay where FRIEND reads, and a client of the author's relay that finds it."""
    async with FaultyRelay(SpeaksNeg()) as inbox:
        listed = made(10002, 5, ("r", inbox.url, "read"), by=FRIEND)
        async with FaultyRelay(events=[listed]) as indexer:
            choice = RelayChoice(indexers=(indexer.url,), own=(inbox.url,))
            async with NostrClient([mine.url], signer=OWN, choice=choice) as client:
                yield inbox, client


async def test_mentions_go_where_those_read_whom_they_mention() -> None:
    mention = made(1, 60, ("p", FRIEND.pubkey))
    old = made(1, 60 * 86_400, ("p", FRIEND.pubkey))
    mine = FaultyRelay(SpeaksNeg(), events=[mention, old, *NOTES[:3]])
    async with mine, an_inbox(mine) as (inbox, client):
        found = await client.coverage(Look(author=OWN.pubkey, kinds=(1,)))
        plan = await client.plan_repair(found)
        # A list that names an address of this machine is not followed, and that is told.
        assert [(why, n) for _, why, n in plan.left] == [(SkipReason.UNASKED, 1)]
        await client.pool.remove(inbox.url)
        client.pool.relay(inbox.url)
        plan = await client.plan_repair(found)
        assert plan.of(inbox.url) == [mention]
        await client.repair(plan)
        assert ids(inbox) == {mention.id}
        found = await client.coverage(Look(author=OWN.pubkey, kinds=(1,)))
        assert (await client.plan_repair(found)).steps == ()


async def test_later_runs_reach_mentions_before_the_newest_events() -> None:
    """A run sends 200 at most to relays that the user did not name; later runs send the others."""
    mentions = [made(1, 3_600 + n, ("p", FRIEND.pubkey)) for n in range(210)]
    notes = [made(1, 60 + n) for n in range(210)]  # newer, and they mention nobody
    mine = FaultyRelay(SpeaksNeg(), events=[*mentions, *notes])
    async with mine, an_inbox(mine) as (inbox, client):
        found = await client.coverage(Look(author=OWN.pubkey, kinds=(1,)))
        await client.plan_repair(found)
        await client.pool.remove(inbox.url)
        client.pool.relay(inbox.url)  # the user has not named it, but it may be asked
        for sent in (200, 210):
            assert (await client.repair(await client.plan_repair(found))).complete
            assert len(ids(inbox)) == sent
    assert ids(inbox) == {one.id for one in mentions}


async def test_deletions_go_whatever_kinds_are_compared() -> None:
    one, two = FaultyRelay(Deletes(), events=NOTES), FaultyRelay(Deletes(), events=[DELETION])
    elsewhere = made(62, 150 * 86_400, ("relay", "wss://elsewhere.example"))
    async with one, two:
        vanish = made(62, 200 * 86_400, ("relay", one.url))  # older than every note
        two.events += [vanish, elsewhere]
        args = ("coverage", NPUB, "-k", "1", "-r", one.url, "-r", two.url, "--repair", "--yes")
        done = await nostr_client(*args)
        assert done.code == 0, done.err
    sent = [message[1]["id"] for message in one.received if message[0] == "EVENT"]
    assert sent == [DELETION.id, vanish.id]
    assert "1 event: a request to vanish from other relays" in done.err
    assert GONE.id not in ids(two)


class NoReactions(Deletes):
    """Refuses to be read for kind 7."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        if message[2].get("kinds") == [7]:
            await peer.send("CLOSED", message[1], "restricted: no reactions")
            return
        await super().on_req(peer, message)

    async def on_neg_open(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("NEG-ERR", message[1], "blocked: not now")


async def test_a_relay_gets_the_kinds_that_were_compared_and_the_plan_names_the_others() -> None:
    liked = made(7, 100, ("e", NOTES[0].id))
    one, two = FaultyRelay(Deletes(), events=[*NOTES, liked]), FaultyRelay(NoReactions())
    async with one, two:
        args = ("coverage", NPUB, "-k", "1", "-k", "7", "-r", one.url, "-r", two.url, "--repair")
        planned = await nostr_client(*args, "--dry-run")
        told = json.loads((await nostr_client(*args, "--dry-run", "--json")).out)
        await nostr_client(*args, "--yes")
    assert f"{two.url} gets nothing of kinds not compared to the end: 7" in planned.err
    assert told["plan"]["not_compared"] == [{"relay": two.url, "kinds": [7]}]
    assert ids(two) == {one.id for one in NOTES}


class Stops(Deletes):
    """Takes seven events, and answers no further one before it is `free`."""

    def __init__(self) -> None:
        super().__init__()
        self.free = False

    async def on_event(self, peer: Peer, message: list[Any]) -> None:
        if self.free or len(peer.relay.events) < 7:
            await super().on_event(peer, message)


async def test_a_repair_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    slow = Stops()
    holder, empty = FaultyRelay(Deletes(), events=NOTES), FaultyRelay(slow)
    args = ("coverage", NPUB, "--kind", "1", "--repair", "--yes", "--store", f"{tmp_path}/s.db")
    async with holder, empty:
        relays = ("-r", holder.url, "-r", empty.url)
        async with started(*args, *relays) as process:
            await empty.heard("EVENT", 8)
            process.kill()
            await process.wait()
        assert len(ids(empty)) == 7
        slow.free = True
        done = await nostr_client(*args, *relays)
        assert done.code == 0, done.err
        assert ids(empty) == ids(holder) == {one.id for one in NOTES}


async def test_a_repair_asks_on_a_terminal_alone() -> None:
    done = await nostr_client("coverage", NPUB, "-r", "ws://127.0.0.1:9", "--repair")
    assert done.code == 2
    assert "--yes" in done.err


@pytest.mark.parametrize("answer", ["y", "YES", "", "n"])
async def test_a_repair_is_sent_only_after_a_yes(
    monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    reads, writes = os.pipe()
    with os.fdopen(reads) as stdin, os.fdopen(writes, "w") as typed:
        monkeypatch.setattr(sys, "stdin", stdin)
        typed.write(f"{answer}\n")
        typed.flush()
        printer = _Printer(True, yes=False, dry_run=False)
        sends = await printer.confirms(mock.Mock(), mock.Mock(steps=[1]))
    assert sends is (answer.lower() == "y" or answer == "YES")
