"""Registers served for every canonical query over the shared events, against a count by hand."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from agent.relay.options import RelayLimits, RelayOptions
from agent.relay.server import serve
from nostr_client import hll
from nostr_client.codecs.event import Event, parse_event
from nostr_client.codecs.keys import VerifiedEvent, verify_many
from tests.agent.relay.client import Client, connect
from tests.agent.relay.kit import key, signed
from tests.conftest import shared_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nostr_client.store.sqlite import SqliteStore

CANONICAL = {
    "reactions": ("e", (7,)),
    "reposts": ("e", (6,)),
    "quotes": ("q", (1, 1111)),
    "replies": ("e", (1,)),
    "comments": ("E", (1111,)),
    "followers": ("p", (3,)),
}
HEX_TAGS = ("e", "p")
IN_FLIGHT = 200


def by_hand(events: Iterable[Event], now: float) -> list[Event]:
    """What NIP-01, 09 and 40 leave of `events`: a second opinion, by plain dictionaries."""
    once = {e.id: e for e in events if not 20_000 <= e.kind < 30_000}
    ids: set[tuple[str, str]] = set()
    addresses: dict[tuple[str, str], int] = defaultdict(lambda: -1)
    for event in once.values():
        if event.kind == 5:
            ids.update((event.pubkey, value) for value in event.tag_values("e"))
            for value in event.tag_values("a"):
                held = (event.pubkey, value)
                addresses[held] = max(addresses[held], event.created_at)
    newest: dict[object, Event] = {}
    for event in once.values():
        name = address(event)
        gone = event.kind != 5 and (
            (event.pubkey, event.id) in ids
            or event.created_at <= addresses[(event.pubkey, f"{event.kind}:{event.pubkey}:{name}")]
        )
        ends = event.first_tag("expiration")
        if gone or (ends is not None and ends.isdigit() and int(ends) <= now):
            continue
        place: object = event.id if name is None else (event.pubkey, event.kind, name)
        rival = newest.get(place)
        if rival is None or (-event.created_at, event.id) < (-rival.created_at, rival.id):
            newest[place] = event
    return list(newest.values())


def address(event: Event) -> str | None:
    """The `d` of an addressable event, "" for a replaceable one, None for others."""
    if event.kind in (0, 3) or 10_000 <= event.kind < 20_000:
        return ""
    if 30_000 <= event.kind < 40_000:
        return event.first_tag("d") or ""
    return None


def expected(events: list[Event]) -> dict[tuple[str, str], tuple[int, set[str]]]:
    """For each canonical query and target: how many events, and whose."""
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for event in events:
        for query, (tag, kinds) in CANONICAL.items():
            if event.kind in kinds:
                for value in event.tag_values(tag):
                    found[(query, value)][event.id] = event.pubkey
    return {at: (len(rows), set(rows.values())) for at, rows in found.items()}


def is_askable(tag: str, value: str) -> bool:
    """NIP-01: `#e` and `#p` take 64 lower-case hex characters only."""
    return tag not in HEX_TAGS or (len(value) == 64 and set(value) <= set("0123456789abcdef"))


async def ask_all(
    client: Client, wanted: dict[tuple[str, str], tuple[int, set[str]]]
) -> dict[tuple[str, str], Any]:
    """The relay's answer to every canonical query, asked without waiting for each."""
    asked = [at for at in wanted if is_askable(CANONICAL[at[0]][0], at[1])]
    answers: dict[tuple[str, str], Any] = {}
    for start in range(0, len(asked), IN_FLIGHT):
        batch = asked[start : start + IN_FLIGHT]
        for number, (query, value) in enumerate(batch):
            tag, kinds = CANONICAL[query]
            await client.send("COUNT", str(number), {"kinds": kinds, f"#{tag}": [value]})
        for _ in batch:
            label, number, body = await client.receive()
            assert label == "COUNT", (label, number, body)
            answers[batch[int(number)]] = body
    return answers


async def assert_served(client: Client, events: list[Event], *, about: str = "") -> int:
    """Every canonical query is answered as counted by hand; how many were asked.

    `about`: only those of these targets, and every tenth of the others.
    """
    wanted = expected(by_hand(events, time.time()))
    if about:
        kept = {at: wanted[at] for n, at in enumerate(wanted) if at[1] in about or n % 10 == 0}
        wanted = kept
    answers = await ask_all(client, wanted)
    for (query, value), body in answers.items():
        count, pubkeys = wanted[(query, value)]
        offset = hll.offset({f"#{CANONICAL[query][0]}": [value]})
        assert offset is not None
        assert body["approximate"] is False
        assert (body["count"], body["hll"]) == (
            count,
            hll.to_hex(hll.from_pubkeys(pubkeys, offset)),
        ), (query, value)
    return len(answers)


async def test_every_canonical_query_over_the_shared_events(store: SqliteStore) -> None:
    path = shared_path("data/events.jsonl")
    events = [parse_event(line) for line in path.read_text("utf-8").splitlines()]
    checked = verify_many(events)
    await store.save([event for event in checked if isinstance(event, VerifiedEvent)])
    options = RelayOptions(limits=RelayLimits(jobs=16))
    async with serve(store, port=0, options=options) as server, connect(server.url) as client:
        assert await assert_served(client, events) > 5_000
        more = later(events)
        for event in more:
            assert (await client.publish(event))[2] is True, event
        about = " ".join(value for event in more for _, value in event.tags)
        assert await assert_served(client, events + more, about=about) > 500


def later(events: list[Event]) -> list[Event]:
    """New people react and follow; then some take it back by deletion and by replacement."""
    target = next(e.id for e in events if e.kind == 1)
    person = next(e.pubkey for e in events if e.kind == 0)
    now = int(time.time()) - 1_000
    made: list[Event] = []
    for seed in range(20):
        made.append(signed(seed, 7, [["e", target]], created_at=now))
        made.append(signed(seed, 3, [["p", person]], created_at=now))
        if seed % 3 == 0:
            made.append(signed(seed, 5, [["e", made[-2].id]], created_at=now + 1))
        if seed % 4 == 0:
            made.append(signed(seed, 3, [["p", key(seed).pubkey]], created_at=now + 1))
        if seed % 5 == 0:
            gone = f"3:{key(seed).pubkey}:"
            made.append(signed(seed, 5, [["a", gone]], created_at=now + 2))
    return made


def test_the_hand_count_reads_json_as_found() -> None:
    event = parse_event(json.dumps({**json.loads(signed().to_json()), "extra": 1}))
    assert by_hand([event, event], 0) == [signed()]
