"""What trusted providers assert stands beside a count, and never in it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from nostr_client import count
from nostr_client.assertions.declaration import declaration, declared, private_rows
from nostr_client.assertions.reading import (
    Asserted,
    AssertedStatus,
    asserted_value,
    compared,
    counted_at,
    newest_card,
    subject_of_query,
)
from nostr_client.client import NostrClient
from nostr_client.codecs.event import EventTemplate, parse_event
from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.nip19 import PublicKey
from nostr_client.codecs.nip44 import Nip44
from nostr_client.count.procedure import CountEngine
from nostr_client.errors import InvalidInput
from tests.faulty_relay import FaultyRelay
from tests.running import nostr_client
from tests.unit.test_merge import hll_claim
from tests.worlds import TARGET, Sketches, follow

if TYPE_CHECKING:
    from pathlib import Path

    from nostr_client.codecs.event import Event

ME, FIRST, SECOND, THIRD, LIAR = (KeySigner(bytes([n]) * 32) for n in range(1, 6))
NPUB = PublicKey(TARGET).encode()
NOW = int(time.time())
DAY = 86_400


def card(
    signer: KeySigner, *tags: tuple[str, ...], at: int = NOW - 3 * DAY, d: str = TARGET
) -> Event:
    template = EventTemplate(kind=30382, tags=(("d", d), *tags), created_at=at)
    return signer.sign_now(template).event


def says(signer: KeySigner, number: str, *tags: tuple[str, ...], at: int = NOW - 3 * DAY) -> Event:
    return card(signer, ("followers", number), *tags, at=at)


CARDS = [
    says(FIRST, "11000", at=NOW - 9 * DAY),
    says(FIRST, "12000", ("counted_at", str(NOW - 4 * DAY))),
    says(SECOND, "300", ("expiration", str(NOW - 5))),
    card(THIRD, ("rank", "89")),
]
DECLARATION = ME.sign_now(
    EventTemplate(
        kind=10040,
        tags=(
            ("30382:followers", SECOND.pubkey, "ws://127.0.0.1:9"),
            ("30382:rank", THIRD.pubkey, "ws://127.0.0.1:9"),
            ("30382:followers", "nonsense", "no relay"),
        ),
        created_at=NOW - DAY,
    )
).event


async def test_each_provider_is_shown_with_its_age_and_changes_no_number() -> None:
    people = [follow(n) for n in range(300)]
    whom = [one.npub for one in (FIRST, SECOND, THIRD, LIAR)]
    relay = FaultyRelay(Sketches(), events=[*people, *CARDS])
    async with relay, NostrClient(timeout=10) as client:
        plain = await client.count(count.followers(NPUB), relays=[relay.url])
        found = await client.assertions(count.followers(NPUB), whom, relays=[relay.url])
        again = await client.count(count.followers(NPUB), relays=[relay.url])
    first, second, third, nobody = found
    assert (first.value, first.counted_at) == (12_000, NOW - 4 * DAY)
    assert (first.field, first.relays) == ("30382:followers", (relay.url,))
    assert [one.status for one in found] == ["ok", "expired", "no_field", "no_card"]
    assert [one.value for one in (second, third, nobody)] == [None] * 3
    assert again.merged.figure == plain.merged.figure
    sentence = compared(first, plain, NOW)
    assert f"provider {FIRST.npub} asserts 12,000, counted 4d ago; relays show about " in sentence
    assert sentence.endswith("people, which is less")
    assert "has expired" in compared(second, plain, NOW)


async def test_those_that_a_user_declares_are_asked() -> None:
    relay, query = FaultyRelay(events=[follow(1), DECLARATION, *CARDS]), count.followers(NPUB)
    async with relay, NostrClient(timeout=5) as client:
        urls = [relay.url]
        (found,) = await client.assertions(query, trusted_by=ME.npub, relays=urls)
        assert (found.provider, found.status) == (SECOND.pubkey, "expired")
        assert await client.assertions(query, trusted_by=LIAR.npub, relays=urls) == []
        with pytest.raises(InvalidInput, match="no provider"):
            await client.assertions(query, relays=urls)
        with pytest.raises(InvalidInput, match="providers assert"):
            await client.assertions(count.replies("00" * 32), [FIRST.npub], relays=urls)


PAIR = Nip44(ME, "a test")
PRIVATE = ME.sign_now(declaration([FIRST.pubkey], "ws://127.0.0.1:9", [], NOW, PAIR)).event


async def test_an_encrypted_declaration_is_read_with_its_key_alone() -> None:
    assert (PRIVATE.tags, FIRST.pubkey in PRIVATE.content) == ((), False)
    relay, query = FaultyRelay(events=[follow(1), PRIVATE, *CARDS]), count.followers(NPUB)
    async with relay, NostrClient(timeout=5) as client:
        urls = [relay.url]
        (found,) = await client.assertions(query, trusted_by=ME, relays=urls)
        assert (found.provider, found.value) == (FIRST.pubkey, 12_000)
        assert await client.assertions(query, trusted_by=ME.pubkey, relays=urls) == []


async def test_the_command_declares_in_private_and_reads_it_back(tmp_path: Path) -> None:
    key = tmp_path / "me.key"
    key.write_text(ME.nsec())
    key.chmod(0o600)
    args = ("assertions", "declare", "--private", "--provider", FIRST.npub)
    refused = await nostr_client(*args, "-r", "ws://127.0.0.1:9")
    assert (refused.code, "--private encrypts to your key" in refused.err) == (2, True)
    done = await nostr_client(*args, "-r", "ws://127.0.0.1:9", "--key-file", str(key))
    event = parse_event(done.out)
    assert (event.kind, event.tags, FIRST.pubkey in done.out) == (10040, (), False)
    async with FaultyRelay(events=[follow(1), event, *CARDS]) as relay:
        asked = ("count", "followers", NPUB, "-r", relay.url, "--assertions")
        mine = await nostr_client(*asked, "--key-file", str(key))
        assert f"provider {FIRST.npub} asserts 12,000" in mine.out, mine.err


@pytest.mark.parametrize(
    "content",
    ["junk", PAIR.encrypt('{"a": 1}', ME.pubkey), PAIR.encrypt("[[1]]", ME.pubkey)],
    ids=["no ciphertext", "no list", "no text"],
)
async def test_an_encrypted_part_that_cannot_be_read_is_no_empty_one(
    content: str, tmp_path: Path
) -> None:
    rows = DECLARATION.tags
    event = ME.sign_now(EventTemplate(kind=10040, tags=rows, content=content, created_at=NOW)).event
    with pytest.raises(InvalidInput, match="cannot be read"):
        private_rows(event, PAIR)
    key = tmp_path / "me.key"
    key.write_text(ME.nsec())
    key.chmod(0o600)
    async with FaultyRelay(events=[follow(1), event, *CARDS]) as relay:
        asked = ("count", "followers", NPUB, "-r", relay.url, "--assertions")
        done = await nostr_client(*asked, "--key-file", str(key))
        assert "only the public part of your declaration is read" in done.err
        assert f"provider {SECOND.npub}" in done.out


async def test_a_relay_that_is_down_is_a_status_and_no_zero() -> None:
    async with FaultyRelay() as relay:
        url = relay.url
    async with NostrClient([url], timeout=2) as client:
        (found,) = await client.assertions(count.followers(NPUB), [FIRST.npub])
    assert (found.status, found.value) == (AssertedStatus.UNREACHABLE, None)


async def test_the_command_prints_and_json_has_them(tmp_path: Path) -> None:
    async with FaultyRelay(events=[follow(1), DECLARATION, *CARDS]) as relay:
        asked = ("count", "followers", NPUB, "-r", relay.url)
        done = await nostr_client(*asked, "--provider", FIRST.npub)
        assert done.code == 0, done.err
        assert "asserts 12,000, counted 4d ago; relays show 1 " in done.out
        shown: dict[str, Any] = json.loads(
            (await nostr_client(*asked, "--provider", FIRST.npub, "--json")).out
        )
        assert shown["value"] == 1
        assert [one["value"] for one in shown["assertions"]] == [12_000]
        plain = json.loads((await nostr_client(*asked, "--json")).out)
        assert "assertions" not in plain
        refused = await nostr_client(*asked, "--assertions")
        assert (refused.code, "--provider" in refused.err) == (2, True)
        key = tmp_path / "me.key"
        key.write_text(ME.nsec())
        key.chmod(0o600)
        mine = await nostr_client(*asked, "--assertions", "--key-file", str(key))
        assert f"provider {SECOND.npub} has a card of it that has expired" in mine.out
        other = await nostr_client("count", "replies", "00" * 32, "-r", relay.url, "--assertions")
        assert other.code == 2


def test_the_newest_card_that_is_not_deleted_counts() -> None:
    subject = subject_of_query(count.followers(NPUB))
    old, new = CARDS[:2]
    assert newest_card([old, new], subject) == newest_card([new, old], subject) == new
    foreign = card(FIRST, ("followers", "1"), d="ab" * 32, at=NOW)
    assert newest_card([old, foreign], subject) == old
    place = ("a", f"30382:{FIRST.pubkey}:{TARGET}")
    assert newest_card([old, new, deletion(FIRST, place, at=new.created_at)], subject) is None
    assert (
        newest_card([old, new, deletion(FIRST, ("e", new.id), at=new.created_at)], subject) == old
    )
    elsewhere = ("a", f"30382:{SECOND.pubkey}:{TARGET}")
    for other in (deletion(FIRST, elsewhere, at=NOW), deletion(SECOND, place, at=NOW)):
        assert newest_card([old, new, other], subject) == new


def deletion(signer: KeySigner, *tags: tuple[str, ...], at: int) -> Event:
    return signer.sign_now(EventTemplate(kind=5, tags=tags, created_at=at)).event


@pytest.mark.parametrize("text", ["", "-1", "1e9", "12.5", "٣", "9" * 30, " 7"])
def test_what_is_no_number_is_none(text: str) -> None:
    subject = subject_of_query(count.followers(NPUB))
    assert asserted_value(says(FIRST, text), subject, NOW) == (AssertedStatus.NO_FIELD, None)


def test_a_declaration_is_read_field_by_field() -> None:
    subject = subject_of_query(count.followers(NPUB))
    assert declared(DECLARATION, subject) == ((SECOND.pubkey,), ("ws://127.0.0.1:9",))


def test_a_number_below_and_above_what_relays_show() -> None:

    query = count.followers(NPUB)
    result = CountEngine().result(query, [hll_claim("wss://a.example", range(300))])
    equal = "relays show 300 people, as the relay says (its registers: 276 to 334)"
    for value, ends in ((1, "which is more"), (300, equal), (9_000, "which is less")):
        one = Asserted(
            provider=FIRST.pubkey, field="30382:followers", status=AssertedStatus.OK, value=value
        )
        assert compared(one, result, NOW).endswith(ends)
    assert "asserts 9,000, dated in the future; relays" in compared(one, result, NOW)
    ahead = msgspec.structs.replace(one, counted_at=NOW + 3_600)
    assert "asserts 9,000, dated in the future; relays" in compared(ahead, result, NOW)


def test_a_card_that_is_dated_in_the_future_has_no_age() -> None:
    later = NOW + 600
    assert counted_at(says(FIRST, "5", at=later), NOW) is None
    assert counted_at(says(FIRST, "5", ("counted_at", str(later))), NOW) is None
    assert counted_at(says(FIRST, "5", ("counted_at", str(NOW - DAY)), at=later), NOW) is None
    assert counted_at(says(FIRST, "5", at=NOW + 2), NOW) == NOW + 2
    assert counted_at(says(FIRST, "5", at=NOW - DAY), NOW) == NOW - DAY
