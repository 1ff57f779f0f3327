"""The `nats-counter` category: publishes on a counter stream, one after another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nostr_client.counters.base import Ack, Outgoing
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.sqlite import SqliteCounterStore
from nostr_client.errors import CounterError
from tests.unit.cases import Case, checks

if TYPE_CHECKING:
    from collections.abc import Callable

Results = list[Ack | CounterError]
STREAM = StreamConfig(name="C", subjects=("c.>",), allow_msg_counter=True, allow_direct=True)


def message(found: dict[str, Any]) -> Outgoing:
    """A publish as the cases write it: headers apart or beside the body."""
    headers = found.get("headers", {k: v for k, v in found.items() if k != "body"})
    return Outgoing("c.a", tuple(headers.items()), found.get("body", "").encode())


@checks("nats-counter")
async def check(case: Case) -> None:
    async with await SqliteCounterStore.open(":memory:") as store:
        await store.create_stream(STREAM)
        # The recorded stream held one message of value 1 before the first of these.
        await store.publish_message(Outgoing("c.a", (("Nats-Incr", "+1"),)))
        results = [await attempt(store, message(found)) for found in json.loads(case.input)]
        value = await (await store.counters("C")).load("c.a")
    for what, expected in case.expected.items():
        CHECKS[what](expected, results, value)


async def attempt(store: SqliteCounterStore, sent: Outgoing) -> Ack | CounterError:
    try:
        return await store.publish_message(sent)
    except CounterError as error:
        return error


def acks(expected: Any, results: Results, value: int) -> None:
    shown = []
    for result in results:
        assert isinstance(result, Ack)
        duplicate = {"duplicate": True} if result.duplicate else {}
        val = {} if result.val is None else {"val": str(result.val)}
        shown.append({"seq": result.seq} | val | duplicate)
    assert shown == expected


def codes(expected: Any, results: Results, value: int) -> None:
    assert [getattr(result, "code", None) for result in results] == expected


def total(expected: Any, results: Results, value: int) -> None:
    assert value == 1 + expected


CHECKS: dict[str, Callable[[Any, Results, int], None]] = {
    "acks": acks,
    "err_code": codes,
    "total_added": total,
}
