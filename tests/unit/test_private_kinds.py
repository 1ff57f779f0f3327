"""Private kinds: which events stay here, and how the ones that carry others' secrets are seen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.relay.options import PRIVATE_KINDS as RELAY_KINDS
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner
from nostr_client.codecs.kinds import APP_DATA, APP_DATA_ITEM
from nostr_client.codecs.private_kinds import (
    LISTS,
    PRIVATE_KINDS,
    PublicEvents,
    is_private,
    is_protected,
    reposts_private,
    reposts_protected,
)
from nostr_client.sync.sharing import Sharing, WithheldReason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nostr_client.codecs.event import Event

ME, OTHER = KeySigner(bytes(31) + b"\x21", rand=bytes), KeySigner(bytes(31) + b"\x22", rand=bytes)
EVERYTHING = [Filter()]
NAMED = {78, 444, 9734, 30403, 4, 13, 14, 15, 1059, 21059, 1234, 31234, 7375, 7376, 17375, 30078}


def made(kind: int, content: str = "", *tags: tuple[str, ...], by: KeySigner = ME) -> Event:
    return by.sign_now(EventTemplate(kind=kind, content=content, tags=tags, created_at=1)).event


def test_one_table_serves_the_local_relay_too_and_names_a_nip_for_each_kind() -> None:
    assert PRIVATE_KINDS.keys() >= NAMED
    assert all(reason.startswith("NIP-") for reason in PRIVATE_KINDS.values())
    assert PRIVATE_KINDS.keys() - {APP_DATA, APP_DATA_ITEM} == RELAY_KINDS


@pytest.mark.parametrize("kind", sorted(PRIVATE_KINDS))
@pytest.mark.parametrize("by", [ME, OTHER], ids=["own", "foreign"])
def test_a_private_kind_stays_unless_it_is_named(kind: int, by: KeySigner) -> None:
    event = made(kind, "secret", by=by)
    assert Sharing(EVERYTHING, ME.pubkey, others=True).holds_back(event) is WithheldReason.PRIVATE
    assert (
        Sharing([Filter(authors=[by.pubkey])], ME.pubkey).holds_back(event)
        is WithheldReason.PRIVATE
    )
    assert Sharing([Filter(kinds=[kind])], ME.pubkey).holds_back(event) is None
    assert Sharing(EVERYTHING, ME.pubkey, others=True, private=True).holds_back(event) is None


@pytest.mark.parametrize("kind", sorted(LISTS))
def test_a_list_is_private_when_it_has_private_items(kind: int) -> None:
    assert is_private(made(kind, "encrypted"))
    assert not is_private(made(kind, "", ("p", OTHER.pubkey)))


@pytest.mark.parametrize("pubkey", [None, ME.pubkey])
def test_events_by_others_stay_unless_kind_or_author_is_named(pubkey: str | None) -> None:
    event = made(1, "hi", by=OTHER)
    assert Sharing(EVERYTHING, pubkey).holds_back(event) is WithheldReason.FOREIGN
    assert Sharing([Filter(since=0)], pubkey).holds_back(event) is WithheldReason.FOREIGN
    assert (
        Sharing([Filter(kinds=[2]), Filter()], pubkey).holds_back(event) is WithheldReason.FOREIGN
    )
    for named in (Filter(kinds=[1]), Filter(authors=[OTHER.pubkey])):
        assert Sharing([named], pubkey).holds_back(event) is None
    assert Sharing(EVERYTHING, pubkey, others=True).holds_back(event) is None
    own = Sharing(EVERYTHING, pubkey).holds_back(made(1, "hi"))
    assert own is (WithheldReason.FOREIGN if pubkey is None else None)


def test_protected_events_of_others_never_go() -> None:
    event = made(1, "members only", ("-",), by=OTHER)
    assert is_protected(event)
    everything = Sharing([Filter(kinds=[1])], ME.pubkey, private=True, others=True)
    assert everything.holds_back(event) is WithheldReason.PROTECTED
    assert everything.holds_back(made(1, "members only", ("-",))) is None


@pytest.mark.parametrize("kind", [6, 16])
@pytest.mark.parametrize("mark", ["-", "\\u002d"])
def test_a_repost_of_a_protected_event_is_seen_however_it_is_written(kind: int, mark: str) -> None:
    inside = made(1, "x", ("-",), by=OTHER).to_json().replace('"-"', f'"{mark}"')
    assert reposts_protected(made(kind, inside))
    assert not reposts_protected(made(1, inside))
    assert not reposts_protected(made(kind, made(1, "x - y").to_json()))


@pytest.mark.parametrize(
    "form",
    [
        '{"x":' + "[" * 5_000 + "]" * 5_000 + ",%s",  # too deep for us, and for few others
        '{"x":"\\ud800",%s',  # a lone surrogate, which JavaScript reads
        "\ufeff{%s",
        "{%s seen on a relay",
        "[{%s]",
    ],
)
def test_a_repost_that_is_no_plain_json_hides_no_protected_event(form: str) -> None:
    for tags, expected in (("-",), True), (("t", "-"), False):
        inside = made(1, 'of ["-"] tags', tags, by=OTHER).to_json()
        assert reposts_protected(made(6, form % inside[1:])) is expected


@pytest.mark.parametrize("times", [1, 2, 8, 9])
def test_a_repost_of_a_repost_of_a_protected_event_is_seen(times: int) -> None:
    inside, plain = made(1, "x", ("-",), by=OTHER), made(1, "y")
    for _ in range(times):
        inside, plain = made(6, inside.to_json()), made(6, plain.to_json())
    assert reposts_protected(inside)
    assert not reposts_protected(plain)


PRIVATE = [
    made(4, "sealed", ("p", ME.pubkey), by=OTHER),
    made(31234, "draft", ("d", "x")),
    made(10_000, "items"),
    made(5_050, "sealed", ("encrypted",)),
]


@pytest.mark.parametrize("kind", [6, 16])
@pytest.mark.parametrize("inside", PRIVATE, ids=lambda event: str(event.kind))
def test_a_repost_carries_no_private_event_out(kind: int, inside: Event) -> None:
    repost = made(kind, inside.to_json())
    for event in (repost, made(16, repost.to_json()), made(6, f"[{inside.to_json()}]")):
        assert is_private(event)
        for filters in ([Filter(kinds=[6, 16])], [Filter(authors=[ME.pubkey])], EVERYTHING):
            assert (
                Sharing(filters, ME.pubkey, others=True).holds_back(event) is WithheldReason.PRIVATE
            )
        assert Sharing(EVERYTHING, ME.pubkey, private=True).holds_back(event) is None
    assert not is_private(made(1, inside.to_json()))
    assert not is_private(made(kind, made(1, inside.to_json()).to_json()))


@pytest.mark.parametrize("form", ["%s seen on a relay", "\ufeff%s", "[%s", '{"x":"\\ud800",%s'])
def test_a_repost_that_is_no_plain_json_hides_no_private_event(form: str) -> None:
    for text, expected in (('"kind": 4}', True), ('"kind":31234,', True), ('"kind":1}', False)):
        assert reposts_private(made(6, form % text)) is expected
    assert reposts_private(made(6, '{"kind":4.0,"content":"x"}'))


def test_a_job_is_private_when_it_is_encrypted() -> None:
    for kind in (5_000, 6_050, 7_000):
        assert is_private(made(kind, "sealed", ("encrypted",)))
        assert not is_private(made(kind, "asked in the open"))
    assert not is_private(made(1, "a tag of that name says nothing", ("encrypted",)))


@given(st.text() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_any_content_of_a_repost_is_borne(content: str) -> None:
    for text in (content, f'{{"tags":{content}}}', f'{{"kind":{content}}}', "[" * 5_000):
        assert reposts_protected(made(6, text)) in (False, True)
        assert reposts_private(made(6, text)) in (False, True)


async def test_an_export_leaves_private_events_out_and_counts_them() -> None:
    events = [made(1), made(4), made(30_078), made(10_000, "items"), made(10_000)]
    events.append(made(16, made(4, "sealed").to_json()))

    async def stored() -> AsyncIterator[Event]:
        for event in events:
            yield event

    async def passed(
        filters: list[Filter], *, include_private: bool = False
    ) -> tuple[list[int], int]:
        public = PublicEvents(stored(), filters, include_private=include_private)
        return [event.kind async for event in public], public.held_back

    assert await passed([]) == ([1, 10_000], 4)
    assert await passed([Filter(kinds=[4]), Filter()]) == ([1, 4, 10_000], 3)
    assert (await passed([], include_private=True))[1] == 0
