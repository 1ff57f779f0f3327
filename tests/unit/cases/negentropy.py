"""negentropy: small exchanges and bad messages, on the engine itself."""

from __future__ import annotations

from typing import Any

import pytest

from nostr_client.errors import NegentropyError
from nostr_client.negentropy.reconcile import Initiator, Responder
from nostr_client.negentropy.storage import PlainStorage, seal
from tests.unit.cases import Case, checks

BAD = "all"


def storage(rows: list[tuple[int, str]]) -> PlainStorage:
    return PlainStorage((stamp, bytes.fromhex(key)) for stamp, key in rows)


@checks("negentropy")
def check_negentropy(case: Case) -> None:
    """The case is one exchange, two equal sets, or messages that are all refused."""
    if isinstance(case.data, list):
        assert BAD in case.expected
        return check_refusals(case.data)
    if "client" in case.data:
        return check_exchange(case.data, case.expected)
    rows = [(1000 + i, f"{i + 1:064x}") for i in range(40)]
    first = Initiator(storage(rows)).initiate()
    assert first.hex() == case.expected["initiate"]
    assert Responder(storage(rows)).reconcile(first).hex() == case.expected["server_reply"]
    return None


def check_exchange(data: dict[str, Any], expected: dict[str, Any]) -> None:
    client, server = Initiator(storage(data["client"])), Responder(storage(data["server"]))
    first = client.initiate()
    reply = server.reconcile(first)
    said = client.reconcile(reply)
    assert (first.hex(), reply.hex()) == (expected["c1"], expected["s1"])
    assert (said.message and said.message.hex()) == expected["c2"]
    assert (said.have.hex(), said.need.hex()) == (expected["have"], expected["need"])


def check_refusals(messages: list[str]) -> None:
    session = Responder(seal([(1, bytes(32))]))
    for text in messages:
        with pytest.raises((NegentropyError, ValueError)):  # ValueError: text that is not hex
            session.reconcile(bytes.fromhex(text))
    first = Initiator(seal([])).initiate()
    assert session.reconcile(first).hex() == "6100000201" + bytes(32).hex(), "no longer usable"
