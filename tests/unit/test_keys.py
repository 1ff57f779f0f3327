"""Signatures: BIP-340's own vectors, an independent verifier, real events, secrets that stay."""

from __future__ import annotations

import ast
import hashlib
import pickle
import random
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nostr_client.codecs import keys, nip19
from nostr_client.codecs.event import Event, EventTemplate, compute_id, parse_event
from nostr_client.codecs.keys import KeySigner, VerifiedEvent, verify, verify_many
from nostr_client.errors import InvalidEvent, InvalidIdentifier, InvalidKey
from tests.conftest import shared_path
from tests.unit.strategies import EVENTS, TAGS, TEXT, TIMES, signed, signer

P = 2**256 - 2**32 - 977
N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)
Point = tuple[int, int] | None


def add(a: Point, b: Point) -> Point:
    if a is None or b is None:
        return a or b
    if a[0] == b[0] and a[1] != b[1]:
        return None
    top, bottom = (3 * a[0] ** 2, 2 * a[1]) if a == b else (b[1] - a[1], b[0] - a[0])
    slope = top * pow(bottom, -1, P) % P
    x = (slope**2 - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def times(k: int, point: Point) -> Point:
    out: Point = None
    while k:
        out = add(out, point) if k & 1 else out
        point, k = add(point, point), k >> 1
    return out


def holds_by_the_book(event: Event) -> bool:
    """BIP-340's verification, written from its text with whole numbers."""
    x, r = int(event.pubkey, 16), int(event.sig[:64], 16)
    s, message = int(event.sig[64:], 16), bytes.fromhex(event.id)
    square = (pow(x, 3, P) + 7) % P
    y = pow(square, (P + 1) // 4, P)
    if x >= P or r >= P or s >= N or y * y % P != square:
        return False
    tag = hashlib.sha256(b"BIP0340/challenge").digest()
    digest = hashlib.sha256(tag * 2 + bytes.fromhex(event.sig[:64] + event.pubkey) + message)
    e = int.from_bytes(digest.digest(), "big") % N
    point = add(times(s, G), times(N - e, (x, y if y % 2 == 0 else P - y)))
    return point is not None and point[1] % 2 == 0 and point[0] == r


def bare(pubkey: str, message: str, sig: str) -> Event:
    return Event(message.lower(), pubkey.lower(), 0, 1, (), "", sig.lower())


KEY_0 = "F9308A019258C31049344F85F89D5229B531C845836F99B08601F113BCE036F9"
SIG_0 = (
    "E907831F80848D1069A5371B402410364BDF1C5F8307B0084C55F1CE2DCA8215"
    "25F66A4A85EA8B71E482A74F382D2CE5EBEEE8FDB2172F477DF4900D310536C0"
)
KEY_1 = "DFF1D77F2A671C5F36183726DB2341BE58FEAE1DA2DECED843240F7B502BA659"
MSG_1 = "243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89"
SIG_1 = (
    "6896BD60EEAE296DB48A229FF71DFE071BDE413E6D43F917DC8DCF8C78DE3341"
    "8906D11AC976ABCCB20B091292BFF4EA897EFCB639EA871CFA95F6DE339E4B0A"
)
NOT_ON_CURVE = "EEFDEA4CDB677750A420FEE807EACF21EB9898AE79B9768766E4FAA04A2D4A34"


@pytest.mark.parametrize(
    ("event", "good"),
    [
        (bare(KEY_0, "0" * 64, SIG_0), True),
        (bare(KEY_1, MSG_1, SIG_1), True),
        (bare(KEY_1, MSG_1, SIG_0), False),
        (bare(KEY_0, MSG_1, SIG_1), False),
        (bare(NOT_ON_CURVE, MSG_1, SIG_1), False),
        (bare(f"{P + 1:064x}", MSG_1, SIG_1), False),  # the key is not in the field
        (bare(KEY_1, MSG_1, f"{P:064x}" + SIG_1[64:]), False),  # r is not in the field
        (bare(KEY_1, MSG_1, SIG_1[:64] + f"{N:064x}"), False),  # s is the order
        (bare(KEY_1, MSG_1, "0" * 128), False),
    ],
)
def test_bip340_vectors(event: Event, good: bool) -> None:
    assert keys._signature_holds(event) is good
    assert holds_by_the_book(event) is good


def test_signing_vector_0() -> None:
    made = KeySigner((3).to_bytes(32, "big"), rand=bytes)
    assert made.pubkey == KEY_0.lower()
    assert made._secret.sign(bytes(32), bytes(32)).hex() == SIG_0.lower()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), TAGS, TEXT, TIMES)
def test_what_we_sign_holds_by_the_book(seed: int, tags: object, text: str, at: int) -> None:
    event = signed(seed, tags=tags, content=text, created_at=at).event
    assert holds_by_the_book(event)
    assert verify(event).event is event
    assert event.id == compute_id(event.pubkey, at, 1, event.tags, text)


@given(EVENTS)
def test_events_that_nobody_signed_do_not_verify(event: Event) -> None:
    with pytest.raises(InvalidEvent):
        verify(event)


@pytest.mark.parametrize("field", ["id", "pubkey", "created_at", "kind", "tags", "content", "sig"])
def test_any_change_breaks_it(field: str) -> None:
    event, other = signed(1).event, signed(2, kind=2, content="x", tags=(("t",),)).event
    value = 7 if field == "created_at" else getattr(other, field)
    with pytest.raises(InvalidEvent):
        verify(msgspec.structs.replace(event, **{field: value}))


def test_a_bad_structure_is_refused_though_id_and_signature_hold() -> None:
    me = signer(5)
    event_id = compute_id(me.pubkey, -1, 1, (), "")
    sig = me._secret.sign(bytes.fromhex(event_id), bytes(32)).hex()
    assert holds_by_the_book(bare(me.pubkey, event_id, sig))
    with pytest.raises(InvalidEvent, match="created_at"):
        verify(Event(event_id, me.pubkey, -1, 1, (), "", sig))


def test_all_shared_events_verify_in_worker_threads() -> None:
    lines = shared_path("data/events.jsonl").read_bytes().split(b"\n")
    events = [parse_event(line) for line in lines if line]
    chunks = [events[at : at + 128] for at in range(0, len(events), 128)]
    with ThreadPoolExecutor(2) as threads:
        results = [result for chunk in threads.map(verify_many, chunks) for result in chunk]
    assert [r.event for r in results if isinstance(r, VerifiedEvent)] == events


def test_one_bad_event_does_not_spoil_its_chunk() -> None:
    good = [signed(seed).event for seed in range(3)]
    bad = msgspec.structs.replace(good[1], content="forged")
    results = verify_many([good[0], bad, good[2]])
    assert [type(result) for result in results] == [VerifiedEvent, InvalidEvent, VerifiedEvent]
    assert results[1].__traceback__ is None
    assert verify_many([]) == []


@pytest.mark.parametrize(
    "secret", [b"", bytes(32), bytes(31), b"\x01" * 33, N.to_bytes(32, "big"), b"\xff" * 32]
)
def test_what_is_no_secret_key(secret: bytes) -> None:
    with pytest.raises(InvalidKey):
        KeySigner(secret)


def test_generate_takes_the_next_number_when_one_is_no_key() -> None:
    given_out = iter([b"\xff" * 32, (7).to_bytes(32, "big")])
    made = KeySigner.generate(lambda n: next(given_out))
    assert made.pubkey == KeySigner((7).to_bytes(32, "big")).pubkey


def test_generate_does_not_loop_on_a_broken_source() -> None:
    with pytest.raises(InvalidKey):
        KeySigner.generate(bytes)


def test_nsec_there_and_back() -> None:
    made = signer(3)
    assert made.nsec().startswith("nsec1")
    assert KeySigner.from_nsec(made.nsec()).pubkey == made.pubkey


def test_the_secret_shows_nowhere() -> None:
    secret = secrets.token_bytes(32)
    made = KeySigner(secret)
    shown = f"{made!r} {made} {vars(KeySigner)}"
    assert secret.hex() not in shown
    assert made.nsec() not in shown
    with pytest.raises(TypeError):
        pickle.dumps(made)
    with pytest.raises(InvalidIdentifier) as caught:
        KeySigner.from_nsec(made.nsec()[:-1] + ("p" if made.nsec()[-1] == "q" else "q"))
    assert made.nsec()[5:-1] not in str(caught.value)


@pytest.mark.parametrize(
    "template",
    [
        EventTemplate(kind=-1, created_at=0),
        EventTemplate(kind=1, created_at=-1),
        EventTemplate(kind=1, created_at=0, tags=((),)),
        EventTemplate(kind=1, created_at=0, content="\ud800"),
        EventTemplate(kind=True, created_at=0),
    ],
)
def test_a_bad_template_is_not_signed(template: EventTemplate) -> None:
    with pytest.raises(InvalidEvent):
        signer(1).sign_now(template)


def test_a_template_without_a_time_is_dated_when_it_is_signed() -> None:
    one = KeySigner(b"\1" * 32, now=lambda: 1_700_000_000.9).sign_now(EventTemplate(kind=1))
    assert one.created_at == 1_700_000_000


def test_a_verified_event_reads_like_its_event() -> None:
    template = EventTemplate(kind=7, content="+", tags=(("e", "x"), ("e",)), created_at=5)
    one = KeySigner(b"\1" * 32).sign_now(template)
    for name in Event.__struct_fields__:
        assert getattr(one, name) == getattr(one.event, name)
    assert (list(one.tag_values("e")), one.first_tag("p")) == (["x"], None)
    assert parse_event(one.to_json()) == one.event
    assert "\n" not in repr(msgspec.structs.replace(one.event, content="a\nb" * 99))


def test_a_signer_from_hex_names_itself() -> None:
    one = KeySigner.from_hex("01" * 32)
    assert nip19.decode(one.npub) == nip19.PublicKey(one.pubkey)
    assert KeySigner.from_nsec(one.nsec()).pubkey == one.pubkey
    with pytest.raises(InvalidIdentifier, match="64 hex"):
        KeySigner.from_hex(one.nsec())


async def test_sign_is_sign_now() -> None:
    rand = random.Random(4).randbytes
    made = await KeySigner.generate(rand).sign(EventTemplate(kind=1, created_at=5, content="x"))
    assert verify(made.event) == made


def calls(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    called = (node.func for node in nodes if isinstance(node, ast.Call))
    return {getattr(func, "attr", getattr(func, "id", "")) for func in called}


def test_only_keys_makes_verified_events() -> None:
    root = Path(keys.__file__).parents[2]
    parts = ("nostr_client", "agent", "tui")
    files = [path for part in parts for path in root.glob(f"{part}/**/*.py")]
    assert {path.name for path in files if "VerifiedEvent" in calls(path)} == {"keys.py"}
