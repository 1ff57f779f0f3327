"""Every entry of negentropy.json: whole sessions, single messages good and bad, units.

`nip77` (relay frames) is in test_messages.py, where frames are parsed.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.errors import NegentropyError
from nostr_client.negentropy.columns import ArrayStorage
from nostr_client.negentropy.encoding import decode_varint, encode_varint
from nostr_client.negentropy.reconcile import Initiator, Responder
from nostr_client.negentropy.storage import PlainStorage
from tests.conftest import load_cases

if TYPE_CHECKING:
    from nostr_client.negentropy.storage import Storage

Item = tuple[int, bytes]

DATA = load_cases("negentropy.json") or {"vectors": [], "units": {}}
SESSIONS = [v for v in DATA["vectors"] if v["kind"] in ("sync", "frame-limit-defect")]
MESSAGES = [v for v in DATA["vectors"] if v["kind"] == "message"]
KINDS = ["plain", "array"]


def name(case: dict[str, Any]) -> str:
    return str(case["name"])


def storage(items: list[Item], kind: str) -> Storage:
    if kind == "plain":
        return PlainStorage(items)
    return ArrayStorage([stamp for stamp, _ in items], b"".join(key for _, key in items))


def listed(rows: list[list[Any]]) -> list[Item]:
    return [(stamp, bytes.fromhex(key)) for stamp, key in rows]


def sides(case: dict[str, Any]) -> tuple[list[Item], list[Item]]:
    """The items of both sides, generated where the case says how."""
    if "gen" not in case:
        return listed(case["clientItems"]), listed(case["serverItems"])
    gen = case["gen"]
    items = [
        (
            gen["base"] + at * gen["num"] // gen["den"],
            sha256(f"{gen['seed']}:{at}".encode()).digest(),
        )
        for at in range(gen["count"])
    ]
    lacks = set(gen["clientMissing"]), set(gen["serverMissing"])
    client, server = ([x for at, x in enumerate(items) if at not in lack] for lack in lacks)
    return client, server


def expected(case: dict[str, Any]) -> list[tuple[set[str], set[str]]]:
    """The accepted (have, need)."""
    if "gen" in case:
        client, server = ({key.hex() for _, key in side} for side in sides(case))
        return [(client - server, server - client)]
    accepted = [(set(case["have"]), set(case["need"]))]
    if case["name"] == "duplicate-id-two-timestamps":
        accepted.append((set(), set()))  # by the vector's note a set-based client says nothing
    return accepted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", SESSIONS, ids=name)
def test_a_session_finds_the_difference(case: dict[str, Any], kind: str) -> None:
    limits = case["clientFrameSizeLimit"], case["serverFrameSizeLimit"]
    client_items, server_items = sides(case)
    client = Initiator(storage(client_items, kind), frame_limit=limits[0])
    server = Responder(storage(server_items, kind), frame_limit=limits[1])
    have: set[str] = set()
    need: set[str] = set()
    messages: list[str] = []
    message: bytes | None = client.initiate()
    while message is not None:
        answer = server.reconcile(message)
        messages += [message.hex(), answer.hex()]
        for sent, limit in zip((message, answer), limits, strict=True):
            assert not limit or len(sent) <= limit
        said = client.reconcile(answer)
        have.update(said.have.hex())
        need.update(said.need.hex())
        message = said.message
        assert client.rounds < 100
    assert (have, need) in expected(case)
    if not any(limits):
        assert messages == case["messages"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", MESSAGES, ids=name)
def test_a_message_is_answered_or_refused(case: dict[str, Any], kind: str) -> None:
    outcome = run_message(case, kind)
    expect = case["expect"]
    if expect.get("accept_or_error"):
        expect = {"error": expect["recommended"]}
    assert outcome == expect


def run_message(case: dict[str, Any], kind: str) -> dict[str, Any]:
    items = storage(listed(case["items"]), kind)
    message = bytes.fromhex(case["input"])
    limit = case["frameSizeLimit"]
    try:
        if case["role"] == "server":
            return {"reply": Responder(items, frame_limit=limit).reconcile(message).hex()}
        client = Initiator(items, frame_limit=limit)
        client.initiate()
        said = client.reconcile(message)
    except NegentropyError as error:
        return {"error": error.kind}
    return {"done": said.message is None, "have": said.have.hex(), "need": said.need.hex()}


@pytest.mark.parametrize(("number", "encoded"), DATA["units"].get("varint", []))
def test_a_varint(number: int, encoded: str) -> None:
    raw = bytes.fromhex(encoded)
    assert encode_varint(number) == raw
    assert decode_varint(b"\xff" + raw + b"\xff", 1) == (number, 1 + len(raw))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", DATA["units"].get("fingerprint", []), ids=lambda c: len(c["ids"]))
def test_a_fingerprint(case: dict[str, Any], kind: str) -> None:
    items = storage([(at, bytes.fromhex(key)) for at, key in enumerate(case["ids"])], kind)
    assert items.fingerprints([0], [len(items)]) == [bytes.fromhex(case["fingerprint"])]
