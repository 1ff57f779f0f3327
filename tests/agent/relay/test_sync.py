"""NIP-77 against the whole relay: what a session covers, by filter and by event id."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agent.relay.options import RelayLimits, RelayOptions
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.codecs.messages import NegErr, parse_relay_message
from nostr_client.negentropy.reconcile import Initiator
from nostr_client.negentropy.storage import seal
from tests.agent.relay.kit import CHALLENGE, NOW, URL, auth_event, frame, key, signed
from tests.agent.relay.wire import Wire, core_over, wired

if TYPE_CHECKING:
    from nostr_client.codecs.event import Event
    from nostr_client.store.sqlite import SqliteStore

NOTES = [signed(1, 1, content=str(i), created_at=NOW + i // 4) for i in range(200)]
REACTIONS = [signed(2, 7, [["e", NOTES[0].id]], content=str(i), created_at=NOW) for i in range(50)]
MESSAGES = [signed(3, 4, [["p", key(4).pubkey]], content=str(i), created_at=NOW) for i in range(9)]
BOTH = signed(5, 30_078, content=json.dumps([{"kinds": [1]}, {"kinds": [7]}, {"kinds": [7, 1]}]))
ONE = signed(5, 1235, content='{"kinds":[7],"limit":3}')
NOT_JSON = signed(5, 1235, content="kinds 7")
NO_FILTER = signed(5, 1235, content='[{"kinds":["x"]}]')
NOTHING = signed(5, 1235, content="[]")
PRIVATE = signed(5, 1235, content='{"kinds":[4]}')


@pytest.fixture(autouse=True)
async def _events(store: SqliteStore) -> None:
    events = [*NOTES, *REACTIONS, *MESSAGES, BOTH, ONE, NOT_JSON, NO_FILTER, NOTHING, PRIVATE]
    await store.save([VerifiedEvent(event) for event in events])


async def reconcile(wire: Wire, wanted: Any, held: list[Event]) -> tuple[set[str], set[str]]:
    """What a client that holds `held` learns: ids to upload and ids to download."""
    client = Initiator(seal((e.created_at, bytes.fromhex(e.id)) for e in held), frame_limit=4_096)
    have: set[str] = set()
    need: set[str] = set()
    message: bytes | None = client.initiate()
    label: list[Any] = ["NEG-OPEN", "n", wanted]
    while message is not None:
        (answer,) = await wire.push(frame(*label, message.hex()))
        assert answer[:2] == ["NEG-MSG", "n"], answer
        found = client.reconcile(bytes.fromhex(answer[2]))
        have.update(found.have.hex())
        need.update(found.need.hex())
        message, label = found.message, ["NEG-MSG", "n"]
    await wire.push(frame("NEG-CLOSE", "n"))
    return have, need


async def refusal(wire: Wire, wanted: Any) -> NegErr:
    """The NEG-ERR that a NEG-OPEN gets."""
    answer = (await wire.push(frame("NEG-OPEN", "n", wanted, "61")))[-1]
    message = parse_relay_message(frame(*answer))
    assert isinstance(message, NegErr)
    return message


def ids(events: list[Event]) -> set[str]:
    return {event.id for event in events}


async def test_both_sides_learn_what_they_lack(store: SqliteStore) -> None:
    own = [signed(9, 1, content=str(i), created_at=NOW + i) for i in range(40)]
    async with core_over(store) as core, wired(core) as wire:
        have, need = await reconcile(wire, {"kinds": [1]}, [*NOTES[50:], *own])
        assert (have, need) == (ids(own), ids(NOTES[:50]))
        assert core.context.neg_budget.items == 0


async def test_an_event_id_stands_for_its_filters(store: SqliteStore) -> None:
    async with core_over(store) as core, wired(core) as wire:
        _, need = await reconcile(wire, BOTH.id, [])
        assert need == ids(NOTES) | ids(REACTIONS)
        _, need = await reconcile(wire, ONE.id, [])
        assert need == set(sorted(ids(REACTIONS))[:3])


@pytest.mark.parametrize("form", ["current", "seed"])
@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ("ab" * 32, "FILTER_NOT_FOUND"),
        ("AB" * 32, "FILTER_INVALID"),
        ("no id", "FILTER_INVALID"),
        (NOT_JSON.id, "FILTER_INVALID"),
        (NO_FILTER.id, "FILTER_INVALID"),
        (NOTHING.id, "FILTER_INVALID"),
        (MESSAGES[0].id, "FILTER_NOT_FOUND"),
    ],
)
async def test_event_ids_that_stand_for_none(
    store: SqliteStore, form: Any, wanted: str, code: str
) -> None:
    async with core_over(store, RelayOptions(neg_reasons=form)) as core, wired(core) as wire:
        assert (await refusal(wire, wanted)).reason == code


async def test_too_many_events(store: SqliteStore) -> None:
    options = RelayOptions(limits=RelayLimits(neg_items=199))
    async with core_over(store, options) as core, wired(core) as wire:
        answer = await refusal(wire, {"kinds": [1]})
        assert (answer.overflow, answer.max_records) == (True, 199)
        _, need = await reconcile(wire, {"kinds": [1], "until": NOW + 48}, [])
        assert need == ids(NOTES[:196])
        _, need = await reconcile(wire, {"kinds": [1], "limit": 4}, [])
        assert need == ids(NOTES[196:])


async def test_private_messages_are_synced_for_their_parties(store: SqliteStore) -> None:
    everything = await store.query([Filter()])
    public = [event for event in everything if event.kind != 4]
    async with core_over(store) as core, wired(core) as wire:
        _, need = await reconcile(wire, {}, [])
        assert need == ids(public)
        assert (await refusal(wire, {"kinds": [4]})).prefix == "auth-required"
        assert (await refusal(wire, PRIVATE.id)).prefix == "auth-required"
        now = int(core.context.clock.wall())
        (answer,) = await wire.push(frame("AUTH", auth_event(4, CHALLENGE, URL, now)))
        assert answer[2] is True
        _, need = await reconcile(wire, {}, [])
        assert need == ids(everything)
        _, need = await reconcile(wire, {"kinds": [4]}, MESSAGES[:4])
        assert need == ids(MESSAGES[4:])
