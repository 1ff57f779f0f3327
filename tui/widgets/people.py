"""How a person looks in a table: when, what and who. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.codecs.display import plural
from tui import format
from tui.widgets.columns import Column
from tui.widgets.grid import Cell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.api.schema import People, Person

COLUMNS: Final = (
    Column("seen", "Seen", 5, right=True),
    Column("what", "Action", 14, flex=1, most=40),
    Column("who", "Person", 20, flex=2, middle=True),
)
SINCE_S: Final = 30 * 86_400.0
"""Seconds of the past whose people are shown."""

LOST: Final = frozenset({"unfollowed", "no longer seen"})
"""Acts of people who are gone."""

_TONES: Final = {"unfollowed": "bad", "no longer seen": "warn", "follows": "dim"}


def key_of(one: Person) -> str:
    """The key of a person's row."""
    return f"{one.event} {one.act}"


def age_of(one: Person, now: float) -> str:
    """How long ago this store saw what a person did."""
    return format.age(max(0.0, now - one.seen_at))


def row(one: Person, now: float) -> Mapping[str, Cell]:
    """The cells of one person."""
    return {
        "seen": Cell(age_of(one, now), "dim"),
        "what": Cell(one.what, _TONES.get(one.act, "good")),
        "who": Cell(one.person, "strong"),
    }


def whole(one: Person) -> str:
    """All that is known of what a person did, for reading."""
    lines = [
        one.person,
        "",
        one.what,
        f"The event says {format.clock(one.at, date=True)}",
        f"This store saw it {format.clock(one.seen_at, date=True)}",
        f"Event {one.event}",
    ]
    if one.keys is not None:
        before = "" if one.keys_before is None else f", {one.keys_before:,} before"
        lines.append(f"The newer list names {plural(one.keys, 'key')}{before}")
    return "\n".join(map(format.plain, lines))


def beyond(found: People, way: str) -> str:
    """What a list of people does not show, and the way to see it; "" where it shows all."""
    more = [f"and {found.more:,} more: {way}"] if found.more else []
    return "; ".join([*more, *([found.nameless] if found.nameless else [])])
