"""Which filters are listened to: few, and none of what watches want is missed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.watch.live import MOST_FILTERS, MOST_REQUESTS, MOST_VALUES, live_filters
from tests.worlds import signer

IDS = [bytes([n]).hex() * 32 for n in range(256)]


def test_watches_of_one_shape_share_a_filter() -> None:
    asked = [Filter(kinds=[7], tags={"#e": [one]}) for one in IDS[:100]]
    ((found,),) = live_filters(asked, 5)
    assert found.kinds == (7,)
    assert found.since == 5
    assert found.tags == (("#e", tuple(IDS[:100])),)


def test_many_targets_are_cut_into_filters_and_requests() -> None:
    asked = [Filter(kinds=[7], tags={"#t": [f"t{n}"]}) for n in range(20_000)]
    found = live_filters(asked, 5)
    assert len(found) == MOST_REQUESTS
    assert all(len(request) <= MOST_FILTERS for request in found)
    assert all(len(one.tags[0][1]) <= MOST_VALUES for request in found for one in request)


def test_limits_and_times_do_not_hide_what_is_new() -> None:
    ((found,),) = live_filters([Filter(authors=[IDS[1]], limit=0, since=3)], 9)
    assert (found.limit, found.since) == (None, 9)
    ((later,),) = live_filters([Filter(authors=[IDS[1]], since=30)], 9)
    assert later.since == 30


def test_stored_events_are_bounded() -> None:
    asked = [Filter(kinds=[7], tags={"#e": [IDS[1]]}), Filter(authors=[IDS[1]], limit=3)]
    ((shaped, alone),) = live_filters(asked, 5, 70)
    assert (shaped.limit, alone.limit) == (70, 70)


FILTERS = st.builds(
    Filter,
    kinds=st.none() | st.lists(st.sampled_from([1, 3, 7]), min_size=1, max_size=2),
    authors=st.none() | st.just([signer(1).pubkey]),
    tags=st.dictionaries(
        st.sampled_from(["#t", "#r"]), st.lists(st.sampled_from("abc"), min_size=1), max_size=2
    ),
    until=st.none() | st.just(2_000_000_000),
)


@given(st.lists(FILTERS, max_size=8), st.sampled_from([1, 3, 7]), st.sampled_from("abcd"))
def test_what_a_watch_counts_is_heard(asked: list[Filter], kind: int, tag: str) -> None:
    template = EventTemplate(kind=kind, tags=(("t", tag), ("r", tag)), created_at=1_700_000_000)
    event = signer(1).sign_now(template).event
    wanted = any(one.matches(event) for one in asked)
    heard = any(one.matches(event) for request in live_filters(asked, 0) for one in request)
    assert heard or not wanted
