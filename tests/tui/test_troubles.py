"""What is wrong: one cause is one sentence and counts once, on every page alike."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.tui import world
from tests.tui.driving import driving
from tui.pages.troubles import Trouble, number_of, of_all, troubles_of

if TYPE_CHECKING:
    from agent.api.schema import WatchState
    from tests.tui.backend import Recorded, Served

RELAYS = {one.url: one for one in world.RELAYS}
REFUSED = f"{world.GONE}: no answer: connection refused"
ONE = world.watch(
    "one",
    "followers",
    world.exact(7),
    failing=(world.GONE,),
    warnings=(REFUSED, REFUSED, f"{world.GONE}/: read 2h ago", f"{world.LIAR}: left out"),
)


def test_a_relay_that_fails_is_one_cause_with_all_of_its_warnings() -> None:
    assert troubles_of(ONE, RELAYS) == [
        Trouble(world.GONE, ("no answer: connection refused", "read 2h ago"), fails=True),
        Trouble(world.LIAR, ("left out",)),
    ]
    assert [each.sentence for each in troubles_of(ONE, RELAYS)] == [
        f"{world.GONE} fails: no answer: connection refused; read 2h ago",
        f"{world.LIAR} has a warning: left out",
    ]
    bare = msgspec.structs.replace(ONE, warnings=())
    (told,) = troubles_of(bare, RELAYS)
    assert told.sentence == f"{world.GONE} fails: connection refused"
    (told,) = troubles_of(bare, {})
    assert told.sentence == f"{world.GONE} fails"


def test_a_cause_of_many_watches_is_one_line() -> None:
    other = msgspec.structs.replace(
        ONE, spec=msgspec.structs.replace(ONE.spec, name="other"), warnings=(REFUSED, "no relay")
    )
    bare = msgspec.structs.replace(ONE, warnings=(REFUSED, f"{world.GONE}: slow"))
    assert of_all([bare, other], RELAYS) == [
        "gone.example.org fails in 2 watches: no answer: connection refused (one, other);"
        " slow (one)",
        "other: no relay",
    ]
    same = [other, *(_named(other, name) for name in ("b", "c", "d", "e"))]
    assert of_all(same, RELAYS, most=2) == [
        "5 watches (other, b and 3 more): no relay",
        "gone.example.org fails in 5 watches (other, b and 3 more): no answer: connection refused",
    ]


def _named(one: WatchState, name: str) -> WatchState:
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, name=name))


@given(
    st.dictionaries(
        st.sampled_from(("one", "two", "three", "four")),
        st.lists(st.sampled_from(("slow", "a bare zero", "left out")), unique=True, min_size=1),
        min_size=1,
    )
)
def test_every_reason_stands_beside_every_watch_that_has_it(reasons: dict[str, list[str]]) -> None:
    watches = [
        world.watch(name, "followers", None, warnings=tuple(f"{world.LIAR}: {r}" for r in texts))
        for name, texts in reasons.items()
    ]
    (line,) = of_all(watches, RELAYS)
    for name, texts in reasons.items():
        for reason in texts:
            alone = rf"in {name}: .*{reason}|in \d watches \([^)]*\b{name}\b[^)]*\): .*{reason}"
            assert re.search(rf"{alone}|{reason} \([^)]*\b{name}\b[^)]*\)", line), line
        for reason in {"slow", "a bare zero", "left out"} - set(texts):
            assert not re.search(rf"{reason} \([^)]*\b{name}\b[^)]*\)", line), line


@given(
    st.lists(st.sampled_from(world.URLS), unique=True),
    st.lists(st.tuples(st.sampled_from(("", *world.URLS)), st.sampled_from(["a", "b: c"]))),
)
def test_the_number_is_that_of_the_sentences_and_no_relay_has_two(
    failing: list[str], warnings: list[tuple[str, str]]
) -> None:
    texts = tuple(f"{url}: {text}" if url else text for url, text in warnings)
    one = world.watch("w", "followers", None, failing=tuple(failing), warnings=texts)
    found = troubles_of(one, RELAYS)
    assert number_of(one) == len(found)
    of_relays = [each.relay for each in found if each.relay]
    assert len(of_relays) == len(set(of_relays))
    assert set(of_relays) == {*failing, *(url for url, _ in warnings if url)}
    assert len({each.reasons for each in found if not each.relay}) == len(found) - len(of_relays)


async def test_every_page_says_one_failure_once(api: Served, agent: Recorded) -> None:
    one = msgspec.structs.replace(ONE, asked=3, answered=2, warnings=(REFUSED,))
    agent.watch_map = {"one": one}
    async with driving(api.api.url, (200, 60)) as tui:
        row = next(line for line in tui.text().splitlines() if " one " in f" {line.strip()} ")
        assert row.split()[-1] == "1"
        shown = tui.static("#panel-alerts")
        assert shown.count("gone.example.org") == 1
        await tui.press("w")
        text = tui.static("VerticalScroll Static")
        assert text.count("connection refused") == 1
        await tui.press("escape", "enter")
        facts = tui.static("#facts")
        assert facts.count("connection refused") == 1
