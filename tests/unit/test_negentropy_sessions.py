"""Whole sessions end with exactly the difference of the two sets, whatever the frames hold."""

from __future__ import annotations

import random
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nostr_client.errors import InvalidInput, NegentropyError
from nostr_client.negentropy import reconcile as engine
from nostr_client.negentropy.columns import ArrayStorage
from nostr_client.negentropy.encoding import MessageWriter, encode_varint
from nostr_client.negentropy.reconcile import Initiator, Responder
from nostr_client.negentropy.storage import PlainStorage, Storage, seal
from tests.negentropy_sets import Item, two_sets
from tests.strategies import lists_up_to

if TYPE_CHECKING:
    from nostr_client.negentropy.encoding import Block

LIMITS = [0, 4096, 5000, 60_000]


class Answers(Protocol):
    def reconcile(self, message: bytes) -> bytes: ...


class Session(NamedTuple):
    have: set[bytes]
    need: set[bytes]
    rounds: int
    sent: int


def run(client: Initiator, server: Answers, *, limits: tuple[int, int] = (0, 0)) -> Session:
    have: set[bytes] = set()
    need: set[bytes] = set()
    sent = 0
    message: bytes | None = client.initiate()
    while message is not None:
        sent += len(message)
        answer = server.reconcile(message)
        for said, limit in zip((message, answer), limits, strict=True):
            assert not limit or len(said) <= limit
        result = client.reconcile(answer)
        have.update(result.have)
        need.update(result.need)
        message = result.message
        assert client.rounds < 500
    return Session(have, need, client.rounds, sent)


def arrays(items: list[Item]) -> Storage:
    return ArrayStorage([stamp for stamp, _ in items], b"".join(key for _, key in items))


def exact(session: Session, ours: list[Item], theirs: list[Item]) -> None:
    mine, other = {key for _, key in ours}, {key for _, key in theirs}
    assert (session.have, session.need) == (mine - other, other - mine)


@settings(deadline=None)
@given(
    st.integers(0, 2**64), st.integers(0, 1500), st.sampled_from(LIMITS), st.sampled_from(LIMITS)
)
def test_a_session_is_exact(seed: int, count: int, ours: int, theirs: int) -> None:
    rand = random.Random(seed)
    client_items, server_items = two_sets(rand, count)
    makes = [rand.choice([PlainStorage, arrays]) for _ in range(2)]
    session = run(
        Initiator(makes[0](client_items), frame_limit=ours),
        Responder(makes[1](server_items), frame_limit=theirs),
        limits=(ours, theirs),
    )
    exact(session, client_items, server_items)


@given(lists_up_to(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 8, 20])), 120))
def test_a_session_over_almost_equal_ids_is_exact(drawn: list[tuple[int, int]]) -> None:
    """Ids that share a prefix of up to 20 bytes; the rest is random, as sums of small ids agree."""
    items = {
        (stamp, bytes(shared) + sha256(bytes([at])).digest()[shared:])
        for at, (stamp, shared) in enumerate(drawn)
    }
    rand = random.Random(len(items))
    ours, theirs = ([item for item in items if rand.random() < 0.8] for _ in range(2))
    session = run(Initiator(PlainStorage(ours)), Responder(arrays(theirs)))
    exact(session, ours, theirs)


@pytest.mark.parametrize("limits", [(4096, 4096), (60_000, 4096), (4096, 0), (60_000, 500_000)])
def test_a_large_session_is_exact_and_does_not_start_over(limits: tuple[int, int]) -> None:
    rand = random.Random(77)
    items = [(1_700_000_000 + at // 3, rand.randbytes(32)) for at in range(30_000)]
    ours, theirs = ([item for item in items if rand.random() < 0.98] for _ in range(2))
    client = Initiator(seal(ours), frame_limit=limits[0])
    session = run(client, Responder(seal(theirs), frame_limit=limits[1]), limits=limits)
    exact(session, ours, theirs)
    free = run(Initiator(seal(ours), frame_limit=10**9), Responder(seal(theirs)))
    assert session.sent <= 2 * free.sent, "what was once said is hardly said again"


class DropsWhatDoesNotFit(engine._Answer):
    """The known defect: the fingerprint of the rest begins after the range that did not fit."""

    def _end(self, block: Block) -> None:
        self._full = True
        low, size = block.high, len(self._storage)
        self._writer.tail(self._writer.bound, self._storage.fingerprints([low], [size])[0])


class DefectiveResponder(Responder):
    def reconcile(self, message: bytes) -> bytes:
        reader = engine.MessageReader(message, keep_ids=False)
        return DropsWhatDoesNotFit(self._storage, self._limit).to(reader)


@pytest.mark.parametrize("seed", range(60))
def test_a_defective_responder_loses_nothing_by_us(seed: int) -> None:
    rand = random.Random(seed)
    ours, theirs = two_sets(rand, rand.randrange(200, 2500))
    client = Initiator(seal(ours), frame_limit=rand.choice(LIMITS))
    exact(run(client, DefectiveResponder(seal(theirs), frame_limit=4096)), ours, theirs)


class Halves:
    """A peer of another strategy: a range is halved, and listed from `most` items down."""

    def __init__(self, storage: Storage, most: int) -> None:
        self._storage, self._most = storage, most

    def reconcile(self, message: bytes) -> bytes:
        reader, writer = engine.MessageReader(message), MessageWriter()
        floor = (0, b"")
        low = 0
        ranges = reader.read(10**9)
        span = engine.locate(self._storage, ranges, floor, low)
        modes, _ = engine.settle(self._storage, span)
        for at, mode in enumerate(modes):
            if mode:
                self._say(
                    writer, mode, span.upper(at - 1), span.upper(at), span.lows[at], span.highs[at]
                )
        return writer.message()

    def _say(self, writer, mode, floor, upper, low, high) -> None:  # type: ignore[no-untyped-def]
        middle = (low + high) // 2
        if mode == 2 or high - low <= self._most:
            block = engine.Block(floor, high, [upper[0]], [upper[1]], [low], [None])
        else:
            (stamp,), (prefix,) = self._storage.separators([middle])
            prints = self._storage.fingerprints([low, middle], [middle, high])
            block = engine.Block(
                floor, high, [stamp, upper[0]], [prefix, upper[1]], [low, middle], [*prints]
            )
        assert writer.write(block, self._storage.ids) == len(block)


@pytest.mark.parametrize("most", [1, 2, 50])
@pytest.mark.parametrize("limit", LIMITS)
def test_a_peer_of_another_strategy_is_understood(most: int, limit: int) -> None:
    rand = random.Random(most + limit)
    for _ in range(5):
        ours, theirs = two_sets(rand, 800)
        client = Initiator(seal(ours), frame_limit=limit)
        exact(run(client, Halves(seal(theirs), most)), ours, theirs)


class Evasive:
    """Says first that everything differs, in one range, and only then answers."""

    def __init__(self, storage: Storage, evasions: int) -> None:
        self._responder, self._left = Responder(storage), evasions

    def reconcile(self, message: bytes) -> bytes:
        self._left -= 1
        return b"\x61\0\0\1" + bytes(16) if self._left >= 0 else self._responder.reconcile(message)


@pytest.mark.parametrize("limit", LIMITS)
def test_a_peer_that_answers_nothing_at_first_is_asked_again(limit: int) -> None:
    rand = random.Random(limit)
    ours, theirs = two_sets(rand, 2000)
    client = Initiator(seal(ours), frame_limit=limit)
    exact(run(client, Evasive(seal(theirs), 5)), ours, theirs)


def test_a_peer_that_invents_ranges_costs_no_more_than_our_items() -> None:
    items = [(at * 1000, bytes([at]) * 32) for at in range(100)]
    client = Initiator(seal(items), frame_limit=4096)
    client.initiate()
    for turn in range(50):
        ranges = b"".join(
            encode_varint(2) + b"\0\1" + bytes([turn, at % 256]) * 8 for at in range(3000)
        )
        client.reconcile(b"\x61" + ranges)
        assert sum(map(len, client._blocks)) <= 40 * len(items)


@pytest.mark.parametrize("count", [0, 1, 31, 32, 6000])
def test_equal_sets_need_one_round(count: int) -> None:
    items = [(at, at.to_bytes(32, "big")) for at in range(count)]
    server = Responder(seal(items))
    session = run(Initiator(seal(items)), server)
    assert (session.have, session.need, session.rounds) == (set(), set(), 1)
    assert server.done == (count >= 32)


def test_a_lone_version_byte_is_told_apart_by_the_round() -> None:
    server = Responder(seal([(1, bytes(32))]))
    assert (server.reconcile(b"\x61"), server.done) == (b"\x61", False)
    server.reconcile(Initiator(seal([])).initiate())
    assert (server.reconcile(b"\x61"), server.done) == (b"\x61", True)
    client = Initiator(seal([(1, bytes(32))]))
    client.initiate()
    assert client.reconcile(b"\x61").message is None


@pytest.mark.parametrize("version", [0x60, 0x62, 0x6F])
def test_another_version_is_answered_with_ours(version: int) -> None:
    server = Responder(seal([]))
    assert (server.reconcile(bytes([version, 0, 1, 2])), server.done) == (b"\x61", False)
    client = Initiator(seal([]))
    client.initiate()
    with pytest.raises(NegentropyError) as caught:
        client.reconcile(bytes([version]))
    assert caught.value.kind == "unsupported-version"


@pytest.mark.parametrize("limit", [1, 4095, -1])
def test_a_frame_that_holds_no_split_is_refused(limit: int) -> None:
    for role in (Initiator, Responder):
        with pytest.raises(InvalidInput):
            role(seal([]), frame_limit=limit)


def test_what_follows_the_last_bound_is_passed_over() -> None:
    items = [(at, at.to_bytes(32, "big")) for at in range(100)]
    message = Initiator(seal(items)).initiate() + b"\0\0\1" + bytes(16) + b"\0\0\2\0"
    assert Responder(seal(items), frame_limit=4096).reconcile(message)[:1] == b"\x61"
    client = Initiator(seal(items))
    client.initiate()
    assert client.reconcile(message).message is None
