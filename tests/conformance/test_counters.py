"""Every case of `data/counters.json` on every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.counters.jetstream import JetStreamCounterStore
from nostr_client.counters.sqlite import SqliteCounterStore
from tests.conformance.counter_embedded import Clock, EmbeddedDriver
from tests.conformance.counter_server import ServerDriver
from tests.conformance.counter_steps import (
    Outcome,
    run_case,
)
from tests.conftest import load_cases
from tests.nats_peer import NatsServer, RawClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


CASES: list[dict[str, Any]] = (load_cases("counters.json") or {"cases": []})["cases"]

EMBEDDED_DIFFERS = {
    "client-sources-header-bad-json": "a client that plants Nats-Counter-Sources is refused",
    "src-planted-map": "a client that plants Nats-Counter-Sources is refused",
    "limit-max-msgs-loses-counter": "limits keep the newest message of every subject",
    "limit-max-age-loses-counter": "limits keep the newest message of every subject",
    "cfg-toggle-off": "the setting can be turned off at any time, on while the stream is empty",
}
"""`must` cases that the embedded store answers otherwise on purpose; tests below show how."""

MAY_DIFFER = {
    "cfg-with-batched": "a server's ingest option: taken without effect, so API level 2 will do",
    "cfg-with-async-persist": "",
    "cfg-with-compression": "",
    "cfg-refuse-delete-marker-ttl": "refused, as a replicated server does; R1 has a loophole",
    "broken-val-letters": "a val that is no integer is broken (10172), not read as 0",
    "broken-val-prefix": "`12x` is broken (10172), not read as 12",
    "broken-val-space": "` 5` is broken (10172), not read as 0",
}
"""`may-differ` cases and how the embedded store differs; "": it does not."""


@pytest.fixture
async def embedded() -> AsyncIterator[EmbeddedDriver]:
    clock = Clock()
    async with await SqliteCounterStore.open(":memory:", clock=clock) as store:
        yield EmbeddedDriver(store, clock)


def named(*, differing: bool) -> list[Any]:
    return [
        pytest.param(case, id=case["id"])
        for case in CASES
        if (case["id"] in EMBEDDED_DIFFERS or bool(MAY_DIFFER.get(case["id"]))) == differing
    ]


def test_the_shared_cases_are_here() -> None:
    assert CASES or load_cases("counters.json") is None


@pytest.mark.parametrize("case", named(differing=False))
async def test_embedded(embedded: EmbeddedDriver, case: dict[str, Any]) -> None:
    outcomes = await run_case(embedded, case["steps"])
    for number, (step, outcome) in enumerate(zip(case["steps"], outcomes, strict=True)):
        if "expect" in step:
            assert outcome == step["expect"], (number, step["op"])


@pytest.fixture
async def server(nats_server: NatsServer) -> AsyncIterator[ServerDriver]:
    """A nats-server that holds nothing yet."""
    async with await JetStreamCounterStore.connect(nats_server.url) as store:
        raw = RawClient(nats_server.port)
        yield ServerDriver(store, raw)
        raw.close()


@pytest.mark.interop
@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
async def test_nats_server(server: ServerDriver, case: dict[str, Any]) -> None:
    outcomes = await run_case(server, case["steps"])
    for number, (step, outcome) in enumerate(zip(case["steps"], outcomes, strict=True)):
        if "expect" in step:
            assert outcome == step["expect"], (number, step["op"])


def counter(**more: Any) -> dict[str, Any]:
    return {
        "name": "C",
        "subjects": ["c.>"],
        "allow_msg_counter": True,
        "allow_direct": True,
    } | more


def incr(subject: str, text: str, *headers: tuple[str, str]) -> dict[str, Any]:
    return {"op": "publish", "subject": subject, "headers": [("Nats-Incr", text), *headers]}


def last(subject: str) -> dict[str, Any]:
    return {"op": "get_last", "stream": "C", "subject": subject}


async def outcomes(driver: EmbeddedDriver, *steps: dict[str, Any]) -> list[Outcome]:
    return await run_case(driver, steps)


@pytest.mark.parametrize("planted", ["not json", '{"ES":{"count.es.hits":"100"}}', ""])
async def test_a_client_that_plants_a_source_map_is_refused(
    embedded: EmbeddedDriver, planted: str
) -> None:
    _, refused, good = await outcomes(
        embedded,
        {"op": "create_stream", "config": counter()},
        incr("c.a", "+1", ("Nats-Counter-Sources", planted)),
        incr("c.a", "+1"),
    )
    assert refused["error"]["err_code"] == 10227
    assert good == {"ack": {"stream": "C", "seq": 1, "val": "1"}}


async def test_max_msgs_keeps_the_newest_of_every_subject(embedded: EmbeddedDriver) -> None:
    *_, idle, added, state = await outcomes(
        embedded,
        {"op": "create_stream", "config": counter(max_msgs=3)},
        incr("c.idle", "+50"),
        *[incr("c.a", "1") for _ in range(5)],
        *[incr(f"c.b{n}", "1") for n in range(3)],
        last("c.idle"),
        incr("c.idle", "+1"),
        {"op": "state", "stream": "C"},
    )
    assert idle["msg"]["body"] == '{"val":"50"}'
    assert added["ack"]["val"] == "51"
    assert state == {"messages": 5, "first_seq": 6, "last_seq": 10}


async def test_max_age_keeps_the_newest_of_every_subject(embedded: EmbeddedDriver) -> None:
    second = 1_000_000_000
    *_, idle, added, dump = await outcomes(
        embedded,
        {"op": "create_stream", "config": counter(max_age=second, duplicate_window=second)},
        incr("c.a", "+20"),
        incr("c.a", "+30"),
        {"op": "sleep", "seconds": 2.5},
        last("c.a"),
        incr("c.a", "+1"),
        {"op": "dump", "stream": "C"},
    )
    assert idle["msg"]["body"] == '{"val":"50"}'
    assert added["ack"]["val"] == "51"
    assert [message["seq"] for message in dump["msgs"]] == [3]


async def test_age_is_applied_without_a_publish_too(embedded: EmbeddedDriver) -> None:
    await outcomes(
        embedded,
        {"op": "create_stream", "config": counter(max_age=1_000_000_000)},
        *[incr("c.a", "+1") for _ in range(4)],
        {"op": "sleep", "seconds": 2},
    )
    assert await embedded.store.trim() == 3
    assert (await outcomes(embedded, last("c.a")))[0]["msg"]["body"] == '{"val":"4"}'


async def test_the_setting_goes_off_at_any_time_and_on_when_empty(
    embedded: EmbeddedDriver,
) -> None:
    plain = counter(allow_msg_counter=False)
    _, _, off, verbatim, refused, _, on, again = await outcomes(
        embedded,
        {"op": "create_stream", "config": counter()},
        incr("c.a", "+5"),
        {"op": "update_stream", "config": plain},
        {"op": "publish", "subject": "c.a", "headers": None, "body": "text"},
        {"op": "update_stream", "config": counter()},
        {"op": "purge", "stream": "C"},
        {"op": "update_stream", "config": counter()},
        incr("c.a", "+1"),
    )
    assert off == on == {"ok": True}
    assert verbatim == {"ack": {"stream": "C", "seq": 2}}
    assert refused["error"]["err_code"] == 10052
    assert again == {"ack": {"stream": "C", "seq": 3, "val": "1"}}


@pytest.mark.parametrize("body", ["12x", " 5", "abc", "1_0"])
async def test_a_body_that_only_begins_like_a_number_is_broken(
    embedded: EmbeddedDriver, body: str
) -> None:
    restored, refused, _, added = await outcomes(
        embedded,
        {
            "op": "restore_plain_as_counter",
            "name": "C",
            "subjects": ["c.>"],
            "messages": [{"subject": "c.a", "headers": None, "body": f'{{"val":"{body}"}}'}],
            "target_config": {"allow_msg_counter": True},
        },
        incr("c.a", "+1"),
        {"op": "purge", "stream": "C", "filter": "c.a"},
        incr("c.a", "+1"),
    )
    assert restored["messages"] == 1
    assert refused["error"]["err_code"] == 10172
    assert added["ack"]["val"] == "1"


async def test_delete_markers_are_refused_and_ingest_options_have_no_effect(
    embedded: EmbeddedDriver,
) -> None:
    refused, made = await outcomes(
        embedded,
        {"op": "create_stream", "config": counter(subject_delete_marker_ttl=5_000_000_000)},
        {"op": "create_stream", "config": counter(allow_batched=True)},
    )
    assert refused["error"]["err_code"] == 10052
    assert made == {"ok": True, "required_api_level": "2"}


def test_every_difference_is_of_a_case_that_may_differ() -> None:
    kinds = {case["id"]: case["embedded"] for case in CASES}
    if CASES:
        differing = {kinds[name] for name in EMBEDDED_DIFFERS if name in kinds}
        assert differing <= {"must"}
        may = {kinds[name] for name in MAY_DIFFER if name in kinds}
        assert may <= {"may-differ"}
