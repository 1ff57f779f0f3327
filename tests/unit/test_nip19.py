"""NIP-19 identifiers and `nostr:` URIs, in both directions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs import bech32, nip19
from nostr_client.codecs.nip19 import (
    Address,
    EventPointer,
    Identifier,
    Note,
    Profile,
    PublicKey,
    SecretKey,
    decode,
    decode_pubkey,
    decode_secret,
    encode_secret,
)
from nostr_client.count.queries import canonical
from nostr_client.errors import InvalidIdentifier
from tests.unit.strategies import HEX32, KINDS, TEXT

# The examples of NIP-19.
NPUB = "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg"
NPUB_HEX = "7e7e9c42a91bfef19fa929e5fda1b72e0ebc1a4c1141673e2794234d86addf4e"
NSEC = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5"
NSEC_HEX = "67dea2ed018072d675f5415ecfaed7d2597555e202d85b3d65ea4e58d2d92ffa"
NPROFILE = (
    "nprofile1qqsrhuxx8l9ex335q7he0f09aej04zpazpl0ne2cgukyawd24mayt8gpp4mhxue69uhhytnc9e3k7mgpz4mhx"
    "ue69uhkg6nzv9ejuumpv34kytnrdaksjlyr9p"
)
PROFILE = Profile(
    "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d",
    ("wss://r.x.com", "wss://djbas.sadkb.com"),
)

RELAYS = st.lists(
    st.text(st.characters(max_codepoint=126), min_size=1, max_size=60), max_size=3
).map(tuple)
PREFIXES = ("npub", "nsec", "note", "nprofile", "nevent", "naddr", "lnbc")
BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
IDENTIFIERS: st.SearchStrategy[Identifier] = st.one_of(
    st.builds(PublicKey, HEX32),
    st.builds(SecretKey, st.binary(min_size=32, max_size=32)),
    st.builds(Note, HEX32),
    st.builds(Profile, HEX32, RELAYS),
    st.builds(EventPointer, HEX32, RELAYS, st.none() | HEX32, st.none() | KINDS),
    st.builds(Address, KINDS, HEX32, TEXT, RELAYS),
)


def test_the_published_examples() -> None:
    assert decode(NPUB) == PublicKey(NPUB_HEX)
    assert PublicKey(NPUB_HEX).encode() == NPUB
    assert decode_secret(NSEC).hex() == NSEC_HEX
    assert encode_secret(bytes.fromhex(NSEC_HEX)) == NSEC
    assert decode(NPROFILE) == PROFILE
    assert PROFILE.encode() == NPROFILE
    assert decode(f"nostr:{NPUB}") == decode(NPUB)


@given(IDENTIFIERS)
def test_there_and_back(identifier: Identifier) -> None:
    text = identifier.encode()
    assert decode(text) == decode(f" {text.upper()}\n") == identifier
    if not isinstance(identifier, SecretKey):
        uri = f"nostr:{text}"
        assert decode(uri) == decode(uri.upper()) == identifier


@given(IDENTIFIERS, st.data())
def test_up_to_four_wrong_characters_are_noticed(
    identifier: Identifier, data: st.DataObject
) -> None:
    text = identifier.encode()
    start = text.rindex("1") + 1
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(start, len(text) - 1))
        char = data.draw(
            st.sampled_from(sorted(set("qpzry9x8gf2tvdw0s3jn54khce6mua7l") - {text[place]}))
        )
        text = text[:place] + char + text[place + 1 :]
    if text != identifier.encode() and len(text) <= 90:  # BIP-173's promise ends there
        with pytest.raises(InvalidIdentifier):
            decode(text)


@given(
    st.text(max_size=120)
    | st.text("qpzry9x8gf2tvdw0s3jn54khce6mua7l1", max_size=90).map("npub1".__add__)
)
def test_noise_is_refused(text: str) -> None:
    with pytest.raises(InvalidIdentifier):
        decode(text)


@given(
    st.sampled_from(["npub", "nsec", "note", "nprofile", "nevent", "naddr", "lnbc"]),
    st.binary(max_size=300),
)
def test_any_payload_under_any_prefix_is_read_or_refused(prefix: str, payload: bytes) -> None:
    text = bech32.encode(prefix, payload)
    assert bech32.decode(text) == (prefix, payload)
    try:
        found = decode(text)
    except InvalidIdentifier:
        return
    assert decode(found.encode()) == found


def tlv(*items: tuple[int, bytes]) -> bytes:
    return b"".join(bytes((kind, len(value))) + value for kind, value in items)


ID = bytes(range(32))


@pytest.mark.parametrize(
    ("prefix", "payload", "expected", "warns"),
    [
        ("nprofile", tlv((0, ID)) + b"\1", Profile(ID.hex()), "its end"),
        ("nprofile", tlv((0, ID)) + b"\1\5abc", Profile(ID.hex()), "its end"),
        ("nprofile", tlv((0, ID), (1, b""), (1, b"wss://x")), Profile(ID.hex(), ("wss://x",)), "a"),
        ("nevent", tlv((0, ID), (2, b"short")), EventPointer(ID.hex()), "its author"),
        ("nevent", tlv((0, ID), (3, b"\7")), EventPointer(ID.hex()), "its kind"),
        ("nevent", tlv((3, b"\0\1\0\0"), (0, ID)), EventPointer(ID.hex()), "its kind"),
    ],
)
def test_a_hint_that_is_not_sound_is_dropped_with_a_warning(
    prefix: str, payload: bytes, expected: Identifier, warns: str
) -> None:
    found = nip19.parse(bech32.encode(prefix, payload))
    assert found.identifier == expected
    (warning,) = found.warnings
    assert warning.startswith(warns)


@pytest.mark.parametrize(
    ("prefix", "payload", "expected"),
    [
        ("nprofile", tlv((9, b"?"), (0, ID), (200, b"")), Profile(ID.hex())),
        ("nprofile", tlv((0, ID), (1, b"\xff"), (1, b"wss://x")), Profile(ID.hex(), ("wss://x",))),
        ("nprofile", tlv((0, ID), (0, bytes(32))), Profile(ID.hex())),
        ("nevent", tlv((0, ID), (3, b"\0\0\0\7")), EventPointer(ID.hex(), (), None, 7)),
        ("naddr", tlv((0, b""), (2, ID), (3, b"\0\0u0")), Address(30000, ID.hex())),
        ("nprofile", b"", None),
        ("nprofile", tlv((1, b"wss://x")), None),
        ("nprofile", tlv((0, ID[:31])), None),
        ("naddr", tlv((0, b"d"), (3, b"\0\0u0")), None),
        ("naddr", tlv((0, b"d"), (2, ID)), None),
        ("naddr", tlv((0, b"d"), (2, ID), (3, b"\1\0\0\0")), None),
        ("naddr", tlv((0, b"\xff"), (2, ID), (3, b"\0\0u0")), None),
        ("npub", ID + b"\0", None),
        ("nrelay", tlv((0, b"wss://x")), None),
    ],
)
def test_tlv(prefix: str, payload: bytes, expected: Identifier | None) -> None:
    text = bech32.encode(prefix, payload)
    if expected is None:
        with pytest.raises(InvalidIdentifier):
            decode(text)
    else:
        assert decode(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "npub1",
        NPUB[:-1],
        NPUB + "q",
        NPUB[:-1] + "b",  # no character of bech32
        NPUB[:10] + NPUB[10:].upper(),
        "npub1" + "q" * 58,
        f"nostr:{NSEC}",
        f"nostr:nostr:{NPUB}",
        "lnbc1" + "q" * 6000,
        "ｎpub1qqq",
    ],
    ids=lambda text: ascii(text[:30]),
)
def test_hostile_text(text: str) -> None:
    with pytest.raises(InvalidIdentifier) as caught:
        decode(text)
    assert len(str(caught.value)) < 200


def test_a_checksum_of_bech32m_does_not_pass() -> None:
    with pytest.raises(InvalidIdentifier):  # a vector of BIP-350
        bech32.decode("a1lqfn3a")
    assert bech32.decode("A12UEL5L") == ("a", b"")  # a vector of BIP-173


def text_of(groups: list[int]) -> str:
    whole = (*groups, *bech32._checksum("npub", groups))
    return "npub1" + "".join(bech32._ALPHABET[value] for value in whole)


def test_padding_must_be_zero_and_short() -> None:
    padded, exact = (bech32._regroup(bytes(n), 8, 5, pad=True) for n in (32, 5))
    assert bech32.decode(text_of(padded)) == ("npub", bytes(32))
    for bad in ([*padded[:-1], padded[-1] | 1], [*exact, 0]):
        with pytest.raises(InvalidIdentifier, match="padding"):
            bech32.decode(text_of(bad))


@pytest.mark.parametrize(
    "identifier",
    [
        PublicKey("x" * 64),
        Note("ab"),
        SecretKey(b"short"),
        Profile("a" * 64, ("wss://ü",)),
        Profile("a" * 64, ("wss://" + "x" * 256,)),
        Profile("a" * 64, ("wss://" + "x" * 240,) * 20),
        EventPointer("a" * 64, kind=65536),
        EventPointer("a" * 64, kind=-1),
        Address(1, "a" * 64, "d" * 256),
        Address(1, "a" * 64, "\ud800"),
    ],
    ids=lambda identifier: repr(identifier)[:40],
)
def test_what_cannot_be_written(identifier: Identifier) -> None:
    with pytest.raises(InvalidIdentifier):
        identifier.encode()


def test_pubkeys_and_secrets_from_what_people_paste() -> None:
    assert decode_pubkey(NPUB) == decode_pubkey(f" {NPUB_HEX.upper()} ") == NPUB_HEX
    assert decode_pubkey(NPROFILE) == PROFILE.pubkey
    assert decode_secret(NSEC_HEX).hex() == NSEC_HEX
    for wrong in (NSEC, "a" * 63, "xyz"):
        with pytest.raises(InvalidIdentifier):
            decode_pubkey(wrong)
    for wrong in (NPUB, f"nostr:{NSEC}", "a" * 63):
        with pytest.raises(InvalidIdentifier):
            decode_secret(wrong)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("npub1nonsense", "'npub1nonsense' is not a public key: expected npub, nprofile or 64 hex"),
        ("日本語junk", "'日本語junk' is not a public key"),
        ("日本語junk", "a character of no bech32 text"),
        ("Npub1Nonsense", "letters of both cases"),
        (f"nostr:{NPUB_HEX}", f"'nostr:{NPUB_HEX[:18]}…' is not"),
        ("note1" + "q" * 58, "'note1qqqqqqqqqqqqqqqqqqq…' is not a public key"),
        ("a\x1bb", r"'a\x1bb' is not"),
        (f"{NSEC}x", "'nsec1...' is not a public key"),
        (NSEC, "'nsec1...' is not a public key"),
    ],
)
def test_what_is_no_public_key_is_named(text: str, says: str) -> None:
    with pytest.raises(InvalidIdentifier) as caught:
        decode_pubkey(text)
    assert says in str(caught.value)
    assert NSEC[5:] not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("reactions", "nonsense", "'nonsense' is not an event: expected note, nevent, naddr or 64"),
        ("reactions", NPUB, f"'{NPUB[:24]}…' is not an event"),
        ("quotes", NSEC, "'nsec1...' is not an event"),
        (
            "zaps",
            "nonsense",
            "'nonsense' is not a person or an event: expected npub, nprofile, note",
        ),
    ],
)
def test_what_is_no_target_is_named(name: str, text: str, says: str) -> None:
    with pytest.raises(InvalidIdentifier) as caught:
        canonical(name, text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "form",
    [
        "{}",
        " ({}), ",
        "“{}”",
        "@{}",
        "nostr:{}",
        "nostr:nostr:{}",
        "web+nostr:{}",
        "nostr://{}",
        "NOSTR:{}.",
        "https://viewer.example/{}",
        "https://viewer.example/p/{}/?tab=notes#top",
        "<https://viewer.example/#/{}>",
        "https://viewer.example/nostr:{}",
    ],
)
def test_what_a_person_pastes_is_one_identifier(form: str) -> None:
    pasted = form.format(NPUB)
    if "#/" in form:  # a part of the fragment is no part of the path
        with pytest.raises(InvalidIdentifier, match="without an identifier in its path"):
            nip19.read(pasted)
        return
    assert nip19.read(pasted).target == PublicKey(NPUB_HEX)
    assert decode_pubkey(pasted) == NPUB_HEX


@pytest.mark.parametrize("form", ["{}", "nostr:{}", "https://viewer.example/{}", "@{}"])
def test_a_secret_key_is_refused_in_every_form(form: str) -> None:
    with pytest.raises(InvalidIdentifier) as caught:
        nip19.read(form.format(NSEC))
    assert NSEC[5:] not in str(caught.value)


@given(st.text(max_size=200) | st.text("nostr:@/1.npubx ", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = nip19.read(text).target
    except InvalidIdentifier:
        return
    assert not isinstance(found, SecretKey)


def test_an_address_may_be_plain_text() -> None:
    assert nip19.event_or_address(f"30023:{NPUB_HEX}:x:y") == f"30023:{NPUB_HEX}:x:y"
    for wrong in (f"x:{NPUB_HEX}:d", f"70000:{NPUB_HEX}:d", f"30023:{NPUB_HEX}", "30023:ab:d"):
        with pytest.raises(InvalidIdentifier):
            nip19.event_or_address(wrong)


def test_a_secret_is_not_shown() -> None:
    assert NSEC_HEX not in repr(decode(NSEC))
    assert "67dea2" not in repr(nip19.decode(NSEC))


def test_the_coordinate_of_an_address() -> None:
    assert Address(30023, "a" * 64, "x:y").coordinate == f"30023:{'a' * 64}:x:y"
