"""Relay lists, the choice of relays, and the cover of many targets."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs.event import Event
from nostr_client.errors import InvalidInput, InvalidRelayURL
from nostr_client.network.outbox import (
    RelayChoice,
    choose,
    choose_many,
    greedy_cover,
    parse_relay_list,
)
from tests.unit.strategies import EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

A, B, C, D, E = (f"wss://{x}.example.com" for x in "abcde")


def relay_list(*tags: Sequence[str], at: int = 1) -> Event:
    return Event("1" * 64, "2" * 64, at, 10002, tuple(map(tuple, tags)), "", "3" * 128)


def test_markers_tell_what_a_relay_is_for() -> None:
    found = parse_relay_list(
        relay_list(["r", A], ["r", B, "read"], ["r", C, "write"], ["r", D, "other"], ["p", E])
    )
    assert found.read == (A, B)
    assert found.write == (A, C)


def test_one_relay_in_two_spellings_and_two_uses_is_one() -> None:
    found = parse_relay_list(
        relay_list(["r", "WSS://A.example.com/", "read"], ["r", "a.example.com:443", "write"])
    )
    assert found.read == found.write == (A,)


def test_bad_urls_and_thousands_of_relays_are_counted_and_left_out() -> None:
    many = [["r", f"wss://r{i}.example.com"] for i in range(3000)]
    found = parse_relay_list(relay_list(["r", "not a url"], ["r"], ["r", ""], *many), most=20)
    assert len(found.read) == 20
    assert (found.invalid, found.surplus) == (2, 2980)


def test_another_kind_of_event_is_no_relay_list() -> None:
    with pytest.raises(InvalidInput):
        parse_relay_list(Event("1" * 64, "2" * 64, 1, 3, (), "", ""))


@given(EVENTS)
def test_whatever_a_list_holds_it_is_read(event: Event) -> None:
    found = parse_relay_list(
        Event(event.id, event.pubkey, event.created_at, 10002, event.tags, "", "")
    )
    assert len(found.read) <= 50


def test_the_users_relays_come_first_and_are_not_doubled() -> None:
    chosen = choose([A, B, C], RelayChoice(own=(C, D), most=2))
    assert chosen.relays == (C, D, A, B)
    assert chosen.strangers == {A, B}


def test_at_most_so_many_relays_are_taken_from_a_list() -> None:
    assert choose([A, B, C, D, E], RelayChoice(most=3)).relays == (A, B, C)


def test_private_and_denied_relays_are_refused_with_the_reason() -> None:
    choice = RelayChoice(deny=frozenset([B, "bad.example"]))
    named = [
        "ws://127.0.0.1:7777",
        "ws://[::1]",
        B,
        "wss://relay.bad.example",
        "wss://notbad.example",
    ]
    chosen = choose(named, choice)
    assert chosen.relays == ("wss://notbad.example",)
    reasons = dict(chosen.refused)
    assert reasons[B] == reasons["wss://relay.bad.example"] == "on the deny list"
    assert "not a public address" in reasons["ws://127.0.0.1:7777"]


def test_the_user_may_name_the_own_network_and_strangers_may_not() -> None:
    mine = "ws://127.0.0.1:4869"
    chosen = choose([mine, "ws://127.0.0.1:1"], RelayChoice(own=(mine,)))
    assert chosen.relays == (mine,)
    assert not chosen.strangers


def test_the_deny_list_holds_for_the_users_own_relays_too() -> None:
    assert choose([], RelayChoice(own=(A,), defaults=(B,), deny=frozenset([A]))).relays == (B,)


def test_defaults_stand_in_where_the_list_gives_nothing() -> None:
    assert choose([], RelayChoice(defaults=(A, B))).relays == (A, B)
    assert choose(["ws://10.0.0.1"], RelayChoice(defaults=(A,))).relays == (A,)
    assert choose([C], RelayChoice(defaults=(A,))).relays == (C,)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InvalidInput):
        RelayChoice(most=0)
    with pytest.raises(InvalidRelayURL):
        RelayChoice(own=("ftp://x.example",))


def test_the_cover_shares_relays() -> None:
    wanted = {"x": [A, B], "y": [C, B], "z": [B, D]}
    assert greedy_cover(wanted, per_target=1) == {"x": (B,), "y": (B,), "z": (B,)}


def test_each_target_has_one_relay_before_any_has_two() -> None:
    wanted = {"x": [A, B, C], "y": [D], "z": [E]}
    found = greedy_cover(wanted, per_target=3, most_relays=3)
    assert all(found.values())
    assert sum(map(len, found.values())) == 3


def test_many_targets_are_covered_by_few_relays() -> None:
    """Seed 1: relays chosen by popularity, as people do; the cover needs far fewer than the sum."""
    rng = random.Random(1)
    relays = [f"wss://r{i}.example.com" for i in range(300)]
    weights = [1 / (i + 1) for i in range(300)]
    wanted = {str(n): list(dict.fromkeys(rng.choices(relays, weights, k=6))) for n in range(1000)}
    found = choose_many(wanted, RelayChoice(most=2))
    used = {url for chosen in found.values() for url in chosen.relays}
    naive = {url for urls in wanted.values() for url in urls[:2]}
    assert all(len(found[t].relays) == min(2, len(urls)) for t, urls in wanted.items())
    assert len(used) < len(naive) / 2


URLS = st.sampled_from([f"wss://{x}.example.com" for x in "abcdefgh"])
WANTED = st.dictionaries(st.text("xyz", max_size=3), st.lists(URLS, unique=True), max_size=8)


@given(WANTED, st.integers(1, 4), st.none() | st.integers(0, 4), st.randoms())
def test_the_cover_keeps_its_bounds_in_any_order(
    wanted: dict[str, list[str]], per_target: int, most: int | None, rng: random.Random
) -> None:
    found = greedy_cover(wanted, per_target=per_target, most_relays=most)
    for target, urls in wanted.items():
        assert set(found[target]) <= set(urls)
        assert len(found[target]) == len(set(found[target]))
        if most is None:
            assert len(found[target]) == min(per_target, len(urls))
    used = {url for urls in found.values() for url in urls}
    assert most is None or len(used) <= most
    shuffled = list(wanted.items())
    rng.shuffle(shuffled)
    assert greedy_cover(dict(shuffled), per_target=per_target, most_relays=most) == found
