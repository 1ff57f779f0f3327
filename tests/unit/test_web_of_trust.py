"""The web of trust: equal to a brute force over the shared events, and its rules one by one."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs.event import Event, parse_event
from nostr_client.codecs.nip19 import PublicKey
from nostr_client.codecs.web_of_trust import FollowsAndMutes, Root, links_of, read_root, web_of
from nostr_client.errors import InvalidInput
from tests.conftest import shared_path

ME, A, B, C, D, E = (f"{n:064x}" for n in range(1, 7))
Lists = dict[str, dict[int, set[str]]]


def event(author: str, kind: int, named: list[str], at: int = 1, id: int = 1) -> Event:
    tags = tuple(("p", key) for key in named)
    return Event(
        id=f"{id:064x}",
        pubkey=author,
        created_at=at,
        kind=kind,
        tags=tags,
        content="",
        sig="0" * 128,
    )


def newest_lists(rows: list[dict[str, Any]]) -> Lists:
    """Whom the newest list of each author and kind names, in plain Python."""
    found: Lists = {}
    for row in sorted(rows, key=lambda row: (row["created_at"], [-ord(c) for c in row["id"]])):
        if row["kind"] in (3, 10000):
            values = [tag[1] for tag in row["tags"] if len(tag) > 1 and tag[0] == "p"]
            named = {v for v in values if len(v) == 64 and set(v) <= set("0123456789abcdef")}
            found.setdefault(row["pubkey"], {})[row["kind"]] = named
    return found


def brute_force(lists: Lists, root: str, depth: int) -> dict[str, int]:
    """Ranks by the documented rules, person by person."""
    own = lists.get(root, {})
    muted = own.get(10000, set())
    near = {key for key in own.get(3, set()) if key != root and key not in muted}
    follows: list[str] = []
    mutes: list[str] = []
    for one in near:
        follows += lists.get(one, {}).get(3, ())
        mutes += lists.get(one, {}).get(10000, ())
    score_of = dict.fromkeys([*near, *follows, *mutes], 0)
    for person in follows:
        score_of[person] += 1
    for person in mutes:
        score_of[person] -= 1
    ranks = {}
    for person, difference in score_of.items():
        score = max(difference, 0)
        if person in near:
            ranks[person] = 50 + math.floor(math.sqrt(2500 * score // len(near)))
        elif depth == 2 and score and person != root and person not in muted:
            ranks[person] = 1 + math.floor(math.sqrt(2304 * score // len(near)))
    return ranks


def test_the_web_equals_a_brute_force_for_a_hundred_authors_of_the_shared_events() -> None:
    lines = shared_path("data/events.jsonl").read_bytes().splitlines()
    rows = [json.loads(line) for line in lines]
    lists = newest_lists(rows)
    links = links_of(parse_event(line) for line in lines)
    writers = sorted(author for author, kinds in lists.items() if 3 in kinds)
    others = sorted({row["pubkey"] for row in rows} - set(writers))
    people = 0
    for author in [*writers, *others][:100]:
        for depth in (1, 2):
            web = web_of(Root(author, depth), links)
            assert dict(web.ranks) == brute_force(lists, author, depth)
            people += len(web.ranks)
    assert people


WORLDS = st.dictionaries(
    st.sampled_from([ME, A, B, C, D, E]),
    st.tuples(
        st.sets(st.sampled_from([ME, A, B, C, D, E])), st.sets(st.sampled_from([ME, A, B, C, D, E]))
    ),
)


@given(WORLDS, st.sampled_from([1, 2]))
def test_the_web_equals_a_brute_force_in_random_worlds(
    world: dict[str, tuple[set[str], set[str]]], depth: int
) -> None:
    events = [
        event(author, kind, sorted(named))
        for author, (follows, mutes) in world.items()
        for kind, named in ((3, follows), (10000, mutes))
    ]
    rows = [
        {"id": e.id, "pubkey": e.pubkey, "created_at": 1, "kind": e.kind, "tags": e.tags}
        for e in events
    ]
    web = web_of(Root(ME, depth), links_of(events))
    assert dict(web.ranks) == brute_force(newest_lists(rows), ME, depth)
    assert all(0 < rank <= 100 for rank in web.ranks.values())


def test_depth_1_is_whom_the_key_follows_and_depth_2_adds_whom_they_follow() -> None:
    links = {
        ME: FollowsAndMutes(frozenset({A, B})),
        A: FollowsAndMutes(frozenset({B, C})),
        C: FollowsAndMutes(frozenset({D})),
    }
    assert set(web_of(Root(ME, 1), links).ranks) == {A, B}
    assert set(web_of(Root(ME, 2), links).ranks) == {A, B, C}


def test_a_mute_by_the_key_removes_anybody() -> None:
    links = {
        ME: FollowsAndMutes(frozenset({A, B}), frozenset({B, C})),
        A: FollowsAndMutes(frozenset({C, D})),
    }
    assert set(web_of(Root(ME, 2), links).ranks) == {A, D}


def test_a_mute_by_a_followed_person_cancels_a_follow_by_another() -> None:
    links = {
        ME: FollowsAndMutes(frozenset({A, B})),
        A: FollowsAndMutes(frozenset({C, D})),
        B: FollowsAndMutes(frozenset({D}), frozenset({C})),
    }
    assert set(web_of(Root(ME, 2), links).ranks) == {A, B, D}


def test_followed_people_are_nearer_than_all_others() -> None:
    links = {
        ME: FollowsAndMutes(frozenset({A, B})),
        A: FollowsAndMutes(frozenset({C})),
        B: FollowsAndMutes(frozenset({C})),
    }
    web = web_of(Root(ME, 2), links)
    assert web.nearest_first == [A, B, C]
    assert web.rank(A) == 50
    assert web.rank(C) == 49
    assert web.rank(D) == 0


def test_a_web_of_depth_2_says_how_many_lists_are_missing() -> None:
    web = web_of(
        Root(ME, 2), {ME: FollowsAndMutes(frozenset({A, B})), A: FollowsAndMutes(frozenset())}
    )
    assert (web.lists, web.followed, web.complete) == (1, 2, False)


def test_only_the_newest_list_and_real_keys_count() -> None:
    old, new = event(ME, 3, [A, B], 1), event(ME, 3, [B, "x", B.upper()], 2)
    assert links_of([new, old])[ME] == FollowsAndMutes(frozenset({B}))
    tied = event(ME, 3, [C], 2, id=0)
    assert links_of([new, tied])[ME] == FollowsAndMutes(frozenset({C}))


def test_a_root_is_a_key_or_me_with_a_depth() -> None:
    npub = PublicKey(A).encode()
    assert read_root(npub) == Root(A, 1)
    assert read_root(f"nostr:{npub}:2") == Root(A, 2)
    assert read_root("me:2", B) == Root(B, 2)
    assert str(Root(A, 2)) == f"{npub}:2"


@pytest.mark.parametrize("text", ["me", "me:3", f"{A}:0", "you", ""])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_root(text)
